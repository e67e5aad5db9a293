"""Strategies of other packages: found by entry point, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from scenewright.graphs.strategies import registry
from scenewright.graphs.strategies.registry import StrategyError, strategies, strategy_of
from scenewright.graphs.strategies.repairs import Resample


class Patient(Resample):
    """A user's own strategy."""

    name = "patient"
    about = "Wait and draw again."


class Nameless:
    """No strategy at all."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    strategies.cache_clear()
    yield
    strategies.cache_clear()


def installed(monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    point = EntryPoint(name, f"{__name__}:{kind}", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([point]))


def test_an_installed_strategy_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "patient", "Patient")
    assert isinstance(strategy_of("patient"), Patient)
    assert "feedback" in strategies()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("patient", "Absent", "cannot be loaded"),
        ("patient", "Nameless", "is not a strategy named 'patient'"),
        ("another", "Patient", "is not a strategy named 'another'"),
        ("resample", "Resample", "two strategies 'resample'"),
    ],
)
def test_a_wrong_one_says_why(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str, message: str
) -> None:
    installed(monkeypatch, name, kind)
    with pytest.raises(StrategyError, match=message):
        strategies()

"""A kind of judge is one line in a table: profiles name it, and it is built by its factory."""

from __future__ import annotations

import pytest

from scenewright.config.profiles import JUDGE_KINDS, BackendSpec, Profile, SettingsError, account_of
from scenewright.config.settings import Settings
from scenewright.core.ports.judge import Judge
from scenewright.runs.model_factory.profiles import build_judge
from tests.doubles import ScriptedJudge


def echo_judge(spec: str, settings: Settings, detector: str | None) -> Judge:
    """Return a judge that confirms everything."""
    return ScriptedJudge(spec.partition(":")[2])


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(JUDGE_KINDS, "echo", f"{__name__}:echo_judge")


@pytest.mark.usefixtures("echo")
def test_kind_of_the_table_is_built_by_its_factory_and_needs_no_account() -> None:
    own = Profile(
        name="own", backend=BackendSpec(kind="diffusers", model="m"), judges=("echo:loud",)
    )
    assert own.accounts == set()
    assert account_of("echo:loud") is None
    assert build_judge("echo:loud", Settings()).id == "scripted:loud"


def test_other_kinds_are_accounts() -> None:
    with pytest.raises(SettingsError, match="echo"):
        build_judge("echo:loud", Settings())

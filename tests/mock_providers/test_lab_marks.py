"""The mock server gives pictures marks over the providers' wires, and the metric takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import Settings
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.registry import metric_of
from scenewright.mock_providers import ThreadedMockProviders
from tests.doubles import painted

PROVIDERS = ("openai", "gemini", "anthropic")


@pytest.fixture(autouse=True)
def lab_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", key)


def settings(lab: ThreadedMockProviders, provider: str) -> Settings:
    url = lab.openai_url if provider == "openai" else lab.url
    account = {"provider": provider, "base_url": url, "key_variable": "LAB_KEY"}
    return Settings.model_validate({"accounts": {"lab": account}})


def sample(text: str = "a red dog") -> Sample:
    image = painted((64, 64), (200, 40, 40))
    return Sample(Item(id="x", prompt=text), text, "a" * 64, lambda: image)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_marks_over_every_wire(
    lab: ThreadedMockProviders, provider: str, tmp_path: Path
) -> None:
    options = {"judges": "lab:instant", "folder": str(tmp_path / provider)}
    metric: Any = metric_of("direct", options, settings(lab, provider))
    first = await metric.score(sample())
    assert first.value is not None, first.reason
    assert 0.0 <= first.value <= 1.0
    whole = {first.parts[k] for k in ("consistency", "naturalness", "artifacts")}
    assert all(mark == round(mark, 9) and abs(mark - round(mark)) < 1e-9 for mark in whole)
    assert first.parts["judge:lab:instant"] == first.value
    other = await metric.score(sample("two blue cats"))
    # Another text is another mark for consistency; how it looks is as it was.
    assert other.parts["naturalness"] == first.parts["naturalness"]
    assert other.parts["consistency"] != first.parts["consistency"]

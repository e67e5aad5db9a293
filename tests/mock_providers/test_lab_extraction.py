"""Pictures are read by language models over the wire, with the views and boxes they are sent."""

from __future__ import annotations

import pytest

from scenewright.config.settings import Settings
from scenewright.core.formats import load_scene
from scenewright.core.scene import Relation
from scenewright.miniature.painter import paint
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.runs.model_factory.extractors import extractor_of

PROVIDERS = ("openai", "gemini", "anthropic")


def settings(
    lab: ThreadedMockProviders, provider: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    url = lab.openai_url if provider == "openai" else lab.url
    monkeypatch.setenv("LAB_KEY", key)
    account = {"provider": provider, "base_url": url, "key_variable": "LAB_KEY"}
    return Settings.model_validate({"accounts": {"lab": account}})


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_two_stages_read_a_painting_through_a_provider(
    lab: ThreadedMockProviders, provider: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painting = paint(load_scene("red ball on green table; yellow dog left of green table"), 2)
    reader = extractor_of("two-stage:lab:judge-a", settings(lab, provider, key, monkeypatch))
    found = await reader.extract(painting.image)
    await reader.aclose()
    assert found.complete
    assert sorted(item.name for item in found.scene.objects) == ["ball", "dog", "table"]
    # The key sets of the paper: a table has a colour and a material, and the mock sees no material.
    colours = {item.name: item.attributes.get("primary color") for item in found.scene.objects}
    assert colours == {"ball": "red", "dog": "yellow", "table": "green"}
    assert Relation(source="ball.1", predicate="on", target="table.1") in found.scene.relations


async def test_one_stage_reads_a_painting_through_a_provider(
    lab: ThreadedMockProviders, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painting = paint(load_scene("red ball on green table"), 3)
    reader = extractor_of("one-stage:lab:judge-a", settings(lab, "openai", key, monkeypatch))
    found = await reader.extract(painting.image)
    await reader.aclose()
    assert {(item.name, item.attributes["color"]) for item in found.scene.objects} == {
        ("ball", "red"),
        ("table", "green"),
    }
    assert found.things == {}

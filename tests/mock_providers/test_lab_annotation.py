"""The mock server answers what the building of a set asks, over every wire format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.models import caps_of
from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection
from scenewright.evals.annotation import text_stages
from scenewright.evals.annotation.panel_queries import TextModel, Voter
from scenewright.evals.annotation.pipeline import Building
from scenewright.evals.store.ledger import Ledger
from scenewright.miniature.painter import paint
from scenewright.miniature.world import COLORS, KINDS, PREDICATES
from scenewright.mock_providers import ThreadedMockProviders, tool_replies
from scenewright.mock_providers.tool_replies import TEXT_TOOLS
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError
from scenewright.tools.vision.extraction import one_stage
from scenewright.tools.vision.extraction.one_stage import PictureParser
from tests.evals.annotation.building import Photos, config_of
from tests.isomorphism import isomorphic

PROVIDERS = ("openai", "gemini", "anthropic")


@asynccontextmanager
async def parser(
    lab: ThreadedMockProviders, provider: str, model: str, key: str, attempts: int = 3
) -> AsyncIterator[PictureParser]:
    caller = Caller("lab", priced=False, attempts=attempts)
    url = lab.openai_url if provider == "openai" else lab.url
    chat = account_chat(provider, model, caller, api_key=key, base_url=url)
    try:
        yield PictureParser(chat, caps_of(provider, model).preparation)
    finally:
        await chat.aclose()
        await caller.aclose()


def painting() -> tuple[Image.Image, list[Detection]]:
    made = paint(load_scene("ball on table; dog left of table", format="triplets"), 3)
    found = []
    for item in made.scene.objects:
        box = made.truth.boxes[item.id]
        left, top = float(box.left), float(box.top)
        found.append(Detection(item.name, (left, top, left + box.width, top + box.height)))
    return made.image, found


def test_the_lab_knows_the_words_of_its_models() -> None:
    assert set(KINDS) == set(tool_replies.KINDS)
    assert set(COLORS) == set(tool_replies.COLORS)
    # Near says little beside a direction, and judges would confirm both.
    assert set(PREDICATES) - {"near"} == set(tool_replies.PREDICATES)


def test_the_lab_knows_the_tools_of_the_prompts() -> None:
    prompts = {
        text_stages.SYNONYMS_PROMPT,
        text_stages.CLASSES_PROMPT,
        text_stages.ATTRIBUTES_PROMPT,
    }
    assert prompts <= set(TEXT_TOOLS.values())
    assert load_prompt(one_stage.BOXES_PROMPT).tool == tool_replies.RELATIONS_TOOL


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_judge_names_the_relations_of_boxes(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    image, found = painting()
    async with parser(lab, provider, "judge-a", key) as one:
        scene = await one.parse(image, found)
    said = {(r.source, r.predicate, r.target) for r in scene.relations}
    assert ("ball.1", "on", "table.1") in said
    assert {("dog.1", "left of", "table.1"), ("table.1", "right of", "dog.1")} & said
    pairs = [frozenset((s, t)) for s, _, t in said]
    assert len(pairs) == len(set(pairs))


async def test_boxes_are_those_of_the_original(lab: ThreadedMockProviders, key: str) -> None:
    image, found = painting()
    large = image.resize((1280, 1280))
    boxes = [Detection(d.name, tuple(v * 10 for v in d.box)) for d in found]  # type: ignore[arg-type]
    async with parser(lab, "openai", "judge-a", key) as one:
        assert isomorphic(await one.parse(large, boxes), await one.parse(image, found))


async def test_a_judge_describes_a_whole_picture(lab: ThreadedMockProviders, key: str) -> None:
    image, _ = painting()
    async with parser(lab, "gemini", "judge-a", key) as one:
        scene = await one.parse(image)
    assert {"ball", "table", "dog"} <= {item.name for item in scene.objects}
    assert all(item.attributes.get("color") in COLORS for item in scene.objects)


async def test_instant_needs_boxes_and_repeats_itself(lab: ThreadedMockProviders, key: str) -> None:
    image, found = painting()
    async with parser(lab, "openai", "instant", key, attempts=1) as one:
        assert await one.parse(image, found) == await one.parse(image, found)
        with pytest.raises(CallError, match="names no objects"):
            await one.parse(image)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_bent_replies_are_mended_or_lost_with_a_reason(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    image, found = painting()
    async with parser(lab, provider, "instant", key) as one:
        straight = await one.parse(image, found)
        for fault in ("invalid_json", "empty", "503", "wrong_number"):
            lab.schedule(fault, key=key)
            assert await one.parse(image, found) == straight, fault
        lab.schedule("refusal", 2, key=key)
        with pytest.raises((ReplyError, CallError)):
            await one.parse(image, found)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_set_is_built_over_the_wire(
    lab: ThreadedMockProviders, key: str, provider: str, tmp_path: Path
) -> None:
    photos = Photos(tmp_path / "photos", 5)
    async with parser(lab, provider, "instant", key) as one:
        voter, text = Voter("x:instant", one), TextModel("x:instant", one.chat)
        config = config_of("x:instant", least_relations=0, batch=2)
        for _ in range(2):
            building = Building(config, photos, tmp_path / "set", [voter], text)
            try:
                made = await building.run(building.plan())
            finally:
                building.close()
        answered = lab.report()["accounts"][key]["answered"]
    assert (made.graphs, made.problems) == (5, [])
    assert "unclassified" not in made.statistics["classes"]
    # Five photos, three batches of classes, one list of categories and at most one of synonyms.
    assert answered in (9, 10)
    with Ledger(tmp_path / "set" / "ledger.sqlite") as ledger:
        spent = ledger.spent()
    assert spent["photo", "x:instant"]["tokens_in"] > 5 * 20


async def test_synonyms_go_by_the_planners_table(
    lab: ThreadedMockProviders, key: str, tmp_path: Path
) -> None:
    async with parser(lab, "openai", "gpt-4.1-mini", key) as one:
        with Ledger(tmp_path / "ledger") as ledger:
            found = await text_stages.propose_synonyms(
                ledger, TextModel("x:y", one.chat), {"on": 5, "on top of": 2, "chasing": 1}
            )
    assert found.mapping == {"on top of": "on"}


def test_boxes_are_read_wherever_they_stand() -> None:
    text = 'objects are [\n "dog.1:[1, 2, 3, 4]",\n "sports ball.2:[5, 6, 7, 8.5]"\n]. x:[1]'
    found = tool_replies.boxed_in(text)
    assert [(o.id, o.detection.name, o.detection.box) for o in found] == [
        ("dog.1", "dog", (1, 2, 3, 4)),
        ("sports ball.2", "sports ball", (5, 6, 7, 8.5)),
    ]
    assert tool_replies.boxed_in('"dog.1:[1, 2, 3]" "cat:[-,,.]"') == []

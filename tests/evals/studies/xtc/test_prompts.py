"""Generation prompts of scenes, and what becomes of their facts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from PIL import Image

from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.language import LanguageComposer, linearize
from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection
from scenewright.evals.datasets.base import Item
from scenewright.evals.studies.xtc.base import XtcError
from scenewright.evals.studies.xtc.prompting import prompt_of, views_of
from scenewright.tools.vision.extraction.views import GREY
from tests.agents.replying import Reply, ReplyingChat

SCENE = load_scene("red ball on blue table; dog left of table; cat near dog", format="triplets")
GOOD = (
    "A red ball lies on a blue table, a dog sits to the left of the table, and a cat is near the "
    "dog."
)
VIEW = Image.new("RGB", (12, 8), (200, 0, 0))


def described(text: str) -> str:
    return json.dumps({"description": text})


async def test_plain_sentences_are_written_where_there_is_no_model() -> None:
    prompt = await prompt_of(SCENE, seed=3)
    assert prompt.text == await SentenceComposer().compose(SCENE, 3)
    assert (prompt.author, prompt.lost, prompt.problem) == ("sentences", (), "")


async def test_what_places_say_is_not_lost() -> None:
    prompt = await prompt_of(SCENE, GridComposer())
    assert "left of" not in prompt.text
    lost = [fact.statement for fact in lost_facts(SCENE, prompt.text)]
    assert lost == ["cat near dog"]
    assert prompt.lost == ()


async def test_a_loss_is_told_for_any_composer() -> None:
    class Forgetful(TripletComposer):
        async def compose(self, scene: object, seed: int, within: object = None) -> str:
            return "red ball on table"

    prompt = await prompt_of(SCENE, Forgetful())
    assert prompt.author == "triplets"
    assert "dog" in [fact.statement for fact in prompt.lost]
    assert "table is blue" in [fact.statement for fact in prompt.lost]
    assert (await prompt_of(SCENE, TripletComposer())).lost == ()


def test_the_linear_form_has_a_line_an_object() -> None:
    lines = [
        ", ".join([line["object"], *line["relations"]]) for line in json.loads(linearize(SCENE))
    ]
    assert lines == [
        *("a red ball, on the blue table", "a blue table"),
        *("a dog, left of the blue table", "a cat, near the dog"),
    ]
    assert lost_facts(SCENE, ". ".join(lines)) == ()


def chat_that(whole: str) -> ReplyingChat:
    def reply(messages: list[BaseMessage]) -> Reply:
        text = str(messages[-1].text)
        if "Describe" not in text.split("**")[0]:
            return described(whole)
        shown = json.loads(text.split("```")[1].removeprefix("json\n"))
        return described(" ".join(["a", *shown["attributes"].values(), shown["label"]]))

    return ReplyingChat(replies=reply)


async def test_a_model_sees_the_view_of_an_object() -> None:
    chat = chat_that(GOOD)
    made = LanguageComposer(chat, stages=True)
    prompt = await prompt_of(SCENE, made, {"ball.1": VIEW})
    assert (prompt.text, prompt.author, prompt.lost) == (GOOD, "model", ())
    seen = [messages for messages in chat.sent if isinstance(messages[-1].content, list)]
    assert len(seen) == 1
    assert '"ball"' in str(seen[0][-1].text)
    blocks: list[Any] = list(seen[0][-1].content)
    assert [block["type"] for block in blocks] == ["image", "text"]


async def test_a_model_that_fails_leaves_it_to_plain_sentences() -> None:
    made = LanguageComposer(chat_that("a ball"), stages=True)
    prompt = await prompt_of(SCENE, made, seed=2)
    assert prompt.author == "sentences"
    assert prompt.text == await SentenceComposer().compose(SCENE, 2)
    assert prompt.lost == ()
    assert "does not state" in prompt.problem


def photographed(*boxes: tuple[str, tuple[float, float, float, float]]) -> Item:
    found = tuple(Detection(name, box) for name, box in boxes)
    return Item(id="photo", scene=SCENE, image="photo.png", detections=found)


def test_views_are_crops_of_the_photo() -> None:
    photo = Image.new("RGB", (40, 40), (0, 0, 200))
    photo.paste((200, 0, 0), (10, 10, 20, 20))
    item = photographed(
        ("ball", (10, 10, 20, 20)), ("table", (20, 0, 40, 40)), ("dog", (50, 50, 60, 60)),
    )  # fmt: skip
    views = views_of(item, photo)
    # The dog's box is outside, and of the cat there is none.
    assert set(views) == {"ball.1", "table.1"}
    assert views["ball.1"].getpixel((views["ball.1"].width // 2,) * 2) == (200, 0, 0)
    corner = views["ball.1"].getpixel((0, 0))
    assert corner == pytest.approx(GREY, abs=8)


def test_of_two_of_a_class_there_are_views_only_where_it_is_clear_which_is_which() -> None:
    scene = load_scene("red dog near blue dog; blue dog near cat", format="triplets")
    names = [one.name for one in scene.objects]
    assert names.count("dog") > 1
    photo = Image.new("RGB", (40, 40))
    found = tuple(Detection(name, (at, 0, at + 8, 8)) for at, name in enumerate(names))
    item = Item(id="photo", scene=scene, image="photo.png", detections=found)
    assert set(views_of(item, photo)) == {one.id for one in scene.objects}
    fewer = item.model_copy(update={"detections": found[1:]})
    assert set(views_of(fewer, photo)) == {"cat.1"}


async def test_views_must_be_of_objects_of_the_scene() -> None:
    with pytest.raises(XtcError, match=r"horse\.1"):
        await prompt_of(SCENE, views={"horse.1": VIEW, "ball.1": VIEW})

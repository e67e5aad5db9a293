"""Eight strategies of asking a language model how real an object looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from PIL import Image

from scenewright.core.images import read_image
from scenewright.core.ports.vision import Detection, RealismError, RealismScorer
from scenewright.providers.usage import Usage, count
from scenewright.tools.vision.extraction.views import RED
from scenewright.tools.vision.realism.examples import Examples
from scenewright.tools.vision.realism.object_views import LEAST_SIDE, VIEW_WORDS
from scenewright.tools.vision.realism.vlm import (
    STRATEGIES,
    Strategy,
    VlmScorer,
    example_reply,
    read_scores,
)
from tests.agents.replying import ReplyingChat, TalkingChat
from tests.tools.vision.realism.rated import example

IMAGE = Image.new("RGB", (120, 90), (10, 60, 10))
DOG = Detection("red dog", (30, 20, 70, 60))
SAID = {"shape": 2, "texture": 4, "overall": 3}


def shown(message: Any) -> Image.Image:
    (block,) = [part for part in message.content if part["type"] == "image"]
    import base64

    return read_image(base64.b64decode(block["base64"]), "the view")


def test_there_are_the_eight_strategies_of_the_paper() -> None:
    assert len(STRATEGIES) == len(set(STRATEGIES.values())) == 8
    assert STRATEGIES["few-shot-crop-s5"] == Strategy(True, "crop", "s5")
    assert list(STRATEGIES)[:2] == ["zero-shot-img-base", "zero-shot-img-s5"]


@pytest.mark.parametrize("name", STRATEGIES)
async def test_a_strategy_shows_and_asks_what_it_says(name: str, tmp_path: Path) -> None:
    strategy = STRATEGIES[name]
    examples = Examples((example(tmp_path, "a", 1, 2), example(tmp_path, "b", 4.5, 5)), count=2)
    faults = {"faults": "none"} if strategy.wording == "s5" else {}
    chat = ReplyingChat(replies=[{**SAID, **faults}], sent=[], tools=[])
    scorer = VlmScorer(chat, strategy, examples if strategy.few_shot else None)
    assert isinstance(scorer, RealismScorer)
    (found,) = await scorer.score(IMAGE, [DOG])
    assert (found.shape, found.texture, found.joint, found.reason) == (2, 4, 3, "")
    (sent,) = chat.sent
    *before, last = sent
    assert isinstance(last, HumanMessage)
    assert VIEW_WORDS[strategy.view] in last.text
    assert '"red dog"' in last.text
    assert ("describe" in last.text) == (strategy.wording == "s5")
    view = shown(last)
    red = RED in {color for _, color in view.getcolors(view.width * view.height) or []}
    assert (view.size, red) == (
        (IMAGE.size, True) if strategy.view == "img" else ((LEAST_SIDE, LEAST_SIDE), False)
    )
    tool = chat.tools[0]["function"]
    kind = "number" if strategy.wording == "s5" else "integer"
    assert tool["name"] == "record_realism"
    assert tool["parameters"]["properties"]["shape"]["type"] == kind
    if strategy.few_shot:
        assert [type(m) for m in before] == [HumanMessage, AIMessage] * 2
        told = [json.loads(str(m.text)) for m in before[1::2]]
        assert ["faults" in one for one in told] == [strategy.wording == "s5"] * 2
        assert [one["shape"] for one in told] == ([1, 5] if kind == "integer" else [1, 4.5])
    else:
        assert before == []


def test_examples_are_told_on_the_scale_that_is_asked_for(tmp_path: Path) -> None:
    one = example(tmp_path, "a", 2.5, 4)
    assert example_reply(one, "base") == {"shape": 3, "texture": 4, "overall": 3}
    assert example_reply(one, "s5") == {
        "faults": "several", "shape": 2.5, "texture": 4, "overall": 3.25
    }  # fmt: skip
    assert example_reply(example(tmp_path, "b", 1, 1), "s5")["faults"] == "nearly everything"


async def test_a_failure_costs_its_object_alone_and_says_why() -> None:
    def replies(messages: list[Any]) -> Any:
        return RuntimeError("no line") if "cat" in messages[-1].text else SAID

    scorer = VlmScorer(ReplyingChat(replies=replies, sent=[], tools=[]))
    outside = Detection("dog", (500, 0, 600, 50))
    found = await scorer.score(IMAGE, [Detection("cat", DOG.box), DOG, outside])
    assert [one.shape for one in found] == [None, 2, None]
    assert found[0].reason == "RuntimeError: no line"
    assert "not inside a picture" in found[2].reason


async def test_a_bad_reply_may_be_mended_once() -> None:
    chat = ReplyingChat(replies=[{**SAID, "shape": 7}, SAID], sent=[], tools=[])
    (found,) = await VlmScorer(chat).score(IMAGE, [DOG])
    assert found.shape == 2
    assert "shape: write a number from 1 to 5" in chat.said(1)
    lost = ReplyingChat(replies=["It looks fine to me."], sent=[], tools=[])
    (found,) = await VlmScorer(lost).score(IMAGE, [DOG])
    assert (found.shape, "nothing usable" in found.reason) == (None, True)


async def test_a_model_without_tools_writes_json() -> None:
    chat = TalkingChat(replies=[f"Well: {json.dumps(SAID)}"], sent=[], tools=[])
    (found,) = await VlmScorer(chat).score(IMAGE, [DOG])
    assert (found.shape, found.texture, found.joint) == (2, 4, 3)


@pytest.mark.parametrize("bad", [None, "much", True, 0.99, 5.01, float("nan"), [3]])
def test_only_numbers_on_the_scale_are_scores(bad: Any) -> None:
    with pytest.raises(ValueError, match="texture: write a number from 1 to 5"):
        read_scores({**SAID, "texture": bad})
    assert read_scores({**SAID, "texture": "4.5"})["texture"] == 4.5


async def test_what_a_call_cost_is_its_objects() -> None:
    def replies(messages: list[Any]) -> Any:
        count(Usage(100, 7), 0.25, 1.5)
        return SAID

    chat = ReplyingChat(replies=replies, sent=[], tools=[])
    found = await VlmScorer(chat).score(IMAGE, [DOG, DOG])
    assert [(o.tokens_in, o.tokens_out, o.usd, o.seconds) for o in found] == [
        (100, 7, 0.25, 1.5)
    ] * 2


def test_the_fingerprint_holds_all_that_decides_a_score(tmp_path: Path) -> None:
    def chat(model: str = "a") -> ReplyingChat:
        return ReplyingChat(replies=[SAID], model=model)

    few = STRATEGIES["few-shot-img-base"]
    first = Examples((example(tmp_path, "a", 1, 2),))
    other = Examples((example(tmp_path, "b", 1, 3),))
    prints = [
        *(VlmScorer(chat(), s).fingerprint for s in STRATEGIES.values() if not s.few_shot),
        VlmScorer(chat("b")).fingerprint,
        VlmScorer(chat(), few, first).fingerprint,
        VlmScorer(chat(), few, other).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert VlmScorer(chat()).fingerprint == VlmScorer(chat()).fingerprint


def test_few_shots_need_examples_and_zero_shots_take_none(tmp_path: Path) -> None:
    chat = ReplyingChat(replies=[SAID])
    with pytest.raises(RealismError, match="needs examples"):
        VlmScorer(chat, STRATEGIES["few-shot-img-s5"])
    with pytest.raises(RealismError, match="takes no examples"):
        VlmScorer(chat, examples=Examples((example(tmp_path, "a", 1, 2),)))

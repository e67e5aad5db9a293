"""The mock server answers what scene graph evaluation asks, over every wire format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image, ImageDraw

from scenewright.agents.chat.language_replies import as_data, ask_for, tool_of
from scenewright.agents.chat.model import account_chat
from scenewright.agents.composers.check import lost_facts
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import prepare
from scenewright.agents.parsers.language import LanguageParser
from scenewright.core.formats import load_scene
from scenewright.evals.datasets.psg_prompts.rows import request_of
from scenewright.evals.datasets.psg_prompts.templates import DrawSpec, draw
from scenewright.miniature.painter import paint
from scenewright.miniature.truth import Painting
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.mock_providers.wire import listed
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError

PROVIDERS = ("openai", "gemini", "anthropic")
RED, BLUE = (255, 0, 0), (0, 0, 255)


@asynccontextmanager
async def build_chat(
    lab: ThreadedMockProviders, provider: str, model: str, key: str
) -> AsyncIterator[BaseChatModel]:
    caller = Caller("lab", priced=False, attempts=2)
    url = lab.openai_url if provider == "openai" else lab.url
    chat = account_chat(provider, model, caller, api_key=key, base_url=url)
    try:
        yield chat
    finally:
        await chat.aclose()
        await caller.aclose()


async def asked(
    chat: BaseChatModel,
    provider: str,
    tool: str,
    prompt_id: str,
    images: Sequence[Image.Image] = (),
    **variables: str,
) -> Mapping[str, Any]:
    prompt = load_prompt(prompt_id)
    assert prompt.tool == tool
    preparation = caps_of(provider, "judge-a").preparation
    parts: list[Any] = []
    for image in images:
        shown = await prepare(image, preparation)
        parts.append({"type": "image", "base64": shown.base64, "mime_type": shown.media_type})
    parts.append({"type": "text", "text": prompt.render(**variables)})
    message = HumanMessage(content=parts)
    return (await ask_for(chat, [message], tool_of(prompt), dict)).value


def painting() -> Painting:
    return paint(load_scene("red ball on green table; yellow dog left of green table"), 3)


def box_of(made: Painting, name: str) -> tuple[int, int, int, int]:
    (id_,) = (item.id for item in made.scene.objects if item.name == name)
    box = made.truth.boxes[id_]
    return box.left, box.top, box.left + box.width, box.top + box.height


def marked(made: Painting, subject: str, target: str) -> Image.Image:
    image = made.image.copy()
    pen = ImageDraw.Draw(image)
    for name, colour in ((subject, RED), (target, BLUE)):
        left, top, right, bottom = box_of(made, name)
        # Beside the things: on them a line would be a flaw of a small picture.
        pen.rectangle((left - 3, top - 3, right + 2, bottom + 2), outline=colour)
    return image


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_colours_are_read_from_the_whole_picture(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    made = painting()
    async with build_chat(lab, provider, "judge-a", key) as chat:
        for name, color in (("ball", "red"), ("dog", "yellow")):
            views = [made.image.crop(box_of(made, name)).resize((320, 320)), made.image]
            said = await asked(
                chat, provider, "record_attributes", "extract_attributes", views,
                key_set=as_data(["primary color", "material"]), label=as_data(name),
            )  # fmt: skip
            values = {row["key"]: row["value"] for row in said["attributes"]}
            assert values == {"primary color": color, "material": "unknown"}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_relation_is_verified_between_the_boxes(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    made = painting()
    said = {}
    async with build_chat(lab, provider, "judge-a", key) as chat:
        for subject, predicate, target in (
            ("ball", "on", "table"),
            ("ball", "under", "table"),
            ("dog", "on the left of", "table"),
            ("dog", "herding", "table"),
        ):
            found = await asked(
                chat, provider, "record_verification", "verify_relation",
                [marked(made, subject, target)],
                subject=as_data(subject), predicate=as_data(predicate), object=as_data(target),
            )  # fmt: skip
            said[predicate] = found["answer"]
    assert said == {"on": "Yes", "under": "No", "on the left of": "Yes", "herding": "No"}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_questions_are_answered_by_the_judge(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    questions = {
        "What is the color of the ball?": "red",
        "What is the color of the dog?": "yellow",
        "Is there a table in the image?": "yes",
        "Is there a cat in the image?": "no",
    }
    rows = [{"number": at, "question": text} for at, text in enumerate(questions, start=1)]
    async with build_chat(lab, provider, "judge-a", key) as chat:
        said = await asked(
            chat, provider, "record_answers", "answer_questions", [painting().image],
            questions=as_data(rows),
        )  # fmt: skip
    assert [row["number"] for row in said["answers"]] == [1, 2, 3, 4]
    assert [row["answer"] for row in said["answers"]] == list(questions.values())


async def test_instant_answers_all_of_them_the_same_each_time(
    lab: ThreadedMockProviders, key: str
) -> None:
    made = painting()
    async with build_chat(lab, "gemini", "instant", key) as chat:
        heard = [
            [
                await asked(
                    chat, "gemini", "record_attributes", "extract_attributes",
                    [made.image, made.image], key_set="color", label="zebra",
                ),
                await asked(
                    chat, "gemini", "record_verification", "verify_relation",
                    [marked(made, "dog", "ball")],
                    subject=as_data("dog"), predicate=as_data("herding"), object=as_data("ball"),
                ),
            ]
            for _ in range(2)
        ]  # fmt: skip
    assert heard[0] == heard[1]
    assert heard[0][1]["answer"] in ("Yes", "No")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_sentence_is_parsed(lab: ThreadedMockProviders, key: str, provider: str) -> None:
    async with build_chat(lab, provider, "judge-a", key) as chat:
        found = await LanguageParser(chat).parse("a red ball on a table")
    assert [item.name for item in found.objects] == ["ball", "table"]
    assert found.objects[0].attributes == {"color": "red"}
    assert [relation.predicate for relation in found.relations] == ["on"]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_texts_are_answered_by_rules(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    pairs = [
        {"number": 1, "question": "?", "gt_answer": "left of", "pred_answer": "Left of"},
        {"number": 2, "question": "?", "gt_answer": "dark red", "pred_answer": "red"},
        {"number": 3, "question": "?", "gt_answer": "dog", "pred_answer": "I cannot tell"},
    ]
    prompts = [{"number": 1, "prompt": "A cat is flying."}, {"number": 2, "prompt": "a girl"}]
    (drawn,) = draw(DrawSpec(names="paper", templates=("action",)), 1)
    async with build_chat(lab, provider, "judge-a", key) as chat:
        scores = await asked(chat, provider, "record_scores", "score_answers", pairs=as_data(pairs))
        classes = await asked(
            chat, provider, "record_challenges", "classify_challenges", prompts=as_data(prompts)
        )
        prompt = load_prompt("synthesize_prompt")
        tool = tool_of(prompt)
        text = (await ask_for(chat, [HumanMessage(request_of(drawn))], tool, dict)).value
    assert [(row["number"], row["score"]) for row in scores["scores"]] == [(1, 5), (2, 2), (3, 0)]
    assert classes["classes"] == [
        {"number": 1, "category": "ANIMALS", "challenge": "IMAGINATION"},
        {"number": 2, "category": "PEOPLE", "challenge": "NONE"},
    ]
    assert lost_facts(drawn.scene, text["prompt"]) == ()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_other_words_than_the_prompts_are_refused(
    lab: ThreadedMockProviders, key: str, provider: str
) -> None:
    prompt = load_prompt("score_answers")
    async with build_chat(lab, provider, "judge-a", key) as chat:
        with pytest.raises(CallError, match="the prompt score_answers"):
            await ask_for(chat, [HumanMessage("Score it.")], tool_of(prompt), dict)


@given(st.lists(st.text(alphabet="abc d", min_size=1).map(str.strip).filter(bool)))
def test_lists_of_a_prompt_are_read_in_both_forms(words: list[str]) -> None:
    assert listed(json.dumps(words)) == words
    assert listed(", ".join(words)) == words

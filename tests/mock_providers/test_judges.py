"""The miniature judges behind the providers' formats say what they say in the house."""

from __future__ import annotations

import io
import json
import math

import pytest

from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.questions import QuestionForm, facts_of
from scenewright.miniature.painter import paint
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers import ask, open_answers
from scenewright.providers.caller import Caller
from scenewright.runs.model_factory.profiles import build_judge
from tests.mock_providers.asking import Client, answers_of, body, parts_of, sheet

PLACES = ("left of", "right of", "on", "no visible relationship")


def test_a_judge_tells_what_is_painted(lab: ThreadedMockProviders, client: Client) -> None:
    painting = paint(load_scene("red ball on table; dog left of table", format="triplets"), 3)
    buffer = io.BytesIO()
    painting.image.save(buffer, "PNG")
    there = [fact for fact in facts_of(painting.scene) if fact.kind == "object"]
    asked = [*(fact.question for fact in there), "Is there a boat in the image?"]
    response = client.ask(
        "messages",
        text=sheet(*asked),
        image=buffer.getvalue(),
        model="miniature/judge-a",
        timeout=60,
    )
    answers = answers_of("messages", response.data)
    assert [answer["a"] for answer in answers] == ["yes"] * len(there) + ["no"]
    assert all(answer["p"] > 0.5 for answer in answers)


async def test_probabilities_are_the_judges_own(lab: ThreadedMockProviders, client: Client) -> None:
    image = paint(load_scene("dog left of table", format="triplets"), 3).image
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    options = dict(zip("ABCD", PLACES, strict=True))
    related = "What is the relationship between the dog and the table in the image?"
    text = sheet("Is there a dog in the image?", (related, options))
    given = {"text": text, "image": buffer.getvalue(), "model": "judge-b", "timeout": 60.0}
    facts = [
        Fact(id="dog", kind="object", subject="dog", statement="dog", question=text_of(text, 0)),
        *(
            Fact(
                id=place,
                kind="relation",
                subject="dog",
                statement=place,
                question=text_of(text, 1),
                options=PLACES,
                expected=place,
            )
            for place in PLACES
        ),
    ]
    judge = build_judge("local:miniature/judge-b")
    truth = [answer.probability or 0.0 for answer in await judge.answer(image, facts)]
    best = max(range(4), key=truth[1:].__getitem__)

    with_tool = answers_of("gemini", client.ask("gemini", **given).data)
    assert with_tool[0]["p"] == pytest.approx(max(truth[0], 1 - truth[0]), abs=1e-3)
    assert with_tool[1]["a"] == "ABCD"[best]
    assert with_tool[1]["p"] == pytest.approx(truth[1 + best], abs=1e-3)

    made = body("chat", text, buffer.getvalue(), "json", "judge-b", logprobs=20)
    data = client.ask("chat", made, timeout=60).data
    assert json.loads(parts_of("chat", data)["text"])["answers"] == with_tool
    tokens = [
        {top["token"]: math.exp(top["logprob"]) for top in token["top_logprobs"]}
        for token in data["choices"][0]["logprobs"]["content"]
        if len(token["top_logprobs"]) > 1
    ]
    assert tokens[0]["yes"] == pytest.approx(truth[0], abs=1e-3)
    assert [tokens[1][letter] for letter in "ABCD"] == pytest.approx(truth[1:], abs=1e-3)


@pytest.mark.parametrize("stems", [True, False])
async def test_a_sheet_changes_no_answer(lab: ThreadedMockProviders, key: str, stems: bool) -> None:
    asked = "red ball on table; dog left of table; lamp above ball; cat; tree; car; blue ball"
    scene = load_scene(asked, format="triplets")
    image = paint(load_scene("red ball on table; dog left of table", format="triplets"), 3).image
    form = QuestionForm(predicates="miniature")
    facts = form.facts(scene)
    caller = Caller("lab", priced=False)
    judge = remote_judge("gemini", "judge-a", caller, api_key=key, base_url=lab.url,
                         overrides={"stems": stems})  # fmt: skip
    said = await judge.answer(image, facts)
    alone = await build_judge("local:miniature/judge-a").answer(image, facts)
    assert [answer.choice for answer in said] == [answer.choice for answer in alone]
    assert len({answer.state for answer in said}) == 2
    await judge.aclose()
    await caller.aclose()


@pytest.mark.parametrize("there", [1, 2, 3])
async def test_one_question_for_a_number_finds_what_one_for_each_finds(
    lab: ThreadedMockProviders, key: str, there: int
) -> None:
    names = ["dog.1 on table", "dog.2 left of table", "dog.3 right of table"]
    image = paint(load_scene("\n".join(names[:there]), format="triplets"), 3).image
    facts = [f for f in QuestionForm().facts(load_scene("\n".join(names))) if f.kind == "object"]
    caller = Caller("lab", priced=False)
    judge = remote_judge("gemini", "judge-a", caller, api_key=key, base_url=lab.url)
    assert judge.caps.counts
    said = await ask(judge, "i", image, facts, store=open_answers(None, None))
    alone = await build_judge("local:miniature/judge-a").answer(image, facts)
    assert [answer.state for answer in said.answers] == [answer.state for answer in alone]
    await judge.aclose()
    await caller.aclose()


def text_of(text: str, number: int) -> str:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    question: str = lines[number][1]
    return question

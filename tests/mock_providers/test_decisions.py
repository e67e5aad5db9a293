"""Decision judges over the mock server: as every judge, and what the two formats say."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image

from scenewright.agents.judges.decisions.judge import DecisionJudge, decision_judge
from scenewright.agents.judges.decisions.questions import sheet_of
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of, realism_facts_of
from scenewright.miniature.painter import paint
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.mock_providers.decisions import question_of_statement
from scenewright.providers.caller import Caller
from scenewright.runs.model_factory.profiles import build_judge
from tests.agents.judges.conformance import JudgeConformance
from tests.mock_providers.asking import Client, picture

WIRES = ("openai", "gemini")
SCENE = load_scene("red ball left of table; dog right of table", format="triplets")
FACTS = (*facts_of(SCENE), *realism_facts_of(SCENE))


def made(
    wire: str, lab: ThreadedMockProviders, key: str, model: str = "instant", **overrides: Any
) -> DecisionJudge:
    url = lab.openai_url if wire == "openai" else lab.url
    caller = Caller("lab", timeout=30.0, priced=False)
    return decision_judge(
        wire, model, caller, api_key=key, base_url=url, overrides=overrides or None
    )


@pytest.mark.parametrize("wire", WIRES)
class TestConformance(JudgeConformance):
    @pytest.fixture
    async def judge(self, wire: str, lab: ThreadedMockProviders, key: str) -> AsyncIterator[Judge]:
        judge = made(wire, lab, key, orders=2)
        yield judge
        await judge.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_all_facts_go_in_one_request_and_nothing_comes_out(
    wire: str, lab: ThreadedMockProviders, key: str
) -> None:
    judge = made(wire, lab, key, orders=2)
    answers = await judge.answer(Image.open(io.BytesIO(picture())), FACTS)
    await judge.aclose()
    report = lab.report()["accounts"][key]
    assert report["arrivals"] == 1
    assert {answer.state for answer in answers} <= {"yes", "no"}
    assert {answer.method for answer in answers} == {"decision"}
    assert sum(answer.tokens_out for answer in answers) == 0
    spent = sum(answer.tokens_in for answer in answers)
    expected = judge.expected((64, 64), FACTS)
    assert expected.calls == 1
    assert expected.usage.tokens_in == pytest.approx(spent, rel=0.35)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_limits_of_the_wire_split_a_request(
    wire: str, lab: ThreadedMockProviders, key: str
) -> None:
    whole = made(wire, lab, key)
    split = made(wire, lab, key, questions_per_call=3)
    image = Image.open(io.BytesIO(picture()))
    together, apart = [await judge.answer(image, FACTS) for judge in (whole, split)]
    for judge in (whole, split):
        await judge.aclose()
    assert lab.report()["accounts"][key]["arrivals"] == 1 + -(-len(FACTS) // 3)
    said = [[(one.state, one.probability) for one in answers] for answers in (together, apart)]
    assert said[0] == said[1]


@pytest.mark.parametrize("wire", WIRES)
async def test_the_miniature_judges_decide_as_they_judge(
    wire: str, lab: ThreadedMockProviders, key: str
) -> None:
    image = paint(SCENE, 3).image
    judge = made(wire, lab, key, "judge-a", image_format="png")
    # The miniature has no words for realism, nor for all predicates of other sets.
    facts = facts_of(SCENE, predicates=load_predicates("miniature"))
    answers = await judge.answer(image, facts)
    await judge.aclose()
    own = await build_judge("local:miniature/judge-a").answer(image, facts)
    digits = 6e-3 if wire == "openai" else 2e-2
    for answer, other in zip(answers, own, strict=True):
        assert answer.probability == pytest.approx(other.probability, abs=digits), answer.fact_id


def test_a_statement_is_taken_apart_again() -> None:
    turned = sheet_of(FACTS[:1], 2, turns=True).questions
    asked = turned[0].text
    assert [question_of_statement(one.statement) for one in turned] == [
        (asked, True),
        (asked, False),
    ]
    assert question_of_statement("There is a dog.") == ("There is a dog.", True)


def test_openai_says_what_it_cannot_read(client: Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(picture()).decode()}"
    image = {"type": "input_image", "image_url": url}
    fine: dict[str, Any] = {"type": "predicate", "name": "f1", "instructions": "There is a dog."}

    def ask(*questions: Any, **body: Any) -> tuple[int, Any]:
        given = {
            "model": "instant",
            "input": [{"role": "user", "content": [image]}],
            "questions": list(questions),
            **body,
        }
        response = client.call(
            "POST", "/v1/decisions", json.dumps(given).encode(),
            {"authorization": f"Bearer {client.key}"},
        )  # fmt: skip
        return response.status, response.data

    status, data = ask(fine, {**fine, "name": "f2"})
    assert status == 200
    assert [answer["name"] for answer in data["answers"]] == ["f1", "f2"]
    assert data["model"] == "instant"
    assert data["usage"]["output_tokens"] == 0
    choices = [{"value": "on"}, {"value": "on"}]
    for wrong in (
        {"type": "maybe", "instructions": "?"},
        {"type": "choice", "instructions": "?", "choices": choices},
        {"type": "choice", "instructions": "?", "choices": choices[:1]},
        {"type": "score", "instructions": "?", "levels": [{"label": str(n)} for n in range(11)]},
        {"type": "predicate"},
    ):
        assert ask(wrong)[0] == 400
    assert ask()[0] == 400
    assert ask(*[fine] * 401)[0] == 400
    assert ask(fine, temperature=0.0)[0] == 400
    assert ask(fine, model="nobody")[0] == 404


def test_gemini_says_what_it_cannot_read(client: Client) -> None:
    image = {
        "type": "image", "mime_type": "image/png", "data": base64.b64encode(picture()).decode(),
    }  # fmt: skip
    fine: dict[str, Any] = {"type": "noul", "instructions": "Is there a dog?"}

    def ask(questions: Any, **body: Any) -> tuple[int, Any]:
        given = {"model": "models/instant", "input": [image], "questions": questions, **body}
        response = client.call(
            "POST", "/v1beta/decisions", json.dumps(given).encode(),
            {"x-goog-api-key": client.key},
        )  # fmt: skip
        return response.status, response.data

    status, data = ask({"f1": fine})
    assert status == 200
    assert 0.01 <= data["answers"]["f1"]["noul"] <= 0.99
    assert data["usage"]["total_output_tokens"] == 0
    for wrong in (
        {},
        {" f1": fine},
        {"f1": {**fine, "type": "maybe"}},
        {"f1": {"type": "choice", "instructions": "?", "criteria": {"on": ""}}},
        {"f1": {"type": "score", "instructions": "?", "criteria": ["bad", ""]}},
        {"f1": {"type": "noul"}},
    ):
        assert ask(wrong)[0] == 400
    assert ask({"f1": fine}, input="words alone")[0] == 400

"""Our judges at a server of others: ``transformers serve`` of the installed transformers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.judges.decisions.judge import DecisionJudge, decision_judge
from scenewright.agents.judges.decisions.local import LocalDecisionJudge
from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.judges.remote import remote_judge
from scenewright.config.accounts import NO_KEY
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of
from scenewright.miniature.painter import paint
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS, judge_folder
from tests.agents.judges.decisions.served import chatting, transformers_serve

pytestmark = pytest.mark.slow

SCENE = load_scene("red dog left of blue cat; green ball on yellow table")
# Options that the judges of the miniature were taught: a server knows nothing of their vocabulary.
FACTS = facts_of(SCENE, predicates=load_predicates("miniature"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chatting("miniature/judge-a", tmp_path_factory.mktemp("served") / "judge-a")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_serve(tmp_path_factory.mktemp("log") / "serve.log") as found:
        yield found


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("served", timeout=120.0, attempts=2, backoff=Backoff(initial=0.01), priced=False)
    yield made
    await made.aclose()


def judge_at(address: str, model: str | Path, caller: Caller, **settings: object) -> DecisionJudge:
    return decision_judge(
        "transformers", str(model), caller, api_key=NO_KEY, base_url=address, overrides=settings
    )


@pytest.fixture(scope="module")
def image() -> Image.Image:
    return paint(SCENE, seed=3).image


def probabilities(answers: list[Answer]) -> list[float | None]:
    return [answer.probability for answer in answers]


async def test_it_agrees_with_the_judge_in_this_process(
    address: str, folder: Path, caller: Caller, image: Image.Image
) -> None:
    """All facts in one request; the probabilities to 1e-3, and the tokens exactly."""
    there = judge_at(address, folder, caller)
    here = LocalDecisionJudge(
        folder, name="judge-a", device="cpu", config=MINIATURE_WEIGHTS / "decision.json"
    )
    said, expected = await there.answer(image, FACTS), await here.answer(image, FACTS)
    assert [answer.reason for answer in said] == [""] * len(FACTS)
    assert [answer.choice for answer in said] == [answer.choice for answer in expected]
    assert probabilities(said) == pytest.approx(probabilities(expected), abs=1e-3)
    for ours, theirs in zip(said, expected, strict=True):
        assert ours.distribution == (
            theirs.distribution and pytest.approx(theirs.distribution, abs=1e-3)
        )
        assert (ours.method, ours.prompt_id) == ("decision", theirs.prompt_id)
    assert sum(a.tokens_in for a in said) == sum(a.tokens_in for a in expected)
    assert sum(a.tokens_out for a in said) == 0
    assert {answer.model for answer in said} == {str(folder)}
    # What was painted is seen: the judges are no random numbers.
    assert sum(answer.state == "yes" for answer in said) >= len(FACTS) - 1
    for judge in (there, here):
        await judge.aclose()


async def test_two_orders_and_more_facts_than_a_request_holds(
    address: str, folder: Path, caller: Caller, image: Image.Image
) -> None:
    judge = judge_at(address, folder, caller, orders=2)
    many = tuple(
        fact.model_copy(update={"id": f"{fact.id} {at}"}) for at in range(7) for fact in FACTS
    )
    assert len(many) > 64
    answers = await judge.answer(image, many)
    assert {answer.state for answer in answers} <= {"yes", "no"}
    first = probabilities(answers[: len(FACTS)])
    for at in range(7):
        again = answers[at * len(FACTS) : (at + 1) * len(FACTS)]
        assert probabilities(again) == pytest.approx(first, abs=1e-5)
    await judge.aclose()


def relation(count: int) -> Fact:
    options = tuple(f"option {at}" for at in range(count))
    return Fact(
        id="c", kind="relation", subject="a", statement="s", question="Which?", options=options,
        expected=options[0],
    )  # fmt: skip


async def test_what_it_refuses_is_told_with_its_address(
    address: str, folder: Path, caller: Caller, image: Image.Image, tmp_path: Path
) -> None:
    many = judge_at(address, folder, caller)
    (answer,) = await many.answer(image, [relation(9)])
    assert answer.reason == (
        f"HTTP 422: transformers serve at {address}/v1/systemone: body.questions: Question 'f1': "
        "this model reads at most 8 options for a choice question, got 9 (`labels.choice` in its "
        "decision config). (the request was refused)"
    )
    (answer,) = await many.answer(image, [relation(27)])
    assert answer.reason == "27 options: offer at most 26"
    missing = judge_at(address, tmp_path / "nothing", caller)
    (answer,) = await missing.answer(image, FACTS[:1])
    # The server drops a connection after an error of its own: the second attempt may meet that, and
    # says it as the machine does (end of stream, reset by peer).
    at = re.escape(f"transformers serve at {address}/v1/systemone")
    told = (
        rf"(HTTP 500: {at}: Internal Server Error|{at}: no connection: .+?)( \(after 2 attempts\))?"
    )
    assert re.fullmatch(told, answer.reason)
    nobody = judge_at("http://127.0.0.1:9", folder, caller)
    (answer,) = await nobody.answer(image, FACTS[:1])
    assert answer.reason.startswith(
        "transformers serve at http://127.0.0.1:9/v1/systemone: no connection: "
    )
    for judge in (many, missing, nobody):
        await judge.aclose()


async def test_the_same_model_answers_sheets_over_chat_completions(
    address: str, folder: Path, caller: Caller, image: Image.Image
) -> None:
    """One fact a call: the judge of the miniature says one word. The server ignores a forced tool
    and log-probabilities, and turns the word into the tool's call by the model's own template."""
    chat = remote_judge(
        "openai",
        str(folder),
        caller,
        api_key=NO_KEY,
        base_url=f"{address}/v1",
        overrides={"facts_per_call": 1, "max_output_tokens": 1, "sampling": {}},
    )
    plain = LocalJudge(judge_folder("miniature/judge-a"), name="judge-a", device="cpu")
    said, expected = await chat.answer(image, FACTS), await plain.answer(image, FACTS)
    assert [answer.reason for answer in said] == [""] * len(FACTS)
    assert [answer.choice for answer in said] == [answer.choice for answer in expected]
    assert {answer.method for answer in said} == {"binary"}
    assert [answer.tokens_in for answer in said] == [answer.tokens_in for answer in expected]
    assert [answer.tokens_out for answer in said] == [1] * len(FACTS)
    for judge in (chat, plain):
        await judge.aclose()

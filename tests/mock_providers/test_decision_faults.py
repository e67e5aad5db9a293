"""Every fault of a decision model ends in the right state."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from PIL import Image

from scenewright.agents.judges.decisions.judge import DecisionJudge, decision_judge
from scenewright.agents.judges.decisions.questions import REFUSED
from scenewright.mock_providers import Fault, ThreadedMockProviders
from scenewright.providers.caller import Caller
from tests.mock_providers.asking import Client
from tests.mock_providers.faulty import (
    ATTEMPTS,
    FACTS,
    HARMLESS,
    NO_DECISION,
    decided,
    get_caller,
    said,
)

REASONS = {**NO_DECISION, Fault.REFUSAL: r"refused"}
"""What all facts say where a fault never passes."""


@pytest.fixture(params=["openai", "gemini"])
async def judge(
    request: pytest.FixtureRequest, slow_lab: ThreadedMockProviders, key: str
) -> AsyncIterator[DecisionJudge]:
    wire: str = request.param
    fault = request.node.callspec.params.get("fault")
    caller = get_caller(fault)
    url = slow_lab.openai_url if wire == "openai" else slow_lab.url
    made = decision_judge(wire, "instant", caller, api_key=key, base_url=url)
    # The first request of an SDK takes long enough to be taken for a hanging one.
    await made.answer(Image.new("RGB", (32, 32)), FACTS[:1])
    yield made
    await made.aclose()
    await caller.aclose()


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_fault_that_passes(
    judge: DecisionJudge, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    expected = await decided(judge)
    assert {answer.state for answer in expected} <= {"yes", "no"}
    slow_lab.schedule(fault, 1, key)
    answers = await decided(judge)
    assert slow_lab.report()["accounts"][key]["faults"] == {fault.value: 1}
    if fault is Fault.REFUSAL:
        assert {answer.state for answer in answers} == {"unscored"}
        assert slow_lab.report()["accounts"][key]["arrivals"] == 3
    elif fault is Fault.PARTIAL_REFUSAL and judge.id.startswith("decision:openai"):
        # A refusal of this wire is an answer: nobody asks again.
        assert [answer.state == "unscored" for answer in answers] == [
            at % 2 == 1 for at in range(len(FACTS))
        ]
        assert {answer.reason for answer in answers} == {"", REFUSED}
        assert said(answers)[::2] == said(expected)[::2]
    else:
        assert said(answers) == said(expected)


@pytest.mark.parametrize("fault", [*REASONS, *sorted(HARMLESS)])
async def test_a_fault_that_never_passes(
    judge: DecisionJudge, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    expected = await decided(judge)
    slow_lab.schedule(fault, 100, key)
    answers = await decided(judge)
    if fault in HARMLESS:
        assert said(answers) == said(expected)
        return
    for answer in answers:
        assert (answer.state, answer.probability, answer.method) == ("unscored", None, None)
        assert re.search(REASONS[fault], answer.reason), answer.reason
        assert key not in answer.reason
    assert slow_lab.report()["accounts"][key]["faults"][fault.value] <= ATTEMPTS


@pytest.mark.parametrize("fault", [Fault.PARTIAL_REFUSAL, Fault.WRONG_NUMBER])
async def test_a_fault_of_some_questions_costs_the_others_nothing(
    judge: DecisionJudge, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    expected = await decided(judge)
    slow_lab.schedule(fault, 100, key)
    answers = await decided(judge)
    right = [at for at, answer in enumerate(answers) if answer.state != "unscored"]
    assert right
    assert all(said(answers)[at] == said(expected)[at] for at in right)
    assert all(answer.reason for answer in answers if answer.state == "unscored")


async def test_a_model_that_is_swapped_in_the_middle_signs_its_answers(
    slow_lab: ThreadedMockProviders, key: str
) -> None:
    caller = Caller("lab", timeout=20.0, priced=False)
    made = decision_judge("openai", "instant-2", caller, api_key=key, base_url=slow_lab.openai_url)
    order = b'{"model": "instant-2", "by": "instant", "after": 1, "told": "instant-3"}'
    client = Client(slow_lab.url, key)
    try:
        assert client.call("POST", "/lab/swaps", order).status == 200
        before, after = await decided(made), await decided(made)
    finally:
        client.call("DELETE", "/lab/swaps")
        await made.aclose()
    assert {answer.model for answer in before} == {"instant-2"}
    assert {answer.model for answer in after} == {"instant-3"}
    assert said(before) != said(after)

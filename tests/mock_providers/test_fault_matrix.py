"""Every fault at every provider: answered after a retry, or unscored with the reason, in time."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator

import pytest
from PIL import Image

from scenewright.agents.judges.remote import RemoteJudge, remote_judge
from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Answer
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.mock_providers import Fault, ThreadedMockProviders
from tests.mock_providers.faulty import ATTEMPTS, NO_REPLY, caller_of, said

PROVIDERS = ("openai", "gemini", "anthropic")
NAMES = ("dog", "cat", "ball", "tree")
FACTS = facts_of(SceneGraph(objects=tuple(SceneObject(id=n, name=n) for n in NAMES)))
BOUND = 60.0
"""Far above what the attempts, their timeouts and the waits between them add up to (about 4 s)."""

# What a fault that never passes says.
REASONS = {
    **NO_REPLY,
    Fault.TRUNCATED_JSON: r"cut|(?i:max)|after 3 attempts",
    Fault.INVALID_JSON: r"JSON|malformed|MALFORMED|no list of answers",
    Fault.REFUSAL: r"(?i:refus|declin|blocked|safety)",
    Fault.EMPTY: r"(?i:empty|no content|nothing|no answer|holds no)",
    Fault.OUTSIDE_OPTIONS: r"option|none of",
}


@pytest.fixture(params=PROVIDERS)
async def judge(
    request: pytest.FixtureRequest, slow_lab: ThreadedMockProviders, key: str
) -> AsyncIterator[RemoteJudge]:
    provider: str = request.param
    fault = request.node.callspec.params.get("fault")
    caller = caller_of(fault)
    url = slow_lab.openai_url if provider == "openai" else slow_lab.url
    made = remote_judge(provider, "instant", caller, api_key=key, base_url=url)
    # The first request of an SDK takes long enough to be taken for a hanging one.
    await made.answer(Image.new("RGB", (32, 32)), FACTS[:1])
    yield made
    await made.aclose()
    await caller.aclose()


async def asked(judge: RemoteJudge) -> list[Answer]:
    begun = time.monotonic()
    answers = await judge.answer(Image.new("RGB", (32, 32), (9, 99, 199)), FACTS)
    assert time.monotonic() - begun < BOUND
    assert [answer.fact_id for answer in answers] == [fact.id for fact in FACTS]
    return answers


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_fault_that_passes(
    judge: RemoteJudge, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    expected = await asked(judge)
    slow_lab.schedule(fault, 1, key)
    answers = await asked(judge)
    report = slow_lab.report()["accounts"][key]
    assert report["faults"] == {fault.value: 1}
    # Anthropic's format alone carries what was complete before the cut; the rest is asked again.
    is_lost = fault is Fault.TRUNCATED_JSON and not judge.id.startswith("anthropic:")
    if fault is Fault.REFUSAL or is_lost:
        assert {answer.state for answer in answers} == {"unscored"}
        assert all(re.search(REASONS[fault], answer.reason) for answer in answers)
        # A refusal is final, and so is a reply that reached its limit: nothing was sent after it.
        assert report["arrivals"] == 3
        return
    assert said(answers) == said(expected)


@pytest.mark.parametrize("fault", list(REASONS))
async def test_a_fault_that_never_passes(
    judge: RemoteJudge, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    slow_lab.schedule(fault, 100, key)
    answers = await asked(judge)
    lost = [answer for answer in answers if answer.state == "unscored"]
    # Answers that were complete before a reply was cut off are answers.
    assert lost if fault is Fault.TRUNCATED_JSON else len(lost) == len(FACTS)
    for answer in lost:
        assert re.search(REASONS[fault], answer.reason), answer.reason
        assert key not in answer.reason
    assert slow_lab.report()["accounts"][key]["faults"][fault.value] <= ATTEMPTS


async def test_a_wrong_number_of_answers_loses_no_fact(
    judge: RemoteJudge, slow_lab: ThreadedMockProviders, key: str
) -> None:
    expected = {answer.fact_id: answer.probability for answer in await asked(judge)}
    slow_lab.schedule(Fault.WRONG_NUMBER, 100, key)
    answers = await asked(judge)
    right = [answer for answer in answers if answer.state != "unscored"]
    assert len(right) >= len(FACTS) - 1
    assert all(answer.probability == expected[answer.fact_id] for answer in right)
    assert all(answer.reason for answer in answers if answer.state == "unscored")


async def test_the_panel_decides_while_the_quorum_holds(
    judge: RemoteJudge, slow_lab: ThreadedMockProviders, key: str
) -> None:
    slow_lab.schedule(Fault.UNAVAILABLE, 100, key)
    lost = await asked(judge)
    well = [
        Answer(fact_id=fact.id, judge_id="well", state="yes", probability=0.9, method="verbalized")
        for fact in FACTS
    ]
    table = {judge.id: lost, "well": well}
    for verdict in Panel(quorum=1).verdicts(FACTS, table):
        assert (verdict.state, verdict.n_scored, verdict.n_unscored) == ("yes", 1, 1)
    for verdict in Panel(quorum=2).verdicts(FACTS, table):
        assert verdict.state == "unscored"
        assert judge.id in verdict.reason
        assert "503" in verdict.reason

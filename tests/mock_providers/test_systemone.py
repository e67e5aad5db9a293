"""System One at the mock: every form that the hosts take, and every fault in the right state."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from scenewright.agents.judges.decisions.judge import DecisionJudge, decision_judge
from scenewright.agents.judges.decisions.questions import MISSING
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import facts_of
from scenewright.miniature.painter import paint
from scenewright.mock_providers import Fault, ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.runs.model_factory.profiles import build_judge
from tests.agents.judges.conformance import JudgeConformance
from tests.mock_providers.asking import Client
from tests.mock_providers.faulty import HARMLESS, NO_DECISION, SCENE, decided, get_caller, said

HOSTS = ("transformers", "vllm", "sglang", "openrouter", "cloudflare")
"""Assets, images as data URL and as base64, parts of the state, a reply inside ``result``."""
SOME = frozenset({Fault.PARTIAL_REFUSAL, Fault.WRONG_NUMBER})
"""Faults of some questions, which cost the others nothing."""
REFUSED = r"HTTP 400: .* at http://127.0.0.1.*refused by the safety filter"
REASONS = {**NO_DECISION, Fault.REFUSAL: REFUSED}


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "me")


def made(
    host: str,
    lab: ThreadedMockProviders,
    key: str,
    model: str = "instant",
    caller: Caller | None = None,
) -> DecisionJudge:
    return decision_judge(
        host,
        model,
        caller or get_caller(),
        api_key=key,
        base_url=lab.url,
        overrides={"image_format": "png"},
    )


@pytest.mark.parametrize("host", ["transformers", "vllm"])
class TestConformance(JudgeConformance):
    @pytest.fixture
    async def judge(self, host: str, lab: ThreadedMockProviders, key: str) -> AsyncIterator[Judge]:
        judge = made(host, lab, key)
        yield judge
        await judge.aclose()


@pytest.mark.parametrize("host", HOSTS)
async def test_the_miniature_judges_decide_as_they_judge(
    host: str, lab: ThreadedMockProviders, key: str
) -> None:
    image = paint(SCENE, 3).image
    judge = made(host, lab, key, "judge-a", Caller("lab", timeout=120.0, priced=False))
    facts = facts_of(SCENE, predicates=load_predicates("miniature"))
    answers = await judge.answer(image, facts)
    await judge.aclose()
    report = lab.report()["accounts"][key]
    assert report["arrivals"] == 1
    own = await build_judge("local:miniature/judge-a").answer(image, facts)
    for answer, other in zip(answers, own, strict=True):
        assert answer.probability == pytest.approx(other.probability, abs=6e-3), answer.fact_id
    assert sum(answer.tokens_in for answer in answers) > 258
    assert {answer.model for answer in answers} == {"judge-a"}


@pytest.mark.parametrize("host", ["transformers", "vllm", "cloudflare"])
@pytest.mark.parametrize("fault", list(Fault))
async def test_every_fault_ends_in_the_right_state(
    host: str, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    judge = made(host, slow_lab, key, caller=get_caller(fault))
    expected = await decided(judge)
    assert {answer.state for answer in expected} <= {"yes", "no"}
    slow_lab.schedule(fault, 1, key)
    once = await decided(judge)
    assert slow_lab.report()["accounts"][key]["faults"] == {fault.value: 1}
    if fault is Fault.REFUSAL:
        assert {answer.state for answer in once} == {"unscored"}
    else:
        assert said(once) == said(expected)
    slow_lab.schedule(fault, 100, key)
    answers = await decided(judge)
    await judge.aclose()
    if fault in HARMLESS:
        assert said(answers) == said(expected)
    elif fault in SOME:
        right = [at for at, answer in enumerate(answers) if answer.state != "unscored"]
        assert right
        assert all(said(answers)[at] == said(expected)[at] for at in right)
        lost = {answer.reason for answer in answers if answer.state == "unscored"}
        assert all(reason.startswith(MISSING) for reason in lost)
    else:
        for answer in answers:
            assert (answer.state, answer.probability, answer.method) == ("unscored", None, None)
            assert re.search(REASONS[fault], answer.reason), answer.reason
            assert key not in answer.reason


async def test_a_model_that_is_swapped_in_the_middle_signs_its_answers(
    slow_lab: ThreadedMockProviders, key: str
) -> None:
    judge = made("vllm", slow_lab, key, "instant-2")
    client = Client(slow_lab.url, key)
    order = b'{"model": "instant-2", "by": "instant", "after": 1, "told": "instant-3"}'
    try:
        assert client.call("POST", "/lab/swaps", order).status == 200
        before, after = await decided(judge), await decided(judge)
    finally:
        client.call("DELETE", "/lab/swaps")
        await judge.aclose()
    assert {answer.model for answer in before} == {"instant-2"}
    assert {answer.model for answer in after} == {"instant-3"}
    assert said(before) != said(after)

"""Direct scoring: marks of 0 to 10 by options, by expected values and by language models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.facts import Answer, Fact
from scenewright.evals.metrics.base import ItemMetric, MetricError
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.studies.peers.direct_scoring import (
    ARTIFACTS,
    CONSISTENCY,
    MARKS,
    NATURALNESS,
    ChatRater,
    DirectScore,
    OptionRater,
    mark_fact,
    read_marks,
)
from scenewright.providers.usage import Usage, count
from tests.agents.replying import ReplyingChat
from tests.evals.studies.peers.saying import SayingJudge, bench, sample


def binomial(fact: Fact, share: float = 0.7) -> float:
    """The chance of a mark, whose expected value is 10 · share."""
    mark = int(fact.expected)
    return math.comb(10, mark) * share**mark * (1 - share) ** (10 - mark)


async def test_token_probabilities_give_the_expected_mark() -> None:
    judge = SayingJudge(binomial)
    score = await DirectScore(bench(OptionRater(judge)), quality=False).score(sample())
    assert score.value == pytest.approx(0.7)
    assert score.parts["consistency"] == pytest.approx(7.0)
    assert [fact.expected for fact in judge.asked] == list(MARKS)
    assert {fact.question for fact in judge.asked} == {
        'From 0 (not at all) to 10 (perfectly), how well does the picture show "a red dog"?'
    }


class Choosing(SayingJudge):
    """Chooses an option."""

    def __init__(self, choices: dict[str, str], name: str = "c") -> None:
        super().__init__(lambda fact: None, name, "verbalized")
        self.choices = choices

    def _answer(self, fact: Fact) -> Answer:
        choice = self.choices[str(fact.key)]
        state: Any = "yes" if choice == fact.expected else "no"
        return Answer(
            fact_id=fact.id, judge_id=self.id, state=state, choice=choice, probability=0.9,
            method="verbalized", tokens_in=5,
        )  # fmt: skip


async def test_the_score_is_the_root_of_consistency_and_the_least_of_quality() -> None:
    judge = Choosing({CONSISTENCY: "9", NATURALNESS: "8", ARTIFACTS: "4"})
    metric = DirectScore(bench(OptionRater(judge)))
    assert isinstance(metric, ItemMetric)
    score = await metric.score(sample())
    assert score.value == pytest.approx(math.sqrt(9 * 4) / 10)
    assert [score.parts[k] for k in (CONSISTENCY, NATURALNESS, ARTIFACTS)] == [
        pytest.approx(n) for n in (9, 8, 4)
    ]
    plain = await DirectScore(bench(OptionRater(judge)), quality=False).score(sample())
    assert plain.value == pytest.approx(0.9)


async def test_aggregators_work_mark_by_mark() -> None:
    judges = [
        OptionRater(Choosing({CONSISTENCY: c, NATURALNESS: n, ARTIFACTS: a}, c))
        for c, n, a in (("10", "2", "10"), ("8", "4", "10"), ("0", "9", "10"))
    ]
    score = await DirectScore(bench(*judges)).score(sample())
    assert score.value == pytest.approx(math.sqrt(0.6 * 0.5))
    assert score.parts["aggregator:median"] == pytest.approx(math.sqrt(0.8 * 0.4))
    # Two of three gave the text, one of three the looks, more than half of the marks.
    assert score.parts["aggregator:majority"] == pytest.approx(math.sqrt(2 / 3 * 1 / 3))
    assert score.parts["judge:saying:0"] == 0.0


async def test_a_missing_mark_is_no_score() -> None:
    silent = SayingJudge(lambda fact: None if fact.key == ARTIFACTS else binomial(fact))
    score = await DirectScore(bench(OptionRater(silent))).score(sample())
    assert (score.value, score.reason) == (None, "will not say")
    assert score.parts["consistency"] == pytest.approx(7.0)
    assert score.parts["artifacts"] is None


def replies(consistency: Any, naturalness: Any, artifacts: Any) -> Any:
    """Marks for whichever of the two prompts is sent."""

    def reply(messages: Any) -> dict[str, Any]:
        if "Judge how it looks" in str(messages[0].text):
            return {"reasoning": "none", "naturalness": naturalness, "artifacts": artifacts}
        return {"reasoning": "no dog", "consistency": consistency}

    return reply


FACTS = [mark_fact(CONSISTENCY, 'a "red" dog'), mark_fact(NATURALNESS), mark_fact(ARTIFACTS)]


async def test_a_language_model_is_asked_once_for_each_tool() -> None:
    chat = ReplyingChat(replies=replies(3, 9, 10))
    answers = await ChatRater(chat).answer(sample().load(), FACTS)
    assert [answer.probability for answer in answers] == [0.3, 0.9, 1.0]
    assert [answer.state for answer in answers] == ["no", "yes", "yes"]
    assert answers[0].rationale == "no dog"
    assert answers[0].prompt_id.startswith("rate_consistency@1#")
    assert len(chat.sent) == 2
    consistency, looks = sorted((chat.said(at) for at in range(2)), key=lambda t: "Judge" in t)
    assert '"a \\"red\\" dog"' in consistency
    # What is said of the looks is not coloured by the text.
    assert "dog" not in looks


async def test_a_call_that_fails_costs_its_own_marks() -> None:
    chat = ReplyingChat(replies=replies(5, 11, 1))
    answers = await ChatRater(chat).answer(sample().load(), FACTS)
    assert [answer.state for answer in answers] == ["no", "unscored", "unscored"]
    assert "naturalness: write a number from 0 to 10" in answers[1].reason
    assert answers[0].probability == 0.5
    # The model was told what was wrong, once.
    assert len(chat.sent) == 3


async def test_a_call_that_fails_keeps_its_cost() -> None:
    def paid(messages: Any) -> dict[str, Any]:
        count(Usage(500, 40), 0.25, 1.0)
        return {"naturalness": 11, "artifacts": 1}

    answers = await ChatRater(ReplyingChat(replies=paid)).answer(sample().load(), FACTS[1:])
    assert [answer.state for answer in answers] == ["unscored", "unscored"]
    assert [(a.tokens_in, a.tokens_out, a.usd) for a in answers] == [(1000, 80, 0.5), (0, 0, 0)]


@pytest.mark.parametrize("given", [None, True, "many", -1, 10.5, float("nan")])
def test_marks_out_of_range_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="consistency: write a number"):
        read_marks({"consistency": given}, (CONSISTENCY,))


def test_marks_may_be_written_as_text() -> None:
    assert read_marks({"consistency": "7"}, (CONSISTENCY,)) == ({"consistency": 7.0}, "")


def test_options(tmp_path: Path) -> None:
    options = {"judges": "local:miniature/judge-a", "folder": str(tmp_path)}
    assert (
        metric_of("direct", options).version
        != metric_of("direct", {**options, "quality": False}).version
    )
    with pytest.raises(MetricError, match="quality is 'no'"):
        metric_of("direct", {**options, "quality": "no"})
    with pytest.raises(MetricError, match="direct: "):
        metric_of("direct", {**options, "judges": "nobody:x"})

"""VQAScore: one question, the probability of its yes."""

from __future__ import annotations

from typing import Any

import pytest

from scenewright.evals.metrics.base import ItemMetric, MetricError
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.studies.peers.question_metrics import VqaScore
from tests.evals.studies.peers.saying import SayingJudge, bench, sample


async def test_the_question_is_the_published_one_about_the_whole_text() -> None:
    judge = SayingJudge(lambda fact: 0.25)
    metric = VqaScore(bench(judge))
    assert isinstance(metric, ItemMetric)
    score = await metric.score(sample(prompt="a red  dog\non {grass}"))
    (asked,) = judge.asked
    assert asked.question == 'Does this figure show "a red dog on {grass}"?'
    assert asked.is_binary
    assert score.value == 0.25
    assert (score.parts["facts"], score.parts["bare"]) == (1.0, 0.0)


async def test_every_judge_and_aggregator_is_a_voter() -> None:
    judges = [SayingJudge(lambda fact, p=p: p, name=str(p)) for p in (0.2, 0.4, 0.9)]  # type: ignore[misc]
    score = await VqaScore(bench(*judges, aggregator="median")).score(sample())
    assert {name: value for name, value in score.parts.items() if name.startswith("judge:")} == {
        "judge:saying:0.2": 0.2,
        "judge:saying:0.4": 0.4,
        "judge:saying:0.9": 0.9,
    }
    assert score.value == score.parts["aggregator:median"] == 0.4
    assert score.parts["aggregator:mean"] == pytest.approx(0.5)
    assert score.parts["aggregator:majority"] == pytest.approx(1 / 3)


async def test_a_bare_vote_is_flagged() -> None:
    judges = (SayingJudge(lambda fact: True), SayingJudge(lambda fact: 0.5, name="b"))
    score = await VqaScore(bench(*judges)).score(sample())
    assert score.parts["judge:saying:a"] == 1.0
    assert score.parts["bare"] == 1.0


async def test_without_an_answer_or_a_text_there_is_no_score() -> None:
    silent = await VqaScore(bench(SayingJudge(lambda fact: None))).score(sample())
    assert (silent.value, silent.reason) == (None, "will not say")
    assert silent.parts["unscored"] == 1.0
    dumb = SayingJudge(lambda fact: 1.0)
    wordless = await VqaScore(bench(dumb)).score(sample(prompt="", image="photo.png"))
    assert wordless.value is None
    assert "no text" in wordless.reason
    assert dumb.asked == []


def test_options_and_version(tmp_path: Any) -> None:
    options = {"judges": "local:miniature/judge-a", "folder": str(tmp_path)}
    plain = metric_of("vqascore", options)
    other = metric_of("vqascore", {**options, "template": "Is it {text}?"})
    assert plain.version != other.version
    with pytest.raises(MetricError, match=r"put \{text\} where the text goes"):
        metric_of("vqascore", {**options, "template": "Is it?"})

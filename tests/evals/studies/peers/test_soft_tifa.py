"""Soft-TIFA: arithmetic and geometric means of the probabilities of right answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Fact
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.studies.peers.question_metrics import SoftTifa, soft_tifa
from scenewright.evals.studies.peers.questions import QuestionSource
from tests.evals.studies.peers.saying import SayingJudge, bench, sample

SCENE = SceneGraph(
    objects=(SceneObject(id="dog.1", name="dog"), SceneObject(id="ball.1", name="ball")),
    relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
)
LIKELY = {"dog": 0.0, "ball": 0.5, "relationship": 1.0}


def said(fact: Fact) -> float:
    return next(p for word, p in reversed(LIKELY.items()) if word in fact.question)


async def test_nothing_is_void_and_both_means_are_told() -> None:
    metric = SoftTifa(bench(SayingJudge(said)), QuestionSource())
    score = await metric.score(sample(scene=SCENE))
    # The relation counts in full though the dog is denied.
    assert score.value == pytest.approx(0.5)
    assert (score.parts["am"], score.parts["gm"]) == (pytest.approx(0.5), 0.0)
    geometric = SoftTifa(bench(SayingJudge(lambda fact: 0.25)), QuestionSource(), "geometric")
    assert (await geometric.score(sample(scene=SCENE))).value == pytest.approx(0.25)
    assert geometric.version != metric.version


async def test_the_sets_own_questions_come_first_and_gaps_are_left_out() -> None:
    facts = tuple(
        Fact(id=str(n), kind="object", subject="s", statement="s", question=f"q{n}?")
        for n in range(3)
    )
    judge = SayingJudge(lambda fact: None if fact.id == "1" else 0.1 + 0.8 * (fact.id == "2"))
    score = await SoftTifa(bench(judge), QuestionSource()).score(sample(scene=SCENE, facts=facts))
    assert [fact.question for fact in judge.asked] == ["q0?", "q1?", "q2?"]
    assert score.value == pytest.approx(0.5)
    assert score.parts["unscored"] == 1.0


async def test_the_facts_of_a_scene_are_asked_as_they_are_made() -> None:
    judge = SayingJudge(said)
    await SoftTifa(bench(judge), QuestionSource(shuffled=True)).score(sample(scene=SCENE))
    # Their last option is that there is no relation, in whatever order the others are.
    assert judge.asked == list(facts_of(SCENE, "scene-bench"))


async def test_an_item_without_questions_is_unscored_and_wrong_means_are_told() -> None:
    score = await SoftTifa(bench(SayingJudge(said)), QuestionSource()).score(sample())
    assert score.value is None
    assert "neither questions nor a scene" in score.reason
    with pytest.raises(MetricError, match="mean is 'harmonic': use one of arithmetic, geometric"):
        SoftTifa(bench(SayingJudge(said)), QuestionSource(), "harmonic")


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_the_geometric_mean_is_the_root_of_the_product_and_never_more(values: list[float]) -> None:
    likely = np.array(values)
    arithmetic, geometric = (soft_tifa(likely, mean) for mean in ("arithmetic", "geometric"))
    assert arithmetic is not None
    assert geometric is not None
    assert geometric <= arithmetic + 1e-12
    assert geometric == pytest.approx(math.prod(values) ** (1 / len(values)), abs=1e-9, rel=1e-6)
    # Whether all hold is open where one is not known, unless another one does not hold at all.
    known = 0.0 if 0.0 in values else None
    assert soft_tifa(np.append(likely, np.nan), "geometric") == known
    assert soft_tifa(np.append(likely, np.nan)) == arithmetic


def test_nothing_answered_is_no_mean() -> None:
    assert soft_tifa(np.array([np.nan])) is None

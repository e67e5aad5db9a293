"""SGScore as a metric: Eq. 4 from a card, and what is unscored."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Fact, ScoreCard, State, Verdict
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.base import ItemMetric, MetricError
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.metrics.registry import metric_of
from tests.evals.metrics.vectors import sample

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
        SceneObject(id="tree.1", name="tree"),
    ),
    relations=(
        Relation(source="dog.1", predicate="near", target="ball.1"),
        Relation(source="dog.1", predicate="left of", target="tree.1"),
    ),
)
STATES: tuple[State, ...] = ("yes", "no", "void", "unscored")


def card(facts: tuple[Fact, ...], states: dict[str, State] | list[State]) -> ScoreCard:
    given = states if isinstance(states, list) else [states[f.kind] for f in facts]
    verdicts = [
        Verdict(fact_id=f.id, state=s, reason="" if s in ("yes", "no") else f"because {s}")
        for f, s in zip(facts, given, strict=True)
    ]
    return ScoreCard.of(facts, verdicts)


def reference(facts: tuple[Fact, ...], states: list[State], alpha: float) -> float | None:
    """Eq. 2–4 in few lines: void is no, unscored is left out; no half may be unknown."""
    recall: dict[str, float] = {}
    for kind in ("object", "relation"):
        asked = [s for f, s in zip(facts, states, strict=True) if f.kind == kind]
        scored = [s for s in asked if s != "unscored"]
        if asked and not scored:
            return None
        if scored:
            recall[kind] = scored.count("yes") / len(scored)
    if len(recall) == 2:
        return alpha * recall["object"] + (1 - alpha) * recall["relation"]
    return next(iter(recall.values()), None)


@pytest.mark.parametrize("protocol", ["scene-bench", "grounded"])
@given(seed=st.integers(0, 10**6), alpha=st.floats(0, 1))
async def test_it_is_eq_4_of_any_verdicts(protocol: Any, seed: int, alpha: float) -> None:
    facts = facts_of(SCENE, protocol, seed=3)
    states = random.Random(seed).choices(STATES, k=len(facts))
    found = await SGScore(alpha).score(sample(card=card(facts, states), facts=facts))
    expected = reference(facts, states, alpha)
    assert found.value == (None if expected is None else pytest.approx(expected))
    assert found.unscored == states.count("unscored")
    assert bool(found.reason) == (expected is None or found.unscored > 0)


async def test_objects_do_not_stand_for_relations_that_nobody_could_judge() -> None:
    facts = facts_of(SCENE, "scene-bench")
    states: dict[str, State] = {"object": "yes", "attribute": "yes", "relation": "unscored"}
    found = await SGScore().score(sample(card=card(facts, states), facts=facts))
    assert found.value is None
    assert (found.parts["objects"], found.parts["relations"]) == (1.0, None)
    assert "could not be judged: because unscored" in found.reason
    without = tuple(fact for fact in facts if fact.kind != "relation")
    assert (await SGScore().score(sample(card=card(without, states)))).value == 1.0


async def test_the_parts_are_the_recalls_and_the_share_of_all_facts() -> None:
    facts = facts_of(SCENE, "scene-bench")
    states: dict[str, State] = {"object": "yes", "attribute": "no", "relation": "void"}
    found = await metric_of("sgscore").score(sample(card=card(facts, states)))  # type: ignore[union-attr]
    assert found.value == 0.5
    assert found.parts == {
        "objects": 1.0,
        "attributes": 0.0,
        "relations": 0.0,
        "fact_recall": 0.5,
        "expected_recall": 0.5,
    }


async def test_without_an_alpha_of_its_own_it_takes_the_cards() -> None:
    facts = facts_of(SCENE, "scene-bench")
    states: dict[str, State] = {"object": "yes", "attribute": "no", "relation": "no"}
    given = card(facts, states).model_copy(update={"alpha": 0.8})
    assert (await SGScore().score(sample(card=given))).value == pytest.approx(0.8)
    assert (await SGScore(0.25).score(sample(card=given))).value == pytest.approx(0.25)


def own_question(kind: Any = "object") -> Fact:
    return Fact(
        id="q1", kind=kind, subject="", statement="a dog", question="What animal is it?",
        options=("dog", "cat", "bird"), expected="dog",
    )  # fmt: skip


async def test_a_sets_own_questions_are_scored_too() -> None:
    facts = (own_question(),)
    found = await SGScore().score(sample(card=card(facts, {"object": "yes"}), facts=facts))
    assert (found.value, found.parts["relations"]) == (1.0, None)


async def test_attributes_alone_make_no_sgscore_and_are_not_lost() -> None:
    facts = (own_question("attribute"),)
    found = await SGScore().score(sample(card=card(facts, {"attribute": "yes"})))
    assert found.value is None
    assert "no object and no relation" in found.reason
    assert found.parts["fact_recall"] == 1.0


async def test_nothing_scored_is_unscored_with_the_reason() -> None:
    facts = facts_of(SCENE, "scene-bench")
    states: dict[str, State] = dict.fromkeys(("object", "attribute", "relation"), "unscored")
    found = await SGScore().score(sample(card=card(facts, states)))
    assert found.value is None
    assert found.reason == "6 of 6 facts could not be judged: because unscored"
    assert found.unscored == 6
    assert (await SGScore().score(sample())).reason == "no judge judged the picture"
    assert (
        await SGScore().score(sample(card=card((), [])))
    ).reason == "there are no facts to judge"


@pytest.mark.parametrize("alpha", [-0.1, 1.1, "0.5", True, float("nan")])
def test_an_alpha_out_of_range_is_told(alpha: object) -> None:
    with pytest.raises(MetricError, match="alpha is"):
        metric_of("sgscore", {"alpha": alpha})


def test_the_version_tells_alphas_apart() -> None:
    assert isinstance(SGScore(), ItemMetric)
    assert len({SGScore().version, SGScore(0.3).version, SGScore(0.4).version}) == 3

"""Answers, verdicts, score cards and the missing graph, against values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.core.facts import (
    NOTHING_EXTRA,
    WELL_FORMED,
    Answer,
    Fact,
    FactError,
    FactKind,
    Recall,
    ScoreCard,
    State,
    Verdict,
    missing_graph,
)
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from tests.strategies import judged, scenes


def fact(id_: str, kind: FactKind = "object") -> Fact:
    return Fact(id=id_, kind=kind, subject="x", statement="s", question="q?")


def verdict(id_: str, state: State, probability: float | None = None) -> Verdict:
    return Verdict(fact_id=id_, state=state, probability=probability)


FACTS = (
    fact("o1"),
    fact("o2"),
    fact("o3"),
    fact("o4"),
    fact("a1", "attribute"),
    fact("r1", "relation"),
    fact("r2", "relation"),
    fact("r3", "relation"),
)
VERDICTS = (
    verdict("o1", "yes", 0.9),
    verdict("o2", "yes"),
    verdict("o3", "no", 0.2),
    verdict("o4", "unscored"),
    verdict("a1", "yes", 0.8),
    verdict("r1", "yes", 0.7),
    verdict("r2", "no"),
    verdict("r3", "void"),
)


def test_scores_by_hand() -> None:
    card = ScoreCard.of(FACTS, VERDICTS)
    assert (card.objects.yes, card.objects.no, card.objects.unscored) == (2, 1, 1)
    assert card.objects.total == 4
    assert card.objects.value == pytest.approx(2 / 3)
    assert card.attributes.value == 1.0
    assert card.relations.value == pytest.approx(1 / 3)
    assert (card.relations.void, card.relations.total) == (1, 3)
    assert card.sgscore == pytest.approx(0.5 * 2 / 3 + 0.5 / 3)
    assert card.fact_recall == pytest.approx(4 / 7)
    assert card.expected_recall == pytest.approx((0.9 + 1 + 0.2 + 0.8 + 0.7 + 0 + 0) / 7)
    assert card.rank == (card.sgscore, card.fact_recall, -1.0, card.expected_recall)
    assert not card.satisfied
    weighted = ScoreCard.of(FACTS, VERDICTS, alpha=0.25)
    assert weighted.sgscore == pytest.approx(0.25 * 2 / 3 + 0.75 / 3)
    assert ScoreCard.model_validate_json(card.model_dump_json()) == card


@pytest.mark.parametrize("state", ["yes", "no", "unscored"])
def test_soundness_stands_apart_from_all_scores(state: State) -> None:
    plain = ScoreCard.of(FACTS, VERDICTS)
    sound = [fact(id_, "soundness") for id_ in (WELL_FORMED, NOTHING_EXTRA)]
    said = [verdict(one.id, state) for one in sound]
    card = ScoreCard.of((*FACTS, *sound), (*VERDICTS, *said))
    assert card.soundness == tuple(said)
    assert card.model_copy(update={"soundness": ()}) == plain
    assert (card.rank, card.unscored, card.satisfied) == (
        plain.rank,
        plain.unscored,
        plain.satisfied,
    )
    assert "soundness" not in plain.model_dump()
    assert ScoreCard.model_validate_json(card.model_dump_json()) == card


def test_a_part_that_was_not_asked_leaves_the_score_to_the_other() -> None:
    lone = ScoreCard.of(FACTS[:3], VERDICTS[:3])
    assert lone.relations.value is None
    assert lone.sgscore == pytest.approx(2 / 3)
    edges = ScoreCard.of(FACTS[5:], VERDICTS[5:])
    assert edges.sgscore == pytest.approx(1 / 3)
    silent = (*VERDICTS[:5], *(verdict(id_, "unscored") for id_ in ("r1", "r2", "r3")))
    card = ScoreCard.of(FACTS, silent)
    assert (card.objects.value, card.sgscore) == (pytest.approx(2 / 3), None)
    assert card.unscored == 4
    blind = ScoreCard.of(FACTS[3:4], VERDICTS[3:4])
    assert blind.sgscore is None
    assert blind.fact_recall is None
    assert blind.expected_recall is None
    assert blind.rank == (-1.0, -1.0, -1.0, -1.0)
    assert not blind.satisfied
    assert Recall().value is None


def test_order_of_verdicts_is_that_of_the_facts() -> None:
    card = ScoreCard.of(FACTS, reversed(VERDICTS))
    assert [v.fact_id for v in card.verdicts] == [f.id for f in FACTS]


@pytest.mark.parametrize(
    ("facts", "verdicts", "says"),
    [
        (FACTS, VERDICTS[1:], "missing \\['o1'\\]"),
        (FACTS[1:], VERDICTS, "unknown \\['o1'\\]"),
        (FACTS, (*VERDICTS, VERDICTS[0]), "two verdicts for o1"),
        ((*FACTS, FACTS[0]), VERDICTS, "listed twice"),
    ],
)
def test_nothing_is_dropped_in_silence(facts, verdicts, says: str) -> None:
    with pytest.raises(FactError, match=says):
        ScoreCard.of(facts, verdicts)


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan")])
def test_alpha_is_a_share(alpha: float) -> None:
    with pytest.raises(ValidationError):
        ScoreCard.of(FACTS, VERDICTS, alpha=alpha)


@given(case=judged(), alpha=st.floats(0, 1))
@settings(deadline=None)
def test_scores_are_shares_and_grow_with_every_yes(case, alpha: float) -> None:
    facts, verdicts = case
    card = ScoreCard.of(facts, verdicts, alpha)
    scores = (
        card.objects.value,
        card.attributes.value,
        card.relations.value,
        card.sgscore,
        card.fact_recall,
        card.expected_recall,
    )
    assert all(score is None or -1e-12 <= score <= 1 + 1e-12 for score in scores)
    counts = [card.objects, card.attributes, card.relations]
    assert sum(count.total for count in counts) == len(facts)
    assert card.satisfied == all(v.state == "yes" for v in verdicts)
    if card.satisfied:
        assert card.fact_recall == 1.0
    for at, old in enumerate(verdicts):
        if old.state not in ("no", "void"):
            continue
        better = (*verdicts[:at], verdict(old.fact_id, "yes"), *verdicts[at + 1 :])
        raised = ScoreCard.of(facts, better, alpha)
        if card.sgscore is not None and raised.sgscore is not None:
            assert raised.sgscore >= card.sgscore - 1e-12
        assert raised.fact_recall is not None
        assert card.fact_recall is not None
        assert raised.fact_recall > card.fact_recall
        assert raised.expected_recall is not None
        assert card.expected_recall is not None
        assert raised.expected_recall >= card.expected_recall - 1e-12


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"expected": "maybe"}, "expected 'maybe' not in"),
        ({"options": ("yes", "yes")}, "all different"),
        ({"options": ("yes",)}, "two or more"),
    ],
)
def test_facts_that_cannot_be(changes, says: str) -> None:
    base = {"id": "o", "kind": "object", "subject": "x", "statement": "s", "question": "q?"}
    with pytest.raises(ValidationError, match=says):
        Fact.model_validate({**base, **changes})
    assert Fact.model_validate(base).is_binary
    assert Fact.model_validate({**base, "options": ("no", "yes")}).is_binary
    assert not Fact.model_validate({**base, "options": ("yes", "on")}).is_binary


@pytest.mark.parametrize("state", ["void", "unscored"])
def test_what_was_not_judged_has_no_probability(state: str) -> None:
    with pytest.raises(ValidationError, match="must not carry a probability"):
        Verdict(fact_id="o", state=state, probability=0.5)
    with pytest.raises(ValidationError, match="must not carry a probability"):
        Answer(fact_id="o", judge_id="j", state=state, probability=0.5, reason="why")


def test_an_unscored_answer_has_a_reason() -> None:
    with pytest.raises(ValidationError, match="has no reason"):
        Answer(fact_id="o", judge_id="j", state="unscored")
    assert Answer(fact_id="o", judge_id="j", state="unscored", reason="timeout").probability is None


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
def test_probabilities_are_shares(probability: float) -> None:
    with pytest.raises(ValidationError):
        Answer(fact_id="o", judge_id="j", state="yes", probability=probability)
    with pytest.raises(ValidationError):
        Verdict(fact_id="o", state="yes", probability=probability)


SCENE = load_scene("red ball on table; dog.1 left of table; dog.2 near dog.1")


def of(scene: SceneGraph, wrong: dict[str, State]) -> SceneGraph:
    facts = facts_of(scene)
    assert set(wrong) <= {f.id for f in facts}
    return missing_graph(scene, facts, [verdict(f.id, wrong.get(f.id, "yes")) for f in facts])


@pytest.mark.parametrize(
    ("wrong", "objects", "relations"),
    [
        ({}, [], []),
        # Two dogs cannot be near each other where there is one.
        ({"o:dog.2": "no"}, ["dog.1", "dog.2"], ["dog.2 near dog.1"]),
        ({"o:table.1": "no"}, ["table.1"], []),
        ({"a:ball.1:color": "no"}, ["ball.1"], []),
        ({"r:ball.1|on|table.1": "no"}, ["ball.1", "table.1"], ["ball.1 on table.1"]),
        (
            {"o:dog.2": "no", "r:dog.2|near|dog.1": "void"},
            ["dog.1", "dog.2"],
            ["dog.2 near dog.1"],
        ),
        ({"o:dog.2": "unscored", "r:ball.1|on|table.1": "unscored"}, [], []),
    ],
)
def test_missing_graph(wrong, objects, relations) -> None:
    found = of(SCENE, wrong)
    assert [item.id for item in found.objects] == objects
    assert [str(relation) for relation in found.relations] == relations


@given(scene=scenes(), data=st.data())
@settings(max_examples=50, deadline=None)
def test_missing_graph_is_a_part_of_the_scene(scene: SceneGraph, data: st.DataObject) -> None:
    facts = facts_of(scene)
    states = data.draw(
        st.lists(
            st.sampled_from(["yes", "no", "void", "unscored"]),
            min_size=len(facts),
            max_size=len(facts),
        )
    )
    verdicts = [verdict(f.id, state) for f, state in zip(facts, states, strict=True)]
    found = missing_graph(scene, facts, verdicts)
    assert set(found.objects) <= set(scene.objects)
    assert set(found.relations) <= set(scene.relations)
    assert bool(found) == bool({"no", "void"} & set(states))
    everything = missing_graph(scene, facts, [verdict(f.id, "no") for f in facts])
    assert everything == scene

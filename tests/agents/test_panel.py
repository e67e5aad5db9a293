"""The panel: means, quorum, disagreement, void."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel import Panel, aggregate, next_wave, void_verdicts
from scenewright.facts import Answer, Fact, FactError, ScoreCard, Verdict
from scenewright.formats import load_scene
from scenewright.questions import facts_of

FACTS = facts_of(load_scene("red ball on table; dog left of table"))
BALL, TABLE, DOG, RED, ON, LEFT = FACTS


def said(
    judge: str, fact: Fact, probability: float | None = None, state: str | None = None
) -> Answer:
    if state is None:
        assert probability is not None
        state = "yes" if probability > 0.5 else "no"
    reason = "broken" if state == "unscored" else ""
    return Answer.model_validate(
        {
            "fact_id": fact.id,
            "judge_id": judge,
            "state": state,
            "probability": probability,
            "method": "binary" if probability is None else "logprob",
            "reason": reason,
        }
    )


def one(*answers: Answer, **options: object) -> Verdict:
    return Panel(**options).verdict(BALL, answers)  # type: ignore[arg-type]


def test_mean_and_disagreement() -> None:
    verdict = one(said("a", BALL, 0.9), said("b", BALL, 0.4), said("c", BALL, 0.5))
    assert verdict.state == "yes"
    assert verdict.probability == pytest.approx(0.6)
    assert verdict.disagreement == pytest.approx(0.5)
    assert (verdict.n_scored, verdict.n_unscored) == (3, 0)


def test_a_judge_without_probability_counts_as_one_or_zero() -> None:
    assert one(said("a", BALL, state="yes"), said("b", BALL, 0.2)).probability == pytest.approx(0.6)
    assert one(said("a", BALL, state="no"), said("b", BALL, 0.2)).probability == pytest.approx(0.1)


def test_an_undecided_panel_does_not_confirm() -> None:
    assert one(said("a", BALL, state="yes"), said("b", BALL, state="no")).state == "no"


def test_mean_and_majority_can_differ() -> None:
    answers = (said("a", BALL, 0.55), said("b", BALL, 0.55), said("c", BALL, 0.05))
    assert one(*answers).state == "no"
    majority = one(*answers, aggregation="majority")
    assert majority.state == "yes"
    assert majority.probability == pytest.approx(2 / 3)


def test_unscored_answers_leave_the_panel() -> None:
    verdict = one(said("a", BALL, 0.9), said("b", BALL, state="unscored"))
    assert verdict.probability == 0.9
    assert (verdict.n_scored, verdict.n_unscored) == (1, 1)


def test_below_the_quorum_is_unscored_with_the_reasons() -> None:
    verdict = one(said("a", BALL, 0.9), said("b", BALL, state="unscored"), quorum=2)
    assert verdict.state == "unscored"
    assert verdict.probability is None
    assert "quorum is 2" in verdict.reason
    assert "b: broken" in verdict.reason


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_verdict_follows_the_mean_whatever_the_order(values: list[float]) -> None:
    answers = [said(f"j{at}", BALL, value) for at, value in enumerate(values)]
    verdict = one(*answers)
    assert verdict.probability == pytest.approx(sum(values) / len(values))
    assert (verdict.state == "yes") == (verdict.probability > 0.5)  # type: ignore[operator]
    assert one(*reversed(answers)).probability == pytest.approx(verdict.probability)
    assert verdict.disagreement == pytest.approx(max(values) - min(values))


def test_children_of_an_absent_object_are_void_whatever_was_answered() -> None:
    answers = [said("a", fact, 0.1 if fact is BALL else 0.9) for fact in FACTS]
    verdicts = aggregate(FACTS, {"a": answers})
    states = {verdict.fact_id: verdict.state for verdict in verdicts}
    assert states == {
        BALL.id: "no",
        TABLE.id: "yes",
        DOG.id: "yes",
        RED.id: "void",
        ON.id: "void",
        LEFT.id: "yes",
    }
    assert ScoreCard.of(FACTS, verdicts).relations.value == 0.5


def test_a_parent_nobody_could_judge_does_not_make_void() -> None:
    answers = [
        said("a", fact, state="unscored") if fact is BALL else said("a", fact, 0.9)
        for fact in FACTS
    ]
    states = {v.fact_id: v.state for v in aggregate(FACTS, {"a": answers})}
    assert states[BALL.id] == "unscored"
    assert states[RED.id] == "yes"


def test_void_passes_down_a_chain() -> None:
    shade = RED.model_copy(update={"id": "a:x", "parents": (RED.id,)})
    known = {BALL.id: Verdict(fact_id=BALL.id, state="no", probability=0.1)}
    assert [v.fact_id for v in void_verdicts((BALL, RED, shade), known)] == [RED.id, shade.id]


def test_waves_are_objects_then_the_rest() -> None:
    assert next_wave(FACTS, {}) == (BALL, TABLE, DOG)
    known = {
        fact.id: Verdict(fact_id=fact.id, state=state)
        for fact, state in ((BALL, "yes"), (TABLE, "no"), (DOG, "yes"))
    }
    assert next_wave(FACTS, known) == (RED,)


def test_a_judge_that_left_a_fact_out_is_unscored_for_it() -> None:
    verdicts = aggregate((BALL, DOG), {"a": [said("a", BALL, 0.9)], "b": []})
    assert verdicts[0].n_unscored == 1
    assert verdicts[1].state == "unscored"
    assert "gave no answer" in verdicts[1].reason


def test_answers_that_do_not_fit_are_errors() -> None:
    with pytest.raises(FactError, match="filed under"):
        aggregate((BALL,), {"a": [said("b", BALL, 0.9)]})
    with pytest.raises(FactError, match="twice"):
        aggregate((BALL,), {"a": [said("a", BALL, 0.9), said("a", BALL, 0.1)]})
    with pytest.raises(FactError, match="no verdict for its parents"):
        aggregate((RED,), {"a": [said("a", RED, 0.9)]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation": "loudest"}, "mean, majority"),
        ({"quorum": 0}, "1 or more"),
        ({"threshold": 1.0}, r"\[0, 1\)"),
    ],
)
def test_wrong_settings_say_what_is_allowed(options: dict[str, object], message: str) -> None:
    with pytest.raises(FactError, match=message):
        Panel(**options)  # type: ignore[arg-type]

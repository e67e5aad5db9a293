"""The panel: its aggregations, quorum, disagreement, void, and that no model judges twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import dawid_skene, disagreement
from scenewright.agents.panel.independence import check_independence
from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.agents.panel.rates import CalibrationError
from scenewright.config.profiles import SettingsError
from scenewright.core.facts import Answer, Fact, FactError, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from tests.doubles import ScriptedJudge

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
    assert verdict.disagreement == pytest.approx(-0.6 * math.log2(0.6) - 0.4 * math.log2(0.4))
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
    assert verdict.probability == sum(values) / len(values)
    assert verdict.disagreement == pytest.approx(float(disagreement([values])[0]))


def test_children_of_an_absent_object_are_void_whatever_was_answered() -> None:
    answers = [said("a", fact, 0.1 if fact is BALL else 0.9) for fact in FACTS]
    verdicts = Panel().verdicts(FACTS, {"a": answers})
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
    states = {v.fact_id: v.state for v in Panel().verdicts(FACTS, {"a": answers})}
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
    verdicts = Panel().verdicts((BALL, DOG), {"a": [said("a", BALL, 0.9)], "b": []})
    assert verdicts[0].n_unscored == 1
    assert verdicts[1].state == "unscored"
    assert "gave no answer" in verdicts[1].reason


def test_answers_that_do_not_fit_are_errors() -> None:
    with pytest.raises(FactError, match="filed under"):
        Panel().verdicts((BALL,), {"a": [said("b", BALL, 0.9)]})
    with pytest.raises(FactError, match="twice"):
        Panel().verdicts((BALL,), {"a": [said("a", BALL, 0.9), said("a", BALL, 0.1)]})
    with pytest.raises(FactError, match="no verdict for its parents"):
        Panel().verdicts((RED,), {"a": [said("a", RED, 0.9)]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation": "loudest"}, "mean, dawid_skene, calibrated, stacked, majority"),
        ({"quorum": 0}, "1 or more"),
        ({"threshold": 1.0}, r"\[0, 1\)"),
    ],
)
def test_wrong_settings_say_what_is_allowed(options: dict[str, object], message: str) -> None:
    with pytest.raises(FactError, match=message):
        Panel(**options)  # type: ignore[arg-type]


def test_methods_behind_a_verdict_are_told() -> None:
    by_words = said("b", BALL, 0.7).model_copy(update={"method": "verbalized"})
    mixed = one(said("a", BALL, 0.9), by_words, said("c", BALL, state="yes"))
    assert mixed.methods == ("binary", "logprob", "verbalized")
    assert one(said("a", BALL, 0.9), said("b", BALL, state="unscored")).methods == ("logprob",)
    other = one(said("a", BALL, 0.9)).model_copy(update={"fact_id": DOG.id})
    assert ScoreCard.of((BALL, DOG), (mixed, other)).methods == mixed.methods
    assert ScoreCard.of((DOG,), (other,)).methods == ("logprob",)


def test_a_verdict_of_an_older_run_can_be_read() -> None:
    stored = '{"fact_id":"o:x","state":"yes","probability":0.9,"disagreement":0.2,"n_scored":2}'
    assert Verdict.model_validate_json(stored).methods == ()


def dawid_skene_panel() -> dict[str, list[Answer]]:
    """Three judges who know the facts, and one that always says yes."""
    table = {"a": "yynyyn", "b": "yynynn", "c": "yynyyn", "d": "yyyyyy"}
    return {
        judge: [
            said(judge, fact, 0.9 if vote == "y" else 0.1)
            for fact, vote in zip(FACTS, votes, strict=True)
        ]
        for judge, votes in table.items()
    }


def test_dawid_skene_learns_from_all_answers_about_the_image() -> None:
    answers = dawid_skene_panel()
    panel = Panel("dawid_skene")
    objects = panel.verdicts(FACTS[:3], answers)
    rows = [[0.9, 0.9, 0.9, 0.9], [0.9, 0.9, 0.9, 0.9], [0.1, 0.1, 0.1, 0.9]]
    assert [v.probability for v in objects] == pytest.approx(dawid_skene(rows).probabilities)

    # The dog is absent: LEFT is void and the second wave is RED and ON, on five facts in all.
    known = {verdict.fact_id: verdict for verdict in objects}
    later = panel.verdicts((RED, ON, LEFT), answers, known)
    assert [verdict.state for verdict in later] == ["yes", "yes", "void"]
    rows += [[0.9, 0.9, 0.9, 0.9], [0.9, 0.1, 0.9, 0.9]]
    expected = dawid_skene(rows).probabilities
    assert [v.probability for v in later[:2]] == pytest.approx(expected[3:], abs=1e-9)
    assert panel.verdicts(FACTS, answers) == [*objects, *later]
    assert later[1].disagreement == pytest.approx(float(disagreement([rows[4]])[0]))


def test_all_aggregations_leave_missing_answers_out() -> None:
    answers = (said("a", BALL, 0.9), said("b", BALL, state="unscored"))
    for aggregation in ("mean", "dawid_skene", "majority"):
        verdict = one(*answers, aggregation=aggregation)
        assert (verdict.state, verdict.n_scored, verdict.n_unscored) == ("yes", 1, 1)


def test_a_calibrated_panel_without_calibration_says_what_it_needs() -> None:
    with pytest.raises(CalibrationError, match="scenewright judges calibrate"):
        one(said("a", BALL, 0.9), aggregation="calibrated")


def test_a_judge_that_was_not_asked_is_not_counted() -> None:
    given = {"a": [said("a", BALL, 0.9)], "b": []}
    (asked,) = Panel().verdicts((BALL,), given)
    (unasked,) = Panel().verdicts((BALL,), given, missing_means="unasked")
    assert (asked.n_unscored, unasked.n_unscored) == (1, 0)
    assert unasked.probability == asked.probability


def test_one_model_cannot_judge_twice_whatever_its_names() -> None:
    class Alias(ScriptedJudge):
        @property
        def fingerprint(self) -> str:
            return "the same weights"

    a, b, other = Alias("a"), Alias("b"), ScriptedJudge("c")
    check_independence([a, other], [ScriptedJudge("d")])
    with pytest.raises(
        SettingsError, match=r"scripted:a and scripted:b are the same model.*double"
    ):
        check_independence([a, other, b])
    with pytest.raises(SettingsError, match="cannot both steer the loop and report"):
        check_independence([a, other], [b])
    with pytest.raises(SettingsError, match="double"):
        check_independence([other], [a, b])

"""Figures of a judge: error rates by side, and calibration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Answer, Fact
from scenewright.miniature.training.judge_questions import KnownFact
from scenewright.miniature.training.judges import Scored, calibration_error, figures_of

probabilities = st.floats(0.0, 1.0)
pairs = st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=40)


def scored(holds: bool, probability: float | None) -> Scored:
    fact = Fact(id="o:dog.1", kind="object", subject="dog.1", statement="dog", question="Dog?")
    known = KnownFact(fact, ("yes",) if holds else ("no",), (), True)
    if probability is None:
        answer = Answer(fact_id=fact.id, judge_id="j", state="unscored", reason="silent")
    else:
        state = "yes" if probability > 0.5 else "no"
        answer = Answer(fact_id=fact.id, judge_id="j", state=state, probability=probability)
    return known, answer


def test_sensitivity_is_of_true_facts_and_specificity_of_false_ones() -> None:
    figures = figures_of(
        [scored(True, 0.9)] * 3 + [scored(True, 0.2)] + [scored(False, 0.1)] + [scored(False, 0.8)]
    )
    assert figures["sensitivity"] == 0.75
    assert figures["specificity"] == 0.5
    assert figures["balanced_accuracy"] == 0.625
    assert (figures["true"], figures["false"]) == (4, 2)


def test_unscored_answers_are_counted_and_else_left_out() -> None:
    figures = figures_of([scored(True, 0.9), scored(True, None), scored(False, 0.1)])
    assert figures["unscored"] == 1
    assert figures["sensitivity"] == figures["specificity"] == 1.0


def test_a_side_without_facts_has_no_figure() -> None:
    assert "specificity" not in figures_of([scored(True, 0.9)])
    assert "sensitivity" not in figures_of([scored(False, 0.9)])
    assert {"sensitivity", "specificity", "ece"}.isdisjoint(figures_of([]))
    assert {"sensitivity", "specificity", "ece"}.isdisjoint(figures_of([scored(True, None)]))


def test_calibration_is_the_gap_between_what_is_said_and_what_holds() -> None:
    said = [(0.75, True)] * 3 + [(0.75, False)]
    assert calibration_error(said) == 0.0
    # Half the pairs lie in a bin whose gap is 0.75 − 0.25, half in one without a gap.
    assert calibration_error([*said, (0.25, True), *[(0.25, False)] * 3]) == 0.0
    assert calibration_error([(0.75, True)] + [(0.75, False)] * 3 + [(1.0, True)] * 4) == 0.25
    assert figures_of([scored(True, 0.9), scored(False, 0.1)])["ece"] == pytest.approx(0.1)


@given(pairs)
def test_calibration_error_is_a_share_and_zero_for_certain_right_answers(
    said: list[tuple[float, bool]],
) -> None:
    assert 0.0 <= calibration_error(said) <= 1.0
    assert calibration_error([(float(holds), holds) for _, holds in said]) == 0.0
    assert calibration_error([(float(not holds), holds) for _, holds in said]) == 1.0


@given(pairs)
def test_with_one_bin_it_is_the_gap_between_the_means(said: list[tuple[float, bool]]) -> None:
    gap = abs(sum(p - holds for p, holds in said)) / len(said)
    assert calibration_error(said, bins=1) == pytest.approx(gap)
    assert calibration_error(said) >= gap - 1e-9


def test_no_probabilities_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was answered"):
        calibration_error([])

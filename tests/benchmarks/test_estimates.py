"""Scores as judged agree with score cards; corrections undo the errors of a judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._loop import (
    LEAST_YOUDEN,
    MEASURES,
    Accuracy,
    Marks,
    accuracies,
    can_correct,
    estimate,
    parts,
    stacked,
)
from scenewright.core.facts import FACT_KINDS, Fact, Recall, ScoreCard, Verdict
from tests.strategies import judged

EXACT = dict.fromkeys(FACT_KINDS, Accuracy(1.0, 1.0))
shares = st.floats(0.0, 1.0)
counts = st.integers(0, 6)
recalls = st.builds(Recall, yes=counts, no=counts, void=counts, unscored=counts)
marks = st.builds(Marks, objects=recalls, attributes=recalls, relations=recalls, alpha=shares)


def of(*yes_no_void: tuple[int, int, int]) -> Marks:
    objects, attributes, relations = (Recall(yes=y, no=n, void=v) for y, n, v in yes_no_void)
    return Marks(objects=objects, attributes=attributes, relations=relations, alpha=0.5)


def mean_of(several: Sequence[Marks], measure: str, judge: Accuracy | None = None) -> float:
    array, known = stacked(several, measure)  # type: ignore[arg-type]
    accuracy = None if judge is None else dict.fromkeys(FACT_KINDS, judge)
    return estimate(array[known], accuracy, bounded=False)["mean"]


@given(judged(), shares)
def test_as_judged_the_measures_are_those_of_the_score_card(
    case: tuple[tuple[Fact, ...], tuple[Verdict, ...]], alpha: float
) -> None:
    card = ScoreCard.of(*case, alpha)
    expected = {
        "sgscore": card.sgscore,
        "objects": card.objects.value,
        "attributes": card.attributes.value,
        "relations": card.relations.value,
        "facts": card.fact_recall,
    }
    for measure in MEASURES:
        array = parts(Marks.of(card), measure)
        found = None if array is None else array[:, 0].sum()
        assert found == pytest.approx(expected[measure]), measure


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0.65, 1.0), st.floats(0.65, 1.0))
def test_the_share_that_holds_is_found_again_from_what_a_judge_says_of_it(
    true: int, false: int, sensitivity: float, specificity: float
) -> None:
    """Expected counts of a judge's yes and no, put in as shares, give the true share."""
    total = true + false
    yes = sensitivity * true + (1 - specificity) * false
    array = np.zeros((1, len(FACT_KINDS), 2))
    array[0, 1] = yes / total, (total - yes) / total
    judge = dict.fromkeys(FACT_KINDS, Accuracy(sensitivity, specificity))
    found = estimate(array, judge, bounded=False)
    assert found["mean"] == pytest.approx(true / total, abs=1e-9)


@given(st.lists(marks, min_size=1, max_size=5), st.sampled_from(MEASURES))
def test_a_judge_that_is_never_wrong_is_not_corrected(several: list[Marks], measure: str) -> None:
    array, known = stacked(several, measure)  # type: ignore[arg-type]
    if known.any():
        plain, mended = estimate(array[known]), estimate(array[known], EXACT)
        assert mended == pytest.approx(plain, abs=1e-9)


def test_void_facts_stay_unsatisfied_and_are_not_corrected() -> None:
    judge = Accuracy(0.8, 0.7)
    all_void = of((4, 0, 0), (0, 0, 3), (0, 0, 3))
    assert mean_of([all_void], "relations", judge) == 0.0
    asked = of((4, 0, 0), (1, 0, 0), (6, 4, 0))
    half_void = of((4, 0, 0), (1, 0, 0), (6, 4, 10))
    assert mean_of([asked], "relations", judge) == pytest.approx((0.6 + 0.7 - 1) / 0.5)
    assert mean_of([half_void], "relations", judge) == pytest.approx(0.5 * (0.3 / 0.5))


def test_single_scenes_are_not_clipped_before_they_are_averaged() -> None:
    judge = Accuracy(0.8, 0.8)
    scenes = [of((1, 0, 0), (0, 0, 0), (1, 0, 0)), of((0, 1, 0), (0, 0, 0), (0, 0, 1))]
    assert mean_of(scenes[:1], "objects", judge) == pytest.approx(0.8 / 0.6)
    assert mean_of(scenes, "objects", judge) == pytest.approx(0.5)


def test_scores_are_kept_within_their_range_and_differences_are_not() -> None:
    array, _ = stacked([of((5, 0, 0), (0, 0, 0), (5, 0, 0))] * 3, "sgscore")
    judge = dict.fromkeys(FACT_KINDS, Accuracy(0.8, 0.8))
    assert estimate(array, judge) == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert estimate(-array, judge, bounded=False)["mean"] < -1.0


def test_a_judge_near_chance_corrects_nothing_it_judged() -> None:
    weak = {**EXACT, "attribute": Accuracy(0.5 + LEAST_YOUDEN / 2 - 0.01, 0.5)}
    array, _ = stacked([of((3, 1, 0), (2, 2, 0), (1, 1, 0))], "facts")
    assert not can_correct(array, weak)
    with pytest.raises(ValueError, match="near chance"):
        estimate(array, weak)
    without, _ = stacked([of((3, 1, 0), (2, 2, 0), (1, 1, 0))], "sgscore")
    assert can_correct(without, weak)
    assert not can_correct(without, {"object": Accuracy(1.0, 1.0)})


def test_paired_differences_are_narrower_than_the_scores_they_come_from() -> None:
    """Both strategies find the same scenes hard; one of them has a little more each time."""
    rng = np.random.default_rng(3)
    levels = rng.integers(2, 8, 60)
    worse = [of((int(n), 10 - int(n), 0), (0, 0, 0), (0, 0, 1)) for n in levels]
    better = [of((int(n) + 1, 9 - int(n), 0), (0, 0, 0), (0, 0, 1)) for n in levels]
    (a, _), (b, _) = stacked(better, "objects"), stacked(worse, "objects")
    gain = estimate(a - b, bounded=False)
    assert gain["mean"] == pytest.approx(0.1)
    assert gain["high"] - gain["low"] < 1e-9
    single = estimate(a)
    assert single["low"] < single["mean"] < single["high"]
    assert single["high"] - single["low"] > 0.05


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for at in range(100):
        holding = rng.binomial(8, 0.7, 50)
        array, _ = stacked(
            [of((int(n), 8 - int(n), 0), (0, 0, 0), (0, 0, 0)) for n in holding], "objects"
        )
        found = estimate(array, seed=at)
        covered += found["low"] <= 0.7 <= found["high"]
    assert 86 <= covered <= 100


def test_a_judge_measured_on_few_facts_gives_wider_intervals() -> None:
    array, _ = stacked([of((7, 3, 0), (0, 0, 0), (6, 4, 0))] * 30, "objects")

    def width(n: int) -> float:
        judge = dict.fromkeys(FACT_KINDS, Accuracy(0.9, 0.9, n, n))
        found = estimate(array, judge)
        return found["high"] - found["low"]

    assert width(20) > 2 * width(400) > 0.0
    assert width(0) < 1e-9


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="no scenes"):
        estimate(np.zeros((0, 3, 2)))


def test_accuracy_is_read_where_a_report_has_it() -> None:
    kind = {"true": 80, "false": 40, "sensitivity": 0.9, "specificity": 0.75}
    report = {"painted": {"object": kind, "attribute": {"true": 5}, "predicates": {}}}
    assert accuracies(report) == {"object": Accuracy(0.9, 0.75, 80, 40)}
    assert accuracies({}) == {}

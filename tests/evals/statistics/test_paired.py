"""The paired test, against scipy and on data whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scenewright.evals.statistics.estimates import paired, paired_many

TENTHS = st.lists(st.integers(-10, 10).map(lambda n: n / 10), min_size=2, max_size=9)


def by_hand(differences: list[float]) -> float:
    """Share of all sign patterns whose sum is at least as far from 0."""
    whole = [round(10 * d) for d in differences]
    seen = abs(sum(whole))
    sums = [
        abs(sum(s * d for s, d in zip(signs, whole, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(whole))
    ]
    return sum(s >= seen for s in sums) / len(sums)


@settings(max_examples=60)
@given(TENTHS)
def test_p_of_few_items_is_exact(differences: list[float]) -> None:
    assert paired(differences).p == pytest.approx(by_hand(differences))


def test_p_is_that_of_scipy_on_few_items() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(11), rng.random(11) + 0.2
    theirs = stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert paired(b - a).p == pytest.approx(theirs.pvalue)


def test_p_is_near_that_of_scipy_on_many_items() -> None:
    rng = np.random.default_rng(2)
    a = rng.random(120)
    b = a + rng.normal(0.03, 0.2, 120)
    theirs = stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=9999, rng=3
    )
    assert paired(b - a).p == pytest.approx(theirs.pvalue, abs=0.02)


def test_the_interval_is_near_that_of_scipy() -> None:
    differences = np.random.default_rng(4).gamma(2.0, 0.1, 80) - 0.1
    theirs = stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=9999, rng=5
    ).confidence_interval
    ours = paired(differences)
    assert ours.low == pytest.approx(theirs.low, abs=0.004)
    assert ours.high == pytest.approx(theirs.high, abs=0.004)
    assert ours.mean == pytest.approx(differences.mean())
    assert ours.dz == pytest.approx(stats.ttest_1samp(differences, 0).statistic / np.sqrt(80))


def test_without_a_difference_it_is_significant_as_often_as_it_says() -> None:
    # 2,000 pairs of arms that differ by noise alone: scores between 0 and 1 in steps, as SGScore's.
    rng = np.random.default_rng(6)
    a, b = rng.binomial(8, 0.7, (2, 60, 2000)) / 8
    p = np.array([result.p for result in paired_many(b - a, 2000, 7)])
    assert 0.035 < float((p <= 0.05).mean()) < 0.065
    assert 0.08 < float((p <= 0.1).mean()) < 0.12


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    differences = rng.beta(2, 3, (80, 1000)) - rng.beta(2, 3, (80, 1000)) + 0.1
    results = paired_many(differences, 1000, 9)
    covered = np.mean([(r.low or 0) <= 0.1 <= (r.high or 0) for r in results])
    assert 0.92 < covered < 0.97


def test_a_clear_difference_is_found_and_its_sign_kept() -> None:
    differences = np.random.default_rng(10).normal(-0.2, 0.1, 50)
    found = paired(differences)
    assert found.p is not None
    assert 0.0 < found.p < 0.001
    assert found.high is not None
    assert found.high < 0 < found.worse
    assert found.better + found.worse == 50


@given(TENTHS)
def test_turning_the_sides_round_turns_the_signs_only(differences: list[float]) -> None:
    there, back = paired(differences), paired([-d for d in differences])
    assert there.p == back.p
    assert (there.mean or 0.0) == pytest.approx(-(back.mean or 0.0))
    assert (there.better, there.worse) == (back.worse, back.better)


def test_columns_are_tested_as_if_each_stood_alone() -> None:
    block = np.random.default_rng(11).normal(0.05, 0.2, (40, 3))
    together = paired_many(block, 500, 12)
    for at, found in enumerate(together):
        alone = paired(block[:, at], resamples=500, seed=12)
        assert found.model_dump() == pytest.approx(alone.model_dump())


def test_what_is_always_the_same_has_no_effect_size() -> None:
    same = paired([0.25] * 20)
    assert same.dz is None
    assert (same.low, same.mean, same.high) == (0.25, 0.25, 0.25)
    nothing = paired([0.0] * 20)
    assert (nothing.p, nothing.dz, nothing.better, nothing.worse) == (1.0, None, 0, 0)


def test_too_few_items_have_no_test() -> None:
    assert paired([]).model_dump(exclude_none=True) == {"n": 0, "better": 0, "worse": 0}
    one = paired([0.5])
    assert (one.n, one.mean, one.low, one.p) == (1, 0.5, None, None)


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        paired([0.1, float("nan")])
    with pytest.raises(ValueError, match="100 or more"):
        paired([0.1, 0.2], resamples=10)

"""Means, differences and slopes of studies, with their spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scenewright.evals.statistics.estimates import (
    Estimate,
    contrast,
    difference,
    mean,
    number,
    over_seeds,
    slope,
)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(2, 5))
def test_mean_and_spread_are_the_plain_formulas(seed: int, n: int, seeds: int) -> None:
    values = np.random.default_rng(seed).random((n, seeds))
    found = mean(values)
    assert found.value == pytest.approx(values.mean())
    assert found.sd == pytest.approx(values.mean(0).std(ddof=1))
    assert (found.n, found.seeds) == (n, seeds)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.high


def test_the_interval_is_about_that_of_the_normal() -> None:
    values = np.random.default_rng(1).normal(5, 2, (400, 1))
    found = mean(values)
    half = 1.96 * values.std(ddof=1) / np.sqrt(400)
    assert found.low == pytest.approx(values.mean() - half, abs=0.05)
    assert found.high == pytest.approx(values.mean() + half, abs=0.05)


def test_what_is_not_there_is_left_out_and_never_nought() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 1.0]])
    found = mean(values)
    assert found.value == pytest.approx((1.0 + 0.5) / 2)
    assert found.n == 2
    none = mean(np.full((3, 2), np.nan))
    assert none.value is None
    assert none.reason


def test_differences_are_paired_by_item_and_seed() -> None:
    rng = np.random.default_rng(2)
    theirs = rng.random((50, 3))
    ours = theirs + 0.1
    ours[3, 0] = np.nan
    found = difference(ours, theirs)
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert found.n == 50
    # One seed of an item without a partner says nothing of it.
    theirs[4] = np.nan
    assert difference(ours, theirs).n == 49


def test_contrast_of_groups_needs_enough_of_both() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(1, 1, (60, 1)), rng.normal(0, 1, (60, 1))
    found = contrast(a, b)
    assert found.value == pytest.approx(a.mean() - b.mean())
    assert found.low is not None
    assert found.high is not None
    error = np.sqrt(a.var(ddof=1) / 60 + b.var(ddof=1) / 60)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * error, rel=0.15)
    assert contrast(a[:4], b).low is None
    assert contrast(a[:0], b).value is None


def test_slope_is_least_squares() -> None:
    rng = np.random.default_rng(4)
    x = np.tile(np.arange(1.0, 11.0), 8)
    y = (1 - 0.03 * x + rng.normal(0, 0.05, 80))[:, None]
    found = slope(x, y)
    line = stats.linregress(x, y[:, 0])
    assert found.value == pytest.approx(line.slope)
    assert found.low is not None
    assert found.high is not None
    assert found.low < line.slope < found.high < 0
    assert slope(np.ones(80), y).value is None


def test_scores_of_sets_have_a_spread_over_seeds_alone() -> None:
    found = over_seeds([10.0, None, 14.0], 50)
    assert (found.value, found.low, found.seeds) == (12.0, None, 2)
    assert found.sd == pytest.approx(np.std([10, 14], ddof=1))
    none = over_seeds([None], 4, "too few pictures")
    assert none.value is None
    assert none.reason == "too few pictures"


def test_words() -> None:
    found = Estimate(value=61.24, low=-0.5, high=63, sd=0.4)
    assert found.text() == "61.2 ± 0.40 [−0.5, 63.0]"
    assert Estimate().text() == "–"
    assert number(-0.04) == "0.0"
    assert number(1.0, sign=True) == "+1.0"
    assert found.times(2).value == pytest.approx(122.48)

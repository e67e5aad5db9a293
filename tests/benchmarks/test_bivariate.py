"""Tetrachoric correlations against closed forms and SciPy's multivariate normal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from benchmarks._estimators import BOUND, both_below, tetrachoric

cuts = st.floats(-3.0, 3.0)
correlations = st.floats(-0.98, 0.98)


@given(correlation=correlations)
def test_quadrant_probability_is_that_of_sheppard(correlation: float) -> None:
    wanted = 0.25 + np.arcsin(correlation) / (2.0 * np.pi)
    assert float(both_below(0.0, 0.0, correlation)) == pytest.approx(wanted, abs=1e-12)


@settings(deadline=None)
@given(h=cuts, k=cuts, correlation=correlations)
def test_probability_is_scipys(h: float, k: float, correlation: float) -> None:
    wanted = multivariate_normal.cdf([h, k], cov=[[1.0, correlation], [correlation, 1.0]])
    assert float(both_below(h, k, correlation)) == pytest.approx(float(wanted), abs=1e-7)


@given(h=cuts, k=cuts)
def test_independent_ones_multiply(h: float, k: float) -> None:
    assert float(both_below(h, k, 0.0)) == pytest.approx(float(ndtr(h) * ndtr(k)), abs=1e-15)


@settings(deadline=None)
@given(
    cut=st.lists(st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)), min_size=1, max_size=3),
    correlation=st.floats(-0.9, 0.9),
)
def test_the_correlation_comes_back_from_expected_counts(
    cut: list[tuple[float, float]], correlation: float
) -> None:
    h, k = np.array(cut).T
    n = 100.0 * np.arange(1, len(cut) + 1)
    found = tetrachoric(ndtr(h) * n, ndtr(k) * n, both_below(h, k, correlation) * n, n)
    # Far out in a tail the counts hardly depend on it.
    assert float(found) == pytest.approx(correlation, abs=1e-3)
    assert both_below(h, k, found) @ n == pytest.approx(both_below(h, k, correlation) @ n, abs=1e-6)


def test_pearsons_cosine_for_tables_cut_in_the_middle() -> None:
    # With both cuts at the median, r = sin(2π (p − ¼)), p being the share of both.
    both = np.array([[40.0], [25.0], [10.0]])
    found = tetrachoric(np.full((3, 1), 50.0), np.full((3, 1), 50.0), both, np.full((3, 1), 100.0))
    assert found == pytest.approx(np.sin(2.0 * np.pi * (both[:, 0] / 100.0 - 0.25)), abs=1e-9)


def test_nothing_is_told_by_what_never_or_always_happens() -> None:
    assert np.isnan(tetrachoric([0.0], [3.0], [0.0], [10.0]))
    assert np.isnan(tetrachoric([10.0], [3.0], [3.0], [10.0]))
    assert np.isnan(tetrachoric([0.0], [0.0], [0.0], [0.0]))
    # Such a stratum does not change what another tells.
    alone = tetrachoric([30.0], [40.0], [20.0], [100.0])
    assert tetrachoric([30.0, 0.0], [40.0, 5.0], [20.0, 0.0], [100.0, 50.0]) == pytest.approx(alone)


def test_empty_and_full_cells_end_at_the_bounds() -> None:
    # Below −0.97 both happen less than once in 10¹⁰ times: all that is as good.
    assert -BOUND <= float(tetrachoric([20.0], [20.0], [0.0], [100.0])) < -0.97
    assert float(tetrachoric([20.0], [20.0], [20.0], [100.0])) == pytest.approx(BOUND, abs=1e-3)

"""Rank correlations, and figures over few pictures."""

from __future__ import annotations

import numpy as np
import pytest

from scenewright.evals.statistics.figures import Bootstrap, correlate
from scenewright.evals.statistics.ranks import kendall, spearman

NAN = float("nan")


def test_two_values_have_a_correlation_unless_more_are_asked_for() -> None:
    assert kendall([1.0, 2.0], [5.0, 4.0]) == pytest.approx(-1.0)
    assert spearman([1.0, 2.0], [5.0, 4.0]) == pytest.approx(-1.0)
    assert np.isnan(kendall([1.0, 2.0], [5.0, 4.0], least=3))


def test_pairs_without_a_value_and_constant_sides_do_not_count() -> None:
    assert spearman([1.0, NAN, 2.0, 3.0], [1.0, 9.0, 2.0, NAN]) == pytest.approx(1.0)
    assert np.isnan(spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))


def test_items_of_two_pictures_are_compared_with_people() -> None:
    people = {(f"item {at}", arm): float(at + (arm == "b")) for at in range(4) for arm in "ab"}
    found = correlate("metric", dict(people), people, resamples=100, seed=0)
    assert found.within.value == pytest.approx(1.0)
    assert found.within.n == 4


def test_a_share_leaves_out_what_has_no_value() -> None:
    found = Bootstrap(3).share([0, 1, 2, 2], [1.0, NAN, 0.0, 1.0])
    assert found.value == pytest.approx(2 / 3)
    assert found.n == 3
    assert Bootstrap(3).share([0, 1], [NAN, NAN]).value is None

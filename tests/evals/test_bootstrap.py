"""Figures with intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import (
    brier_score,
    cohen_kappa,
    expected_calibration_error,
)
from scenewright.evals.statistics.agreement import alpha, cohen
from scenewright.evals.statistics.figures import Bootstrap, Figure
from tests.evals.krippendorff import krippendorff_alpha

Array = NDArray[np.float64]


def value(figure: Figure) -> float:
    return math.nan if figure.value is None else figure.value


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 8))
def test_values_are_those_of_the_published_formulas(seed: int, n: int, pictures: int) -> None:
    rng = np.random.default_rng(seed)
    at = rng.integers(pictures, size=n)
    truth = rng.integers(2, size=n).astype(float)
    said = np.round(rng.random(n), 2)
    votes = rng.integers(2, size=(n, 3)).astype(float)
    votes[rng.random((n, 3)) < 0.2] = np.nan
    boot = Bootstrap(pictures, resamples=200)
    assert value(boot.share(at, (said - truth) ** 2)) == pytest.approx(brier_score(said, truth))
    found = boot.calibration_error(at, said, truth)
    assert value(found) == pytest.approx(expected_calibration_error(said, truth))
    kappa = cohen(boot, at, votes[:, 0], votes[:, 1])
    assert value(kappa) == pytest.approx(cohen_kappa(votes[:, 0], votes[:, 1]), nan_ok=True)
    found_alpha = alpha(boot, at, votes, "nominal")
    assert value(found_alpha) == pytest.approx(krippendorff_alpha(votes), nan_ok=True)
    for figure in (found, kappa, found_alpha):
        if figure.low is not None and figure.high is not None:
            assert figure.low <= figure.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for trial in range(200):
        # Facts of one picture are alike: an interval over facts would be far too narrow.
        chance = rng.beta(2, 2, size=60)
        at = np.repeat(np.arange(60), 6)
        figure = Bootstrap(60, seed=trial, resamples=200).share(at, rng.random(360) < chance[at])
        assert figure.low is not None
        assert figure.high is not None
        hits += figure.low <= 0.5 <= figure.high
    assert 176 <= hits <= 199


def test_what_cannot_be_measured_has_no_value() -> None:
    boot = Bootstrap(3)
    assert boot.share([], []) == Figure(value=None, n=0)
    assert boot.balanced([0, 1], [1, 1], [1, 1]).value is None
    assert cohen(boot, np.arange(3), [1, 1, 1], [1, 1, 1]).value is None
    alone = Bootstrap(1).share([0, 0], [1, 0])
    assert (alone.value, alone.low, alone.high) == (0.5, None, None)
    with pytest.raises(ValueError, match="no pictures"):
        Bootstrap(0)


def test_the_same_seed_gives_the_same_interval() -> None:
    def share(seed: int) -> Figure:
        return Bootstrap(20, seed).share(range(20), np.arange(20) % 3 == 0)

    assert share(1) == share(1)
    assert share(1).value == share(2).value


def test_many_pictures_take_fewer_resamples() -> None:
    figure = Bootstrap(25_000).share(np.arange(25_000), np.arange(25_000) % 2)
    assert figure.low == pytest.approx(0.5, abs=0.02)


def test_words() -> None:
    assert Figure(value=0.5, low=0.25, high=0.75).text(2) == "0.50 [0.25, 0.75]"
    assert Figure(value=0.5).text() == "0.500"
    assert Figure(value=None).text() == "–"

"""Agreement of judges, calibration of probabilities, intervals of a panel's score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scenewright.agents.panel.aggregation import (
    Array,
    Level,
    brier_score,
    cohen_kappa,
    disagreement,
    expected_calibration_error,
    krippendorff_alpha,
    majority_share,
)

NAN = float("nan")
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)
VOTES = st.sampled_from([0.0, 1.0, NAN])
ANSWERS = st.one_of(st.floats(0.0, 1.0), VOTES)
PANELS = hnp.arrays(np.float64, SHAPES, elements=ANSWERS, fill=st.nothing())
# Matrices take long to draw, and a busy machine is no failure.
few = settings(max_examples=60, deadline=None)
PAIRS = st.lists(st.tuples(VOTES, VOTES), min_size=1, max_size=20)


def ratings(*observers: str) -> Array:
    """(units, observers) from one string an observer, ``*`` where a unit was not rated."""
    return np.array([[NAN if v == "*" else float(v) for v in row.split()] for row in observers]).T


# Krippendorff (2011), section C: four observers, twelve units.
FOUR_OBSERVERS = ratings(
    "1 2 3 3 2 1 4 1 2 * * *",
    "1 2 3 3 2 2 4 1 2 5 * 3",
    "* 3 3 3 2 3 4 2 2 5 1 *",
    "1 2 3 3 2 4 4 1 2 5 1 *",
)
# The worked example of the encyclopaedia's article on Krippendorff's alpha.
THREE_CODERS = ratings(
    "* * * * * 3 4 1 2 1 1 3 3 * 3",
    "1 * 2 1 3 3 4 3 * * * * * * *",
    "* * 2 1 3 4 4 * 2 1 1 3 3 * 4",
)


def table(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> tuple[list[int], list[int]]:
    """Votes of two judges with these counts."""
    a = [1] * (yes_yes + yes_no) + [0] * (no_yes + no_no)
    b = [1] * yes_yes + [0] * yes_no + [1] * no_yes + [0] * no_no
    return a, b


def test_disagreement_is_the_entropy_of_the_mean() -> None:
    panel = [[0, 1], [0.5, 0.5], [1, 1], [0, 0], [0.25, NAN], [NAN, NAN]]
    np.testing.assert_allclose(disagreement(panel), [1, 1, 0, 0, 0.811278, NAN], atol=1e-6)


@few
@given(PANELS)
def test_disagreement_lies_in_a_bit_and_yes_and_no_are_alike(panel: Array) -> None:
    found = disagreement(panel)
    known = ~np.isnan(panel).all(1)
    np.testing.assert_array_equal(~np.isnan(found), known)
    assert np.all((found[known] >= 0.0) & (found[known] <= 1.0))
    np.testing.assert_allclose(disagreement(1.0 - panel), found, atol=1e-9)
    np.testing.assert_allclose(disagreement(panel[:, ::-1]), found, atol=1e-9)


def test_disagreement_of_votes_asks_only_whether_they_differ() -> None:
    votes = (np.array([[0.6, 0.7, 0.9], [0.4, 0.6, 0.9]]) > 0.5).astype(float)
    np.testing.assert_allclose(disagreement(votes), [0.0, 0.918296], atol=1e-6)
    np.testing.assert_allclose(disagreement(majority_share(votes)[:, None]), disagreement(votes))


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [
        # Feinstein & Cicchetti (1990): the same observed agreement, 0.85.
        ((40, 9, 6, 45), 0.70),
        ((80, 10, 5, 5), 0.32),
        # Viera & Garrett (2005).
        ((15, 5, 10, 70), 0.57),
        ((25, 25, 25, 25), 0.0),
        ((0, 50, 50, 0), -1.0),
        ((30, 0, 0, 20), 1.0),
    ],
)
def test_kappa_of_published_tables(counts: tuple[int, int, int, int], kappa: float) -> None:
    assert cohen_kappa(*table(*counts)) == pytest.approx(kappa, abs=0.005)


@few
@given(PAIRS)
def test_kappa_is_symmetric_and_at_most_one(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    kappa = cohen_kappa(a, b)
    both = ~np.isnan(a + b)
    np.testing.assert_equal(kappa, cohen_kappa(b, a))
    np.testing.assert_equal(kappa, cohen_kappa(a[both], b[both]))
    np.testing.assert_allclose(kappa, cohen_kappa(1.0 - a, 1.0 - b))
    if not np.isnan(kappa):
        assert -1.0 <= kappa <= 1.0
        assert (kappa == 1.0) == bool((a[both] == b[both]).all())


@pytest.mark.parametrize(
    ("a", "b"), [([], []), ([NAN, 1], [1, NAN]), ([1, 1], [1, 1]), ([0, 0, NAN], [0, 0, 1])]
)
def test_kappa_without_variation_is_undefined(a: list[float], b: list[float]) -> None:
    assert np.isnan(cohen_kappa(a, b))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, 0], [1], "paired"),
        ([0.5], [1], "a must hold"),
        ([1], [2], "b must hold"),
        ([[1]], [[1]], "shape"),
        (["yes"], ["no"], "real numbers"),
    ],
)
def test_kappa_of_what_are_no_votes(a: Any, b: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cohen_kappa(a, b)


@pytest.mark.parametrize(
    ("example", "level", "alpha"),
    [
        (FOUR_OBSERVERS, "nominal", 0.743),
        (FOUR_OBSERVERS, "interval", 0.849),
        (THREE_CODERS, "nominal", 0.691),
        (THREE_CODERS, "interval", 0.811),
    ],
)
def test_alpha_of_published_examples(example: Array, level: Level, alpha: float) -> None:
    assert krippendorff_alpha(example, level) == pytest.approx(alpha, abs=0.0005)


def pairwise_alpha(panel: Array, level: Level) -> float:
    """The definition, pair by pair."""

    def differ(a: float, b: float) -> float:
        return float(a != b) if level == "nominal" else (a - b) ** 2

    units = [[float(v) for v in row if not np.isnan(v)] for row in panel]
    units = [unit for unit in units if len(unit) > 1]
    values = [v for unit in units for v in unit]
    if len(set(values)) < 2:
        return NAN
    within = sum(sum(differ(a, b) for a in u for b in u) / (len(u) - 1) for u in units)
    among = sum(differ(a, b) for a in values for b in values) / (len(values) - 1)
    return 1.0 - within / among


@pytest.mark.parametrize("level", ["nominal", "interval"])
@few
@given(
    panel=hnp.arrays(
        np.float64,
        SHAPES,
        elements=st.sampled_from([NAN, 0.0, 0.1, 0.5, 0.7, 1.0]),
        fill=st.nothing(),
    )
)
def test_alpha_is_what_its_definition_says(panel: Array, level: Level) -> None:
    np.testing.assert_allclose(
        krippendorff_alpha(panel, level), pairwise_alpha(panel, level), atol=1e-9
    )


def test_alpha_of_two_votes_is_the_same_on_both_levels() -> None:
    votes = np.array(table(40, 9, 6, 45), float).T
    assert krippendorff_alpha(votes) == pytest.approx(krippendorff_alpha(votes, "interval"))


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 7.0, 1e300])
def test_alpha_does_not_change_with_the_unit(unit: float) -> None:
    found = krippendorff_alpha(FOUR_OBSERVERS * unit, "interval")
    assert found == pytest.approx(0.8491071, abs=1e-6)


def test_alpha_is_one_for_judges_that_agree_and_near_zero_by_chance() -> None:
    rng = np.random.default_rng(0)
    one = rng.random((200, 1))
    assert krippendorff_alpha(np.tile(one, (1, 4)), "interval") == pytest.approx(1.0)
    assert abs(krippendorff_alpha((rng.random((3000, 3)) < 0.5).astype(float))) < 0.03


@pytest.mark.parametrize(
    "panel", [np.ones((3, 2)), np.zeros((0, 3)), [[0.2], [0.7]], [[NAN, 1], [0, NAN]]]
)
@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_without_pairs_or_variation_is_undefined(panel: Any, level: Level) -> None:
    assert np.isnan(krippendorff_alpha(panel, level))


@pytest.mark.parametrize(
    ("panel", "level", "message"),
    [
        ([1, 2], "nominal", "shape"),
        ([[np.inf, 1]], "nominal", "finite"),
        ([["a", "b"]], "nominal", "real numbers"),
        ([[1, 2]], "ordinal", "unknown level"),
    ],
)
def test_alpha_of_bad_ratings(panel: Any, level: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        krippendorff_alpha(panel, level)


def test_brier_score_and_calibration_error() -> None:
    said, holds = [0.9, 0.8, 0.3, 1.0, NAN, 0.4], [1, 0, 0, 1, 1, NAN]
    assert brier_score(said, holds) == pytest.approx((0.01 + 0.64 + 0.09 + 0.0) / 4)
    # Bins: 0.9 and 1.0 (gap −0.1), 0.8 (0.8), 0.3 (0.3).
    assert expected_calibration_error(said, holds) == pytest.approx((0.1 + 0.8 + 0.3) / 4)
    assert expected_calibration_error(said, holds, bins=1) == pytest.approx(1.0 / 4)
    # 1 shares the last bin with 0.95, and their errors cancel in part.
    assert expected_calibration_error([0.95, 1.0], [1, 0]) == pytest.approx(0.95 / 2)


def test_a_calibrated_judge_has_little_calibration_error() -> None:
    rng = np.random.default_rng(0)
    said = rng.random(20_000)
    holds = (rng.random(20_000) < said).astype(float)
    assert expected_calibration_error(said, holds) < 0.02
    assert brier_score(said, holds) == pytest.approx(1 / 6, abs=0.01)
    assert expected_calibration_error(said**3, holds) > 0.2


@few
@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0])), min_size=1),
    st.integers(1, 30),
)
def test_scores_of_probabilities_lie_in_the_unit_interval(
    pairs: list[tuple[float, float]], bins: int
) -> None:
    said, holds = np.array(pairs).T
    assert 0.0 <= brier_score(said, holds) <= 1.0
    error = expected_calibration_error(said, holds, bins)
    assert abs(float((said - holds).mean())) - 1e-9 <= error <= 1.0
    assert brier_score(holds, holds) == expected_calibration_error(holds, holds, bins) == 0.0


def test_scores_without_labels_are_undefined() -> None:
    assert np.isnan(brier_score([0.5], [NAN]))
    assert np.isnan(expected_calibration_error([], []))


@pytest.mark.parametrize("score", [brier_score, expected_calibration_error])
@pytest.mark.parametrize(
    ("said", "holds", "message"),
    [
        ([0.5], [1, 0], "paired"),
        ([1.5], [1], r"\[0, 1\]"),
        ([0.5], [0.5], "labels"),
        ([[0.5]], [1], "shape"),
    ],
)
def test_scores_of_bad_pairs(score: Any, said: Any, holds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score(said, holds)


def test_fewer_than_one_bin() -> None:
    with pytest.raises(ValueError, match="bins"):
        expected_calibration_error([0.5], [1], bins=0)

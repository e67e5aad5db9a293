"""How far scores are from people's: normalized errors and five classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import normalized
from scenewright.tools.vision.realism.accuracy import normalized_error, realism_class, same_class

SCORES = st.floats(1, 5, allow_nan=False)


@pytest.mark.parametrize(
    ("score", "nearest"),
    [(1, 1), (1.49, 1), (1.5, 2), (2.5, 3), (3.49, 3), (3.5, 4), (4.5, 5), (5, 5)],
)
def test_halves_go_up(score: float, nearest: int) -> None:
    assert realism_class(score) == nearest


def test_rounding_error_below_a_half_is_no_other_class() -> None:
    below = (1.4 + 2.2 + 3.9 - 1e-12) / 3
    assert below < 2.5
    assert realism_class(below) == 3


@given(said=SCORES, wanted=SCORES)
def test_errors_are_of_normalized_scores(said: float, wanted: float) -> None:
    error = float(normalized_error(said, wanted))
    assert error == pytest.approx(abs(normalized(said) - normalized(wanted)))
    assert 0 <= error <= 1
    # Two of one class are less than a quarter apart, two more than a quarter apart of two.
    assert not same_class(said, wanted) or error <= 0.25 + 1e-6
    assert same_class(said, wanted) or error > 0 or said != wanted


def test_arrays_go_in_and_come_out() -> None:
    said, wanted = np.array([1.0, 3.2, 5.0]), np.array([1.4, 4.0, 4.6])
    np.testing.assert_allclose(normalized_error(said, wanted), [0.1, 0.2, 0.1])
    assert same_class(said, wanted).tolist() == [1, 0, 1]

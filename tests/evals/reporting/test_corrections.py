"""P-values corrected for the number of comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from scenewright.evals.statistics.estimates import benjamini_hochberg, holm

P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


def test_holm_by_hand() -> None:
    # 0.01·4, 0.015·3 = 0.045, 0.03·2 = 0.06, and 0.04·1 may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.015]) == pytest.approx([0.04, 0.06, 0.06, 0.045])


def test_benjamini_hochberg_by_hand() -> None:
    # 0.01·4, 0.015·2 = 0.03 pulls the first down; 0.03·4/3 = 0.04, 0.04.
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.015]) == pytest.approx([0.03, 0.04, 0.04, 0.03])


@given(P_VALUES)
def test_benjamini_hochberg_is_that_of_scipy(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p, method="bh"))


@given(P_VALUES)
def test_holm_is_its_step_down_definition(p: list[float]) -> None:
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, at in enumerate(np.argsort(p, kind="stable")):
            if p[at] * (len(p) - rank) > level:
                break
            rejected.add(int(at))
        assert {at for at, value in enumerate(holm(p)) if value <= level} == rejected


@given(P_VALUES)
def test_corrected_values_keep_their_order_and_are_never_smaller(p: list[float]) -> None:
    given_p = np.array(p)
    strict, loose = holm(p), benjamini_hochberg(p)
    order = np.argsort(given_p, kind="stable")
    for corrected in (strict, loose):
        assert np.all(corrected >= given_p - 1e-12)
        assert np.all(corrected <= 1.0)
        assert np.all(np.diff(corrected[order]) >= 0.0)
    assert np.all(loose <= strict + 1e-12)
    assert np.all(strict <= np.minimum(1.0, given_p * len(p)) + 1e-12)


@given(P_VALUES, st.randoms())
def test_the_order_in_which_they_are_given_does_not_matter(p: list[float], random: object) -> None:
    place = list(range(len(p)))
    random.shuffle(place)  # type: ignore[attr-defined]
    assert holm([p[at] for at in place]) == pytest.approx(holm(p)[place])


def test_nothing_to_correct_is_nothing() -> None:
    assert len(holm([])) == 0
    assert len(benjamini_hochberg([])) == 0


@pytest.mark.parametrize("bad", [[1.2], [-0.1], [float("nan"), 0.5], [[0.1]]])
def test_what_is_no_p_value_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        holm(bad)
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        benjamini_hochberg(bad)

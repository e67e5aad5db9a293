"""Which objects count, and what they say of their picture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Detection, ObjectRealism, normalized, on_scale
from scenewright.tools.vision.realism.pictures import image_realism, scored_objects


def thing(side: float, score: float = 1.0, stuff: bool = False) -> Detection:
    """A square of ``side`` pixels."""
    return Detection("dog", (0, 0, side, side), score, stuff=stuff)


def test_small_unsure_and_endless_things_are_left_out() -> None:
    found = [thing(9.9), thing(10), thing(50, 0.49), thing(40, 0.5), thing(90, stuff=True)]
    kept = scored_objects(found, (100, 100))
    assert [item.box[2] for item in kept] == [40, 10]


def test_a_picture_is_the_mean_of_its_five_largest_by_hand() -> None:
    rated = [(thing(side), float(score)) for side, score in enumerate([1, 5, 3, 4, 2, 1], start=1)]
    assert image_realism(rated) == pytest.approx((5 + 3 + 4 + 2 + 1) / 5)
    assert image_realism(rated, most=1) == 1.0
    assert image_realism([]) is None


def test_an_object_without_a_score_is_left_out_and_replaced_by_none() -> None:
    rated: list[tuple[Detection, float | None]] = [(thing(30), None), (thing(20), 4), (thing(2), 1)]
    assert image_realism(rated, most=2) == 4.0
    assert image_realism([(thing(3), None)]) is None


def test_ocr_of_an_object_is_the_mean_of_its_aspects() -> None:
    assert ObjectRealism(2.0, 5.0).average == 3.5
    assert ObjectRealism(None, 5.0, reason="the judge was silent").average is None


@given(st.floats(1, 5))
def test_the_scale_and_its_share_are_each_other_s_inverse(score: float) -> None:
    assert on_scale(normalized(score)) == pytest.approx(score)


@given(st.floats(-10, 10))
def test_no_score_leaves_the_scale(share: float) -> None:
    assert 1.0 <= on_scale(share) <= 5.0

"""Instances from a map of classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from scenewright.core.ports.vision import DetectionError
from scenewright.tools.vision.detection.boxes import box_of
from scenewright.tools.vision.detection.components import Mending, halves_of, instances_of

SIZE = 64


def world(*marks: tuple[int, tuple[int, int, int, int], float]) -> NDArray[np.float32]:
    """Probabilities of four classes in a picture of 64×64: class 0, and ``marks`` of a class in a
    box (left, top, right, bottom) with a probability, the last on top."""
    chances = np.full((4, SIZE, SIZE), 0.01, np.float32)
    chances[0] = 0.97
    for label, (left, top, right, bottom), sure in marks:
        chances[:, top:bottom, left:right] = (1 - sure) / 3
        chances[0, top:bottom, left:right] += 0.001
        chances[label, top:bottom, left:right] = sure
    return np.asarray(chances / chances.sum(axis=0), np.float32)


def boxes(chances: NDArray[np.float32], mending: Mending | None = None) -> list[tuple[int, object]]:
    found = instances_of(chances, mending, background={0})
    return [(one.label, box_of(one.mask)) for one in found]


def test_each_component_is_a_thing() -> None:
    chances = world((1, (4, 4, 24, 24), 0.9), (1, (40, 4, 56, 20), 0.9), (2, (4, 40, 20, 60), 0.8))
    assert boxes(chances) == [
        (1, (4, 4, 24, 24)),
        (2, (4, 40, 20, 60)),
        (1, (40, 4, 56, 20)),
    ]


def test_the_score_is_the_mean_probability() -> None:
    (one,) = instances_of(world((1, (4, 4, 24, 24), 0.9)), background={0})
    assert one.score == pytest.approx(0.9, abs=0.01)


def test_things_that_touch_at_a_corner_are_one() -> None:
    chances = world((1, (4, 4, 20, 12), 0.9), (1, (20, 12, 40, 30), 0.9))
    assert boxes(chances) == [(1, (4, 4, 40, 30))]


def test_specks_are_left_out() -> None:
    chances = world((1, (4, 4, 24, 24), 0.9), (1, (40, 40, 43, 43), 0.9))
    assert len(boxes(chances)) == 1
    assert len(boxes(chances, Mending(least=0.001))) == 2


def test_faint_pixels_carry_a_thing_on() -> None:
    """A handle that is a little less likely than what is behind it."""
    chances = world(
        (2, (4, 4, 30, 16), 0.9), (2, (16, 16, 18, 36), 0.4), (2, (10, 36, 24, 44), 0.9)
    )
    chances[0, 16:36, 16:18] = 0.5
    assert boxes(chances) == [(2, (4, 4, 30, 44))]
    assert len(boxes(chances, Mending(faint=0.6))) == 2


def test_a_thing_cut_by_another_is_one() -> None:
    legs = (1, (10, 4, 20, 60), 0.9)
    assert boxes(world(legs, (2, (0, 28, 40, 32), 0.9)))[0] == (1, (10, 4, 20, 60))
    # Out of line: two that stand side by side behind it.
    beside = [(1, (10, 4, 20, 28), 0.9), (1, (18, 32, 28, 60), 0.9)]
    assert len(boxes(world(*beside, (2, (0, 28, 40, 32), 0.9)))) == 3
    # Too wide a gap, or one that shows the background: two things.
    assert len(boxes(world(legs, (2, (0, 20, 40, 40), 0.9)))) == 3
    assert len(boxes(world(legs, (0, (0, 28, 40, 32), 0.9)))) == 2
    assert len(boxes(world(legs, (2, (0, 28, 40, 32), 0.9)), Mending(gap=0.0))) == 3


def test_small_holes_are_closed_unless_they_show_a_thing() -> None:
    holed = world((1, (4, 4, 34, 34), 0.9), (0, (14, 14, 17, 17), 0.9))
    (one,) = instances_of(holed, background={0})
    assert one.mask[15, 15]
    ring = world((1, (4, 4, 34, 34), 0.9), (0, (10, 10, 28, 28), 0.9))
    (one,) = instances_of(ring, background={0})
    assert not one.mask[15, 15]
    full = world((1, (4, 4, 34, 34), 0.9), (2, (10, 10, 28, 28), 0.9))
    assert [x.label for x in instances_of(full, background={0})] == [1, 2]
    assert not instances_of(full, background={0})[0].mask[15, 15]


def test_stuff_is_one_however_many_parts_it_has() -> None:
    chances = world((1, (4, 4, 24, 24), 0.9), (1, (40, 40, 60, 60), 0.9))
    (one,) = instances_of(chances, background={0}, stuff={1})
    assert box_of(one.mask) == (4, 4, 60, 60)


def figure(height: int = 24) -> NDArray[np.bool_]:
    """A head on a body: its halves are unlike."""
    mask = np.zeros((height, 20), bool)
    rows, columns = np.indices(mask.shape)
    mask |= np.hypot(rows - 5, columns - 10) <= 5
    mask[10:, 2:18] = True
    return mask


def test_two_alike_that_touch_are_two() -> None:
    one = figure()
    sheet = np.zeros((60, 30), bool)
    sheet[4:28, 5:25] = one
    sheet[28:52, 5:25] |= one
    halves = halves_of(sheet)
    assert halves
    first, second = halves
    assert box_of(first) == (7, 4, 23, 28)
    assert box_of(second) == (7, 28, 23, 52)
    assert not (first & second).any()
    assert ((first | second) == sheet).all()


@pytest.mark.parametrize("shape", ["figure", "bar", "square", "disc", "empty", "dot"])
def test_one_thing_stays_one(shape: str) -> None:
    sheet = np.zeros((60, 60), bool)
    rows, columns = np.indices(sheet.shape)
    match shape:
        case "figure":
            sheet[4:28, 5:25] = figure()
        case "bar":
            sheet[20:30, 4:56] = True
        case "square":
            sheet[10:40, 10:40] = True
        case "disc":
            sheet = np.hypot(rows - 30, columns - 30) < 20
        case "dot":
            sheet[5, 5] = True
    assert halves_of(sheet) == ()


@given(
    arrays.arrays(np.int8, (12, 12), elements=st.integers(0, 2)),
    st.floats(0.0, 0.1),
    st.floats(0.0, 0.5),
    st.booleans(),
)
def test_instances_are_apart_and_of_their_class(
    classes: NDArray[np.int8], least: float, faint: float, twice: bool
) -> None:
    chances = np.stack([np.where(classes == at, 0.8, 0.1) for at in range(3)]).astype(np.float32)
    mending = Mending(least=least, faint=faint, twice=twice)
    found = instances_of(chances, mending, background={0})
    if found:
        assert np.sum([one.mask for one in found], axis=0).max() == 1
    for one in found:
        assert one.label in (1, 2)
        assert (classes[one.mask] == one.label).any()
        assert 0 < one.score <= 0.8 + 1e-6


@pytest.mark.parametrize("name", ["least", "faint", "gap"])
def test_shares_out_of_range_are_told(name: str) -> None:
    changed: dict[str, Any] = {name: 1.5}
    with pytest.raises(DetectionError, match=name):
        replace(Mending(), **changed)

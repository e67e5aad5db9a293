"""The square around an object: what is in it, and what is done where it leaves the picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.tools.vision.realism.object_views import object_crop


def numbered(width: int, height: int) -> Image.Image:
    """A picture whose pixels tell where they come from."""
    rows, columns = np.mgrid[:height, :width].astype(np.uint8)
    return Image.fromarray(np.stack([columns, rows, np.zeros_like(rows)], -1))


def test_within_the_picture_it_is_a_plain_cut() -> None:
    image = numbered(100, 80)
    crop = object_crop(image, (30, 20, 50, 40))
    assert crop.size == (24, 24)
    assert np.array_equal(np.asarray(crop), np.asarray(image)[18:42, 28:52])


def test_a_flat_thing_stands_in_the_middle_of_a_square() -> None:
    crop = object_crop(numbered(100, 80), (20, 30, 60, 40), margin=0.0)
    assert crop.size == (40, 40)
    assert crop.getpixel((0, 0)) == (20, 15, 0)


def test_beyond_the_picture_its_edge_goes_on() -> None:
    crop = np.asarray(object_crop(numbered(40, 40), (0, 0, 20, 20), margin=0.25))
    assert crop.shape == (30, 30, 3)
    assert (crop[:5, :5] == (0, 0, 0)).all()
    assert (crop[5:, 4] == crop[5:, 5]).all()
    assert tuple(crop[-1, -1]) == (24, 24, 0)
    far = np.asarray(object_crop(numbered(40, 40), (30, 30, 40, 40), margin=0.5))
    assert tuple(far[-1, -1]) == (39, 39, 0)
    assert tuple(far[0, 0]) == (25, 25, 0)


@given(
    left=st.floats(-5, 38),
    top=st.floats(-5, 28),
    width=st.floats(0.5, 60),
    height=st.floats(0.5, 60),
)
@settings(max_examples=60)
def test_any_box_that_meets_the_picture_gives_a_square_of_its_pixels(
    left: float, top: float, width: float, height: float
) -> None:
    image = numbered(40, 30)
    box = (left, top, left + width, top + height)
    if min(box[2], 40) <= max(left, 0) or min(box[3], 30) <= max(top, 0):
        with pytest.raises(ValueError, match="not inside a picture"):
            object_crop(image, box)
        return
    crop = np.asarray(object_crop(image, box))
    assert crop.shape[0] == crop.shape[1] >= 1
    # Neighbours differ by one pixel at most: nothing is squeezed and no border is drawn.
    assert np.abs(np.diff(crop.astype(int), axis=1)).max(initial=0) <= 1
    assert np.abs(np.diff(crop.astype(int), axis=0)).max(initial=0) <= 1


@pytest.mark.parametrize("box", [(5, 5, 5, 9), (50, 5, 60, 9), (9, 9, 5, 5)])
def test_a_box_without_pixels_is_an_error_that_names_it(
    box: tuple[float, float, float, float],
) -> None:
    with pytest.raises(ValueError, match=r"not inside a picture of 40×30"):
        object_crop(numbered(40, 30), box)

"""The views of one object: what is marked stays whole, what is cut out is large enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.tools.vision.extraction.views import RED, line_width
from scenewright.tools.vision.realism.object_views import (
    LEAST_SIDE,
    VIEW_WORDS,
    VIEWS,
    mark_object,
    object_crop,
    view_of,
)

GREY = (90, 90, 90)


@given(
    left=st.integers(0, 150),
    top=st.integers(0, 90),
    width=st.integers(1, 50),
    height=st.integers(1, 30),
)
@settings(max_examples=60, deadline=None)
def test_a_marked_object_stays_whole_and_the_line_is_beside_it(
    left: int, top: int, width: int, height: int
) -> None:
    image = Image.new("RGB", (200, 120), GREY)
    line = line_width(image.size)
    shown = np.asarray(mark_object(image, (left, top, left + width, top + height)))
    red = (shown == RED).all(-1)
    inside = red[top : top + height, left : left + width]
    # Only at the picture's edge, where there is no room beside it, the line lies on the object.
    rows = slice(line if top < line else 0, height - line if top + height > 120 - line else height)
    columns = slice(
        line if left < line else 0, width - line if left + width > 200 - line else width
    )
    assert not inside[rows, columns].any()
    assert red.any()
    assert ((shown == GREY).all(-1) | red).all()


def test_the_given_picture_is_left_as_it_is() -> None:
    image = Image.new("L", (50, 50), 7)
    assert mark_object(image, (10, 10, 20, 20)).mode == "RGB"
    assert (image.mode, image.getextrema()) == ("L", (7, 7))


def test_a_small_crop_is_enlarged_and_a_large_one_is_not() -> None:
    image = Image.new("RGB", (900, 900), GREY)
    assert view_of(image, (10, 10, 30, 30), "crop").size == (LEAST_SIDE, LEAST_SIDE)
    box = (100, 100, 500, 400)
    assert view_of(image, box, "crop").size == object_crop(image, box).size
    assert view_of(image, box, "img").size == image.size
    assert set(VIEW_WORDS) == set(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("box", [(5, 5, 5, 9), (60, 0, 70, 10), (-9, -9, -1, -1)])
def test_a_box_that_is_no_part_of_the_picture_is_refused(view: str, box: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not inside a picture of 50×50"):
        view_of(Image.new("RGB", (50, 50)), box, view)  # type: ignore[arg-type]


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(ValueError, match="img, crop"):
        view_of(Image.new("RGB", (50, 50)), (0, 0, 9, 9), "whole")  # type: ignore[arg-type]

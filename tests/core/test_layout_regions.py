"""Regions of a picture and their masks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from scenewright.core.layout import COLUMNS, ROWS, Region, mask_of, region_of_cell

CELLS = st.tuples(st.integers(0, COLUMNS - 1), st.integers(0, ROWS - 1))


@given(cell=CELLS, margin=st.floats(0, 0.2))
def test_a_cell_is_a_region_inside_the_picture(cell: tuple[int, int], margin: float) -> None:
    region = region_of_cell(cell, margin)
    assert 0 <= region.left < region.right <= 1
    assert 0 <= region.top < region.bottom <= 1


@given(st.lists(CELLS, max_size=9), st.tuples(st.integers(9, 64), st.integers(9, 64)))
def test_a_mask_covers_its_cells_and_no_more(
    cells: list[tuple[int, int]], size: tuple[int, int]
) -> None:
    mask = mask_of([region_of_cell(cell, margin=0) for cell in cells], size)
    assert mask.size == size
    for column in range(COLUMNS):
        for row in range(ROWS):
            middle = (
                int((column + 0.5) / COLUMNS * size[0]),
                int((row + 0.5) / ROWS * size[1]),
            )
            assert (mask.getpixel(middle) == 255) is ((column, row) in cells)


def test_shares_of_the_picture() -> None:
    mask = mask_of([Region(0, 0, 0.5, 1), Region(0.25, 0, 0.75, 0.5)], (128, 64))
    assert white(mask) == pytest.approx(0.5 + 0.125)
    assert white(ImageChops.invert(mask)) == pytest.approx(1 - white(mask))
    assert white(mask_of([], (8, 8))) == 0


def white(mask: Image.Image) -> float:
    """The share of the picture that is white."""
    assert mask.mode == "L"
    return mask.histogram()[255] / (mask.width * mask.height)

"""COCO's run-length code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from scenewright.core.ports.vision import DetectionError
from scenewright.tools.vision.detection.files import (
    compress,
    decode,
    decompress,
    encode,
    mask_of_polygons,
)

MASKS = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)))


@given(MASKS)
def test_a_mask_comes_back(mask: NDArray[np.bool_]) -> None:
    counts = encode(mask)
    assert sum(counts) == mask.size
    assert (decode(counts, *mask.shape) == mask).all()
    assert (decode(decompress(compress(counts)), *mask.shape) == mask).all()


@given(st.lists(st.integers(0, 2**31)))
def test_counts_of_any_size_come_back(counts: list[int]) -> None:
    text = compress(counts)
    assert decompress(text) == counts
    assert all(48 <= ord(letter) < 112 for letter in text)


def test_columns_come_first_and_zeros_begin() -> None:
    assert encode(np.array([[0, 1], [0, 1], [1, 1]], bool)) == [2, 4]
    assert encode(np.array([[1, 0], [1, 0]], bool)) == [0, 2, 2]
    assert decode([1, 2, 1], 2, 2).tolist() == [[False, True], [True, False]]


def test_the_text_is_cocos() -> None:
    """A mask of 5×5 with a square of 2×2, worked out by ``maskApi.c``'s rule by hand: the counts
    6 2 3 2 12, of which the last two are written as differences 0 and 9."""
    mask = np.zeros((5, 5), bool)
    mask[1:3, 1:3] = True
    assert encode(mask) == [6, 2, 3, 2, 12]
    assert compress([6, 2, 3, 2, 12]) == "62309"
    assert decompress("62309") == [6, 2, 3, 2, 12]
    # 100 = 3·32 + 4: the low group first, with the bit that says more.
    assert compress([100]) == chr(48 + 0x20 + 4) + chr(48 + 3)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([3], "come to 3"),
        ([5, -1], "whole numbers"),
        ([2.0, 2], "whole numbers"),
        ([True], "whole"),
    ],
)
def test_counts_that_do_not_fill_the_picture_are_told(counts: list[int], said: str) -> None:
    with pytest.raises(DetectionError, match=said):
        decode(counts, 2, 2)


@pytest.mark.parametrize("text", ["\x00", "é", "Q", "4Q"])
def test_damaged_text_is_told(text: str) -> None:
    with pytest.raises(DetectionError, match="character"):
        decompress(text)


def test_a_mask_of_no_size_or_a_huge_one_is_told() -> None:
    for height, width in ((0, 4), (4, -1), (10**6, 10**6)):
        with pytest.raises(DetectionError, match="pixels"):
            decode([], height, width)


def test_polygons_fill_their_pixels() -> None:
    mask = mask_of_polygons([[2, 1, 6, 1, 6, 4, 2, 4]], 8, 10)
    assert mask.shape == (8, 10)
    assert mask[1:4, 2:6].all()
    assert mask.sum() <= 5 * 4
    both = mask_of_polygons([[2, 1, 6, 1, 6, 4, 2, 4], [7, 5, 9, 5, 9, 7]], 8, 10)
    assert both.sum() > mask.sum()
    with pytest.raises(DetectionError, match="three corners"):
        mask_of_polygons([[1, 2, 3, 4]], 8, 10)

"""COCO's run-length code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from scenewright.core.ports.vision import DetectionError
from scenewright.tools.vision.detection.masks import decode_mask, encode_mask, mask_of_polygons

MASKS = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def runs_of(mask: NDArray[np.bool_]) -> list[int]:
    """The lengths of runs of 0 and 1 in turn, column by column."""
    flat = mask.ravel(order="F").tolist()
    runs = [(value, len(list(run))) for value, run in itertools.groupby(flat)]
    return [length for _, length in ([(False, 0), *runs] if runs[0][0] else runs)]


@given(MASKS)
def test_a_mask_comes_back(mask: NDArray[np.bool_]) -> None:
    code = encode_mask(mask)
    assert code["size"] == list(mask.shape)
    assert all(48 <= ord(letter) < 112 for letter in code["counts"])
    assert (decode_mask(code["counts"], *mask.shape) == mask).all()
    assert (decode_mask(runs_of(mask), *mask.shape) == mask).all()


def test_columns_come_first_and_zeros_begin() -> None:
    assert encode_mask(np.array([[0, 1], [0, 1], [1, 1]], bool))["counts"] == "24"
    assert encode_mask(np.array([[1, 0], [1, 0]], bool))["counts"] == "022"
    assert decode_mask([1, 2, 1], 2, 2).tolist() == [[False, True], [True, False]]
    assert decode_mask([0, 0, 1, 2, 1], 2, 2).tolist() == [[False, True], [True, False]]


def test_the_text_is_cocos() -> None:
    """A mask of 5×5 with a square of 2×2, worked out by ``maskApi.c``'s rule by hand: the counts
    6 2 3 2 12, of which the last two are written as differences 0 and 9."""
    mask = np.zeros((5, 5), bool)
    mask[1:3, 1:3] = True
    assert runs_of(mask) == [6, 2, 3, 2, 12]
    assert encode_mask(mask)["counts"] == "62309"
    # 100 = 3·32 + 4: the low group first, with the bit that says more.
    assert encode_mask(np.zeros((10, 10), bool))["counts"] == chr(48 + 0x20 + 4) + chr(48 + 3)


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
        decode_mask(counts, 2, 2)


@pytest.mark.parametrize("text", ["\x00", "é", "Q", "4Q", "", "2", "222", "o"])
def test_damaged_text_is_told(text: str) -> None:
    with pytest.raises(DetectionError, match="character"):
        decode_mask(text, 2, 2)


def test_a_mask_of_no_size_or_a_huge_one_is_told() -> None:
    for height, width in ((0, 4), (4, -1), (10**6, 10**6)):
        with pytest.raises(DetectionError, match="pixels"):
            decode_mask([], height, width)


def test_polygons_fill_their_pixels() -> None:
    mask = mask_of_polygons([[2, 1, 6, 1, 6, 4, 2, 4]], 8, 10)
    assert mask.shape == (8, 10)
    assert mask[1:4, 2:6].all()
    assert mask.sum() <= 5 * 4
    both = mask_of_polygons([[2, 1, 6, 1, 6, 4, 2, 4], [7, 5, 9, 5, 9, 7]], 8, 10)
    assert both.sum() > mask.sum()
    with pytest.raises(DetectionError, match="three corners"):
        mask_of_polygons([[1, 2, 3, 4]], 8, 10)

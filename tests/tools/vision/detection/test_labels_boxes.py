"""Labels as data sets write them, and the arithmetic of boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Box, Detection
from scenewright.tools.vision.detection.boxes import (
    box_of,
    clipped,
    iou,
    non_maximum_suppression,
    scaled,
)
from scenewright.tools.vision.detection.labels import (
    COCO_STUFF,
    is_wanted,
    normalized_label,
    plain,
    stuff_ids,
)

SIDES = st.floats(-50, 50)
BOXES = st.tuples(SIDES, SIDES, st.floats(1, 40), st.floats(1, 40)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("sky-other-merged", "sky"),
        ("door-stuff", "door"),
        ("water-other", "water"),
        ("wall-brick", "wall-brick"),
        ("sofa, couch", "sofa"),
        ("-merged", "-merged"),
        ("Cell_Phone", "Cell Phone"),
    ],
)
def test_labels_as_people_say_them(label: str, said: str) -> None:
    assert plain(label) == said
    assert normalized_label(label) == said.lower().replace("-", " ").strip()


def test_coco_has_53_kinds_of_stuff() -> None:
    assert len(COCO_STUFF) == 53


def test_stuff_is_known_of_coco_or_told() -> None:
    coco = dict(enumerate([*sorted(COCO_STUFF), "dog"]))
    assert stuff_ids(coco) == frozenset(range(53))
    assert stuff_ids({0: "dog", 1: "sea"}) == frozenset()
    assert stuff_ids({0: "dog", 1: "sea"}, ["Sea"]) == {1}
    assert stuff_ids(coco, []) == frozenset()


def test_no_wanted_labels_want_all() -> None:
    assert is_wanted("dog", frozenset())
    assert is_wanted("Sky-other-merged", frozenset({"sky"}))
    assert not is_wanted("dog", frozenset({"sky"}))


@given(BOXES, BOXES)
def test_intersection_over_union_is_what_pixels_say(a: Box, b: Box) -> None:
    assert iou(a, b) == pytest.approx(iou(b, a))
    assert 0 <= iou(a, b) <= 1 + 1e-9
    assert iou(a, a) == pytest.approx(1)


def test_intersection_over_union_by_hand() -> None:
    assert iou((0, 0, 4, 4), (2, 0, 6, 4)) == pytest.approx(8 / 24)
    assert iou((0, 0, 4, 4), (4, 0, 8, 4)) == 0


@given(BOXES)
def test_what_is_clipped_lies_inside(box: Box) -> None:
    found = clipped(box, (30, 20))
    if found is None:
        assert box[2] <= 0 or box[3] <= 0 or box[0] >= 30 or box[1] >= 20
    else:
        assert 0 <= found[0] < found[2] <= 30
        assert 0 <= found[1] < found[3] <= 20


def test_a_box_of_no_number_is_no_box() -> None:
    assert clipped((float("nan"), 0, 4, 4), (30, 20)) in (None, (0.0, 0.0, 4.0, 4.0))
    assert clipped((0, 0, float("nan"), 4), (30, 20)) in (None, (0.0, 0.0, 30.0, 4.0))


def test_repeats_go_by_label() -> None:
    near = [
        Detection("dog", (0, 0, 10, 10), 0.6),
        Detection("dog", (1, 0, 11, 10), 0.9),
        Detection("cat", (0, 0, 10, 10), 0.5),
        Detection("dog", (30, 0, 40, 10), 0.4),
    ]
    kept = non_maximum_suppression(near, 0.5)
    assert [(one.name, one.score) for one in kept] == [("dog", 0.9), ("cat", 0.5), ("dog", 0.4)]
    assert len(non_maximum_suppression(near, 1.0)) == 4


def test_a_mask_has_a_box_and_grows_with_its_picture() -> None:
    assert box_of(np.zeros((10, 20), bool)) is None
    mask = np.zeros((10, 20), bool)
    mask[2:5, 4:8] = True
    assert box_of(mask) == (4, 2, 8, 5)
    (grown,) = scaled([Detection("dog", (4, 2, 8, 5), 1.0, mask)], (20, 10), (40, 30))
    assert grown.box == pytest.approx((8, 6, 16, 15))
    assert np.asarray(grown.mask).shape == (30, 40)
    assert list(scaled([Detection("dog", (40, 0, 50, 9))], (20, 10), (40, 30))) == []

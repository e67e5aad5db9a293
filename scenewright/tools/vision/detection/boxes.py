"""Arithmetic of boxes, masks and lists of detections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from scenewright.core.ports.vision import Box, Detection, Mask


def clipped(box: Box, size: tuple[int, int]) -> Box | None:
    """Return the part of ``box`` inside a picture of ``size`` (width, height).

    None if nothing of it is, or if a side is no number.
    """
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(size[0]), box[2]), min(float(size[1]), box[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def box_of(mask: Mask) -> Box | None:
    """Return the smallest box around what is true in ``mask``; none if nothing is."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def center_of(box: Box) -> tuple[float, float]:
    """Return (x, y) of the middle."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def area_of(box: Box) -> float:
    """Return the square pixels of a box; 0 where a side is negative."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def gap(a: Box, b: Box, axis: int) -> float:
    """Pixels between two boxes along an axis (0 across, 1 down); negative where they overlap."""
    return max(a[axis], b[axis]) - min(a[axis + 2], b[axis + 2])


def shared_area(a: Box, b: Box) -> float:
    """Return the square pixels that two boxes have in common."""
    return max(0.0, -gap(a, b, 0)) * max(0.0, -gap(a, b, 1))


def joint_box(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all of ``boxes``, of which there is one or more."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def pad_box(box: Box, share: float) -> Box:
    """``box`` with ``share`` of its width and height more on each side."""
    across, down = share * (box[2] - box[0]), share * (box[3] - box[1])
    return box[0] - across, box[1] - down, box[2] + across, box[3] + down


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union, in [0, 1]; 0 for two boxes that share no area."""
    shared = shared_area(a, b)
    return shared / (area_of(a) + area_of(b) - shared) if shared else 0.0


def non_maximum_suppression(found: Iterable[Detection], most: float) -> list[Detection]:
    """Apply non-maximum suppression per label; the result is ordered by score.

    Of detections with one label that share more than ``most`` of their union, the one with the
    highest score stays.
    """
    kept: list[Detection] = []
    for one in by_score(found):
        if all(one.name != other.name or iou(one.box, other.box) <= most for other in kept):
            kept.append(one)
    return kept


def by_score(found: Iterable[Detection]) -> list[Detection]:
    """Sort by score, highest first; equal ones by label and place, so that the order is stable."""
    return sorted(found, key=lambda one: (-one.score, one.name, one.box))


def scaled(
    found: Sequence[Detection], size: tuple[int, int], to: tuple[int, int]
) -> Iterable[Detection]:
    """Return ``found`` (picture of ``size``) scaled to the same picture of size ``to``.

    Sizes are (width, height). Boxes without area after scaling are left out.
    """
    across, down = to[0] / size[0], to[1] / size[1]
    for one in found:
        mask = None if one.mask is None else resized(one.mask, to)
        left, top, right, bottom = one.box
        box = clipped((left * across, top * down, right * across, bottom * down), to)
        if mask is not None and size != to:
            box = box_of(mask)
        if box is not None:
            yield replace(one, box=box, mask=mask)


def resized(mask: Mask, size: tuple[int, int]) -> Mask:
    """``mask`` for a picture of ``size`` (width, height): each pixel as the nearest one of it."""
    if (mask.shape[1], mask.shape[0]) == size:
        return mask
    sheet = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(sheet.resize(size, Image.Resampling.NEAREST)) > 127

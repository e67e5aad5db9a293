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


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union, in [0, 1]; 0 for two boxes without an area."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if across <= 0 or down <= 0:
        return 0.0
    shared = across * down
    return shared / (_area(a) + _area(b) - shared)


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


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])

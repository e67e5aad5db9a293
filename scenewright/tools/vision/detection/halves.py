"""Two things of one class that touch: a silhouette that is the same shape twice."""

from __future__ import annotations

import numpy as np
from PIL import Image
from scipy import ndimage, signal, spatial

from scenewright.core.ports.detector import Mask
from scenewright.tools.vision.detection.boxes import resized

ALIKE = 0.88
"""Least intersection over union of a silhouette with the two copies it is taken for."""
WAIST = 0.04
"""By how much a half is more convex than the whole, at least (shares of the convex hull that are
filled): a long thing of one piece, such as a bus, is as convex as its halves."""
_SHARED = 0.1
_SIDE = 64
_TRIED = 12


def halves_of(mask: Mask) -> tuple[Mask, Mask] | tuple[()]:
    """The two things that ``mask`` shows, or nothing if it is one thing, or several unlike ones.

    A shape and a step are looked for such that the shape and its copy one step further together
    are about the mask, and have next to no pixels in common; the steps to try are where the mask's
    autocorrelation is about half of its pixels. A pixel of neither or both copies goes to the
    nearer of their middles.
    """
    place = ndimage.find_objects(mask.astype(np.uint8))
    if not place:
        return ()
    rows, columns = place[0]
    small = _shrunk(mask[rows, columns])
    step = _step(small)
    if step is None:
        return ()
    first = _shape(small, step)
    second = _moved(first, step)
    middle = np.array(ndimage.center_of_mass(first))
    down, across = np.indices(small.shape)
    nearer = np.hypot(down - middle[0], across - middle[1]) <= np.hypot(
        down - middle[0] - step[0], across - middle[1] - step[1]
    )
    mine = (first & ~second) | (nearer & ~(second & ~first))
    whole = np.zeros(mask.shape, bool)
    whole[rows, columns] = resized(mine, (columns.stop - columns.start, rows.stop - rows.start))
    halves = mask & whole, mask & ~whole
    if not halves[0].any() or not halves[1].any():
        return ()
    if min(_solid(half) for half in halves) < _solid(mask) + WAIST:
        return ()
    return halves


def _step(mask: Mask) -> tuple[int, int] | None:
    """(down, across) from the first copy to the second; none if there are not two."""
    filled = int(mask.sum())
    if filled < 32:
        return None
    given = mask.astype(np.float32)
    overlap = signal.fftconvolve(given, given[::-1, ::-1])
    # Entry (i, j) counts the pixels that the mask shares with itself moved by this step.
    down, across = np.indices(overlap.shape)
    down, across = down - (mask.shape[0] - 1), across - (mask.shape[1] - 1)
    forward = (down > 0) | ((down == 0) & (across > 0))
    far = np.hypot(down, across) >= 0.35 * max(mask.shape)
    rank = np.where(forward & far, -np.abs(overlap - filled / 2), -np.inf)
    best: tuple[float, tuple[int, int]] | None = None
    order = np.argsort(rank, axis=None)[::-1][: _TRIED * 8]
    for at in order:
        place = np.unravel_index(int(at), rank.shape)
        if not np.isfinite(rank[place]) or overlap[place] < 0.38 * filled:
            continue
        step = (int(down[place]), int(across[place]))
        first = _shape(mask, step)
        moved = _moved(first, step)
        shared = int((first & moved).sum()) / max(1, int(first.sum()))
        alike = int((first | moved).sum()) / filled
        if shared <= _SHARED and alike >= ALIKE and (best is None or alike > best[0]):
            best = alike, step
    return None if best is None else best[1]


def _shape(mask: Mask, step: tuple[int, int]) -> Mask:
    """The pixels of ``mask`` that it also has one ``step`` further."""
    return mask & _moved(mask, (-step[0], -step[1]))


def _moved(mask: Mask, step: tuple[int, int]) -> Mask:
    """``mask`` moved by ``step``; what leaves the picture is lost."""
    height, width = mask.shape
    down, across = step
    found = np.zeros_like(mask)
    found[max(0, down) : height + min(0, down), max(0, across) : width + min(0, across)] = mask[
        max(0, -down) : height - max(0, down), max(0, -across) : width - max(0, across)
    ]
    return found


def _shrunk(mask: Mask) -> Mask:
    height, width = mask.shape
    scale = min(1.0, _SIDE / max(height, width))
    if scale == 1:
        return mask
    size = max(1, round(width * scale)), max(1, round(height * scale))
    sheet = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(sheet.resize(size, Image.Resampling.BOX)) > 127


def _solid(mask: Mask) -> float:
    """Share of its convex hull that ``mask`` fills."""
    points = np.argwhere(mask)
    if len(points) < 3:
        return 1.0
    # Corners of the pixels, so that a line of them has an area.
    corners = np.concatenate([points + step for step in ((0, 0), (0, 1), (1, 0), (1, 1))])
    return len(points) / float(spatial.ConvexHull(corners).volume)

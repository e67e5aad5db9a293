"""From a map of classes to instances: connected components, mended.

A semantic model says of which class every pixel is and nothing about where one thing ends and the
next begins. Here a thing is a connected component (8 neighbours) of its class, with repairs that
need no knowledge of what the classes are:

- *faint* pixels, whose class is not the likeliest one but not unlikely either, carry on a component
  over what is no other thing (hysteresis, as in Canny's edges): thin handles and legs stay whole;
- *specks* are no things, and small holes are closed;
- *parts* that a thing in front has cut apart are joined if the gap between them is narrow, lies
  within that thing, and has them in line on both sides;
- a component that is *twice* the same shape, and less convex than each half, is two things.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, signal, spatial
from scipy.sparse.csgraph import connected_components

from scenewright.core.ports.vision import DetectionError, Mask
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
    """Return the two equal things that ``mask`` shows; nothing for one thing or unlike ones.

    Searches a shape and a step such that the shape and its copy one step further together cover
    about the mask and share next to no pixels; candidate steps are where the mask's autocorrelation
    is about half of its pixels. A pixel of neither or both copies goes to the nearer of their
    centres.
    """
    place = ndimage.find_objects(mask.astype(np.uint8))
    if not place:
        return ()
    rows, columns = place[0]
    small = mask[rows, columns]
    if (scale := _SIDE / max(small.shape)) < 1:
        size = max(1, round(small.shape[1] * scale)), max(1, round(small.shape[0] * scale))
        sheet = Image.fromarray(small.astype(np.uint8) * 255)
        small = np.asarray(sheet.resize(size, Image.Resampling.BOX)) > 127
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
    """Return (down, across) from the first copy to the second; None if there are not two."""
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
    """Return the pixels of ``mask`` that it also has one ``step`` further."""
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


def _solid(mask: Mask) -> float:
    """Return the share of its convex hull that ``mask`` fills."""
    points = np.argwhere(mask)
    if len(points) < 3:
        return 1.0
    # Corners of the pixels, so that a line of them has an area.
    corners = np.concatenate([points + step for step in ((0, 0), (0, 1), (1, 0), (1, 1))])
    return len(points) / float(spatial.ConvexHull(corners).volume)


Probabilities = NDArray[np.float32]
"""(classes, height, width), summing to 1 over the classes."""

_NEIGHBOURS = np.ones((3, 3), bool)
_IN_LINE = 0.5


@dataclass(frozen=True, slots=True)
class Mending:
    """Rules by which components become instances.

    Raises ``DetectionError`` for a value out of range.
    """

    least: float = 0.005
    """Smallest share of the picture's pixels that an instance has; less is a speck."""
    faint: float = 0.25
    """Least probability with which a pixel carries on a component of its class."""
    gap: float = 0.08
    """Widest gap between two parts of one thing, as a share of the picture's longer side."""
    twice: bool = True
    """Whether a component that is twice the same shape is parted."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("least", "faint", "gap"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise DetectionError(f"{name} is {value}: use a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class Instance:
    """One thing."""

    label: int
    """Its class."""
    mask: Mask
    """Its pixels; those of different instances have none in common."""
    score: float
    """Mean probability of its class over its pixels."""


def instances_of(
    probabilities: Probabilities,
    mending: Mending | None = None,
    *,
    background: Collection[int] = (),
    stuff: Collection[int] = (),
) -> list[Instance]:
    """Return the things in a map of ``probabilities``, largest first.

    ``background``: classes that are no things. ``stuff``: classes that are one region each, however
    many parts it has.
    """
    mending = mending or Mending()
    likeliest = probabilities.argmax(axis=0)
    least = max(1, round(mending.least * likeliest.size))
    things = [int(at) for at in np.unique(likeliest) if at not in background]
    # What is surely a thing; faint pixels of others do not run over it.
    taken = np.zeros(likeliest.shape, bool)
    for label in things:
        for part in _parts(likeliest == label):
            if int(part.sum()) >= least:
                taken |= part
    found: list[Instance] = []
    for label in things:
        sure = likeliest == label
        reach = sure | ((probabilities[label] >= mending.faint) & ~taken)
        parts = [reach & sure] if label in stuff else _parts(reach)
        # A component without a likeliest pixel is a shadow of its class.
        kept = [p for p in parts if int(p.sum()) >= least and bool((p & sure).any())]
        found += [Instance(label, part, 0.0) for part in kept]
    # Pixels that several reach for go to the likeliest of them.
    best = np.full(likeliest.shape, -1.0, np.float32)
    owner = np.full(likeliest.shape, -1)
    for at, one in enumerate(found):
        more = one.mask & (probabilities[one.label] > best)
        best[more], owner[more] = probabilities[one.label][more], at
    found = [replace(one, mask=owner == at) for at, one in enumerate(found)]
    found = [replace(one, mask=_closed(one.mask, least, found)) for one in found]
    if mending.twice:
        split: list[Instance] = []
        for one in found:
            halves = () if one.label in stuff else halves_of(one.mask)
            if not halves or min(int(half.sum()) for half in halves) < least:
                split.append(one)
            else:
                split += [replace(one, mask=half) for half in halves]
        found = split
    found = _joined(found, mending.gap * max(likeliest.shape), stuff)
    scored = [
        replace(one, score=float(probabilities[one.label][one.mask].mean()))
        for one in found
        if one.mask.any()
    ]
    return sorted(scored, key=lambda one: (-int(one.mask.sum()), one.label))


def _parts(mask: Mask) -> list[Mask]:
    """Return the connected components, each a mask of the whole picture."""
    numbered, _ = ndimage.label(mask, _NEIGHBOURS)
    parts = []
    for at, place in enumerate(ndimage.find_objects(numbered), start=1):
        part = np.zeros(mask.shape, bool)
        part[place] = numbered[place] == at
        parts.append(part)
    return parts


def _joined(found: list[Instance], gap: float, stuff: Collection[int]) -> list[Instance]:
    """Return the parts of one class with nothing but another thing between them, as one."""
    if not found:
        return []
    cut = np.zeros((len(found), len(found)), bool)
    for a, b in combinations(range(len(found)), 2):
        same = found[a].label == found[b].label and found[a].label not in stuff
        cut[a, b] = same and _cut(found[a].mask, found[b].mask, found, gap)
    count, group = connected_components(cut, directed=False)
    joined = []
    for number in range(count):
        members = np.flatnonzero(group == number)
        masks = [found[at].mask for at in members]
        joined.append(replace(found[members[0]], mask=np.logical_or.reduce(masks)))
    return joined


def _cut(a: Mask, b: Mask, found: list[Instance], gap: float) -> bool:
    """Return whether ``a`` and ``b`` look like one thing behind another.

    The shortest way between them is at most ``gap`` pixels long and leads through one other thing
    alone, and what borders on that thing is on both sides about as wide and in line.
    """
    distance, nearest = ndimage.distance_transform_edt(~b, return_indices=True)
    away = np.where(a, distance, np.inf)
    start = np.unravel_index(int(away.argmin()), a.shape)
    length = float(away[start])
    if not 1.5 < length <= gap:
        return False
    end = nearest[0][start], nearest[1][start]
    steps = round(length) + 1
    rows = np.linspace(start[0], end[0], steps).round().astype(int)[1:-1]
    columns = np.linspace(start[1], end[1], steps).round().astype(int)[1:-1]
    axis = 1 if abs(end[0] - start[0]) >= abs(end[1] - start[1]) else 0
    for one in found:
        if one.mask[rows, columns].all() and not (one.mask & (a | b)).any():
            edge = ndimage.binary_dilation(one.mask, _NEIGHBOURS, iterations=2)
            sides = [np.flatnonzero((part & edge).any(axis=1 - axis)) for part in (a, b)]
            if not all(map(len, sides)):
                return False
            shared = min(side[-1] for side in sides) - max(side[0] for side in sides) + 1
            whole = max(side[-1] for side in sides) - min(side[0] for side in sides) + 1
            return bool(shared >= _IN_LINE * whole)
    return False


def _closed(mask: Mask, least: int, found: list[Instance]) -> Mask:
    """``mask`` with its holes of less than ``least`` pixels that are no other thing's."""
    holes = ndimage.binary_fill_holes(mask) & ~mask
    if not holes.any():
        return mask
    others = np.logical_or.reduce([one.mask for one in found])
    closed = mask.copy()
    for hole in _parts(holes):
        if int(hole.sum()) < least and not (hole & others).any():
            closed |= hole
    return closed

"""Crowds of one class become one node (XTC-Bench, Sec. 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scenewright.core.formats.base import numbered
from scenewright.core.ports.detector import Detection, Mask
from scenewright.core.ports.extractor import Dropped, ExtractionError, Thing
from scenewright.tools.vision.extraction.pairs import gap, joint, padded


@dataclass(frozen=True, slots=True)
class MergeRule:
    """When instances of a class become one node."""

    least: int = 3
    """Smallest group that is merged; pairs can still be described singly."""
    padding: float = 0.1
    """Share of its width and height that each box is grown by on each side before overlaps are
    looked for; the paper names no figure."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.least < 2:
            raise ExtractionError(f"groups of {self.least} cannot be merged: use 2 or more")
        if not 0.0 <= self.padding <= 10.0:
            raise ExtractionError(f"the padding is {self.padding}: use a share from 0 to 10")


@dataclass(frozen=True, slots=True)
class Merged:
    """Detections as things of a graph."""

    things: tuple[Thing, ...]
    """Each where its first member was; ids ``name.1``, ``name.2``, …"""
    owner: tuple[str, ...]
    """Of each detection, in order, the id of the thing that it went into."""
    told: tuple[Dropped, ...] = ()
    """One line a group: its instances are no nodes of their own."""


def groups_of(detections: Sequence[Detection], rule: MergeRule) -> list[list[int]]:
    """Positions of the detections that belong together, in order: of one class, and reached from
    each other over padded boxes that overlap. Groups below ``rule.least`` come apart again."""
    boxes = [padded(found.box, rule.padding) for found in detections]
    root = list(range(len(detections)))

    def top(at: int) -> int:
        while root[at] != at:
            root[at] = root[root[at]]
            at = root[at]
        return at

    for a in range(len(detections)):
        for b in range(a):
            if detections[a].name == detections[b].name and _overlap(boxes[a], boxes[b]):
                first, second = sorted((top(a), top(b)))
                root[second] = first
    joined: dict[int, list[int]] = {}
    for at in range(len(detections)):
        joined.setdefault(top(at), []).append(at)
    found = [
        part
        for members in joined.values()
        for part in ([members] if len(members) >= rule.least else [[one] for one in members])
    ]
    return sorted(found)


def merged(detections: Sequence[Detection], rule: MergeRule | None) -> Merged:
    """The things of ``detections``; groups by ``rule`` are one thing each (None: none is merged).

    A merged thing has the joint box, the union of the masks where every member has one, and the
    best score of its members.
    """
    alone = [[at] for at in range(len(detections))]
    groups = alone if rule is None else groups_of(detections, rule)
    ids = numbered(detections[members[0]].name for members in groups)
    owner = [""] * len(detections)
    things: list[Thing] = []
    told: list[Dropped] = []
    for id_, members in zip(ids, groups, strict=True):
        parts = tuple(detections[at] for at in members)
        for at in members:
            owner[at] = id_
        if len(parts) == 1:
            things.append(Thing(id_, parts[0]))
            continue
        things.append(Thing(id_, _joint(parts), parts))
        what = f"{len(parts)} × {parts[0].name}"
        told.append(Dropped(what, "merging", f"{len(parts)} overlap: they are {id_} together"))
    return Merged(tuple(things), tuple(owner), tuple(told))


def _joint(parts: Sequence[Detection]) -> Detection:
    masks = [part.mask for part in parts if part.mask is not None]
    mask: Mask | None = None
    if len(masks) == len(parts) and len({one.shape for one in masks}) == 1:
        mask = np.logical_or.reduce(masks)
    return Detection(
        parts[0].name,
        joint(part.box for part in parts),
        max(part.score for part in parts),
        mask,
        all(part.stuff for part in parts),
    )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return gap(a, b, 0) < 0 and gap(a, b, 1) < 0

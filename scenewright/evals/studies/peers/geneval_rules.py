"""GenEval's rules over detections (Ghosh et al., 2023), as its released code has them.

Of each class the most confident detections count, as many as are wanted; all of them must have the
colour, and each must lie as demanded of each thing of the other entry. Where several entries speak
of one class, which the release has nowhere, they share the detections that all of them want.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scenewright.core.ports.vision import Box, Detection
from scenewright.evals.studies.peers.geneval_demands import Demand, Demands, Position
from scenewright.tools.vision.detection.boxes import iou, normalized_label

COLORS = (
    *("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"),
)
"""The colours that the release tells apart."""
Found = Mapping[str, Sequence[Detection]]
"""Class → its detections, the most confident first."""
_CLEAR = 0.5
_NOTHING = 1e-3


@dataclass(frozen=True, slots=True)
class Rules:
    """Numbers of the released code."""

    threshold: float = 0.3
    """Detections of a confidence above this count."""
    counting_threshold: float = 0.9
    """The same where something is excluded, which is the counting task."""
    position: float = 0.1
    """Share of the two boxes' sizes by which centres must be apart."""
    most: int = 16
    """Most detections of a class."""
    overlap: float = 1.0
    """Of detections of a class whose boxes share this much of their union or more only the most
    confident counts; 1: all."""

    def confidence(self, demands: Demands) -> float:
        """Which threshold holds."""
        return self.counting_threshold if demands.exclude else self.threshold


@dataclass(frozen=True, slots=True)
class Clause:
    """Whether a demand is met."""

    holds: bool
    """Whether it is."""
    reason: str = ""
    """What was found instead; empty if it is met."""


def counted(detections: Sequence[Detection], demands: Demands, rules: Rules) -> Found:
    """The detections that count, by the classes of ``demands``."""
    least = rules.confidence(demands)
    found: dict[str, list[Detection]] = {}
    for name in demands.names:
        mine = [
            d
            for d in detections
            if normalized_label(d.name) == normalized_label(name) and d.score > least
        ]
        mine.sort(key=lambda one: -one.score)
        kept: list[Detection] = []
        for one in mine[: rules.most]:
            # At 1 the release keeps even boxes that are equal.
            if rules.overlap >= 1.0 or all(iou(one.box, k.box) < rules.overlap for k in kept):
                kept.append(one)
        found[name] = kept
    return found


def to_color(demands: Demands, found: Found) -> dict[str, tuple[Detection, ...]]:
    """Class → the detections whose colour must be known."""
    return {
        demand.name: tuple(found[demand.name][: demands.total(demand.name)])
        for demand in demands.include
        if demand.color and len(found[demand.name]) >= demands.total(demand.name)
    }


def clauses(
    demands: Demands,
    found: Found,
    colors: Mapping[str, Sequence[str | None]],
    rules: Rules,
) -> dict[str, Clause]:
    """Key of each clause (:func:`~.geneval_demands.clause_facts`) → whether it is met.

    ``colors``: class → the colours of its detections in :func:`to_color`.
    """
    result: dict[str, Clause] = {}
    groups: list[tuple[Detection, ...]] = []
    for at, demand in enumerate(demands.include):
        wanted = demands.total(demand.name)
        things = tuple(found[demand.name][:wanted])
        enough = len(things) >= wanted
        result[f"count:{at}"] = Clause(
            enough, "" if enough else f"expected {demand.name}>={wanted}, found {len(things)}"
        )
        group = things if enough else ()
        if demand.color:
            group = tuple(
                thing
                for thing, color in zip(group, colors.get(demand.name, ()), strict=False)
                if color == demand.color
            )
            result[f"color:{at}"] = _colored(demand, group, enough, colors.get(demand.name, ()))
            group = group if result[f"color:{at}"].holds else ()
        groups.append(group)
    for at, demand in enumerate(demands.include):
        for number, place in enumerate(demand.positions):
            other = demands.include[place.to].name
            result[f"position:{at}:{number}"] = _placed(
                demand.name, other, place, groups[at], groups[place.to], rules
            )
    for at, (name, count) in enumerate(demands.exclude):
        there = len(found[name])
        fewer = there < count
        result[f"exclude:{at}"] = Clause(
            fewer, "" if fewer else f"expected {name}<{count}, found {there}"
        )
    return result


def _colored(
    demand: Demand, group: Sequence[Detection], enough: bool, seen: Sequence[str | None]
) -> Clause:
    if not enough:
        return Clause(False, f"too few {demand.name} to look at their colour")
    if len(group) >= demand.count:
        return Clause(True)
    said = ", ".join(color or "no colour" for color in seen)
    return Clause(False, f"expected {demand.color} {demand.name}>={demand.count}, found {said}")


def _placed(
    name: str,
    other: str,
    place: Position,
    group: Sequence[Detection],
    targets: Sequence[Detection],
    rules: Rules,
) -> Clause:
    if not group or not targets:
        return Clause(False, f"no {name if not group else other} to be {place.relation}")
    pairs = [
        relative_positions(one.box, target.box, rules.position)
        for one in group
        for target in targets
    ]
    right = [place.relation in held for held in pairs]
    if any(right) if place.some else all(right):
        return Clause(True)
    held = pairs[right.index(False)]
    said = " and ".join(sorted(held)) or "in no clear direction of"
    return Clause(False, f"expected {name} {place.relation} {other}, found {said} it")


def relative_positions(box: Box, other: Box, threshold: float = 0.1) -> frozenset[str]:
    """Where ``box`` lies of ``other``: ``left of``, ``right of``, ``above``, ``below``, two of
    them, or none.

    The offset of the centres is lessened by ``threshold`` times the sum of the sizes on each axis;
    what is left, as a share of the whole offset, must be above one half.
    """
    a, b = (np.array(each, float).reshape(2, 2) for each in (box, other))
    offset = a.mean(0) - b.mean(0)
    sizes = np.abs(a[1] - a[0]) + np.abs(b[1] - b[0])
    left = np.maximum(np.abs(offset) - threshold * sizes, 0.0) * np.sign(offset)
    if (np.abs(left) < _NOTHING).all():
        return frozenset()
    across, down = left / np.linalg.norm(offset)
    return frozenset(
        name
        for name, there in (
            ("left of", across < -_CLEAR),
            ("right of", across > _CLEAR),
            ("above", down < -_CLEAR),
            ("below", down > _CLEAR),
        )
        if there
    )

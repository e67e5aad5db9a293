"""What of an extracted graph is right, by the exact truth of a painting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from scenewright.core.ports.vision import Box, Extraction
from scenewright.core.scene import Relation
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import CONTACTS
from scenewright.tools.vision.detection.boxes import iou

TURNED = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
KINDS = ("objects", "attributes", "relations", "contacts", "clear_relations", "placed_objects")
_PLACED = 0.5


@dataclass(frozen=True, slots=True)
class Count:
    """Facts of one kind in one picture."""

    right: int = 0
    """Said and true."""
    said: int = 0
    """Said."""
    found: int = 0
    """True and said."""
    true: int = 0
    """True."""


def true_box(painting: Painting, object_id: str) -> Box:
    """The painted thing's box within the picture, in pixels."""
    box = painting.truth.boxes[object_id]
    width, height = painting.image.size
    right, bottom = min(width, box.left + box.width), min(height, box.top + box.height)
    return float(max(0, box.left)), float(max(0, box.top)), float(right), float(bottom)


def aligned(found: Extraction, painting: Painting) -> dict[str, str]:
    """Id in the extraction → id in the painting, within classes: as many equal colours as can be,
    then, exchanging pairs, as many true relations as can be."""
    truth = painting.scene
    match: dict[str, str] = {}
    for name in sorted({item.name for item in found.scene.objects}):
        ours = [item for item in found.scene.objects if item.name == name]
        theirs = [item for item in truth.objects if item.name == name]
        if not theirs:
            continue
        same = np.array(
            [
                [float(a.attributes.get("color") == b.attributes["color"]) for b in theirs]
                for a in ours
            ]
        )
        for row, column in zip(*linear_sum_assignment(-same), strict=True):
            match[ours[row].id] = theirs[column].id
    return _exchanged(match, found, painting)


def _exchanged(match: dict[str, str], found: Extraction, painting: Painting) -> dict[str, str]:
    names = {item.id: item.name for item in found.scene.objects}
    told = {item.id: item.attributes.get("color") for item in found.scene.objects}
    best = _true_relations(match, found, painting)
    better = True
    while better:
        better = False
        for a in match:
            for b in match:
                if a >= b or names[a] != names[b] or told[a] != told[b]:
                    continue
                tried = {**match, a: match[b], b: match[a]}
                value = _true_relations(tried, found, painting)
                if value > best:
                    match, best, better = tried, value, True
    return match


def _true_relations(match: Mapping[str, str], found: Extraction, painting: Painting) -> int:
    return sum(_holds(relation, match, painting) for relation in found.scene.relations)


def _holds(relation: Relation, match: Mapping[str, str], painting: Painting) -> bool:
    source, target = match.get(relation.source), match.get(relation.target)
    if source is None or target is None:
        return False
    return relation.predicate in painting.truth.relations_between(source, target)


def counted(found: Extraction, painting: Painting) -> dict[str, Count]:
    """Kind → its count; the kinds are those of :data:`KINDS`, as the benchmark defines them."""
    scene, truth = found.scene, painting.truth
    match = aligned(found, painting)
    relations = scene.relations
    said = {
        (match[r.source], r.predicate, match[r.target])
        for r in relations
        if r.source in match and r.target in match
    }
    said |= {(t, TURNED[p], s) for s, p, t in said if p in TURNED}
    asked = [
        (r.source, r.predicate, r.target) for r in painting.scene.relations if r.predicate != "near"
    ]
    colors = [
        painting.scene.object(match[item.id]).attributes["color"] == item.attributes["color"]
        for item in scene.objects
        if item.id in match and "color" in item.attributes
    ]
    n = len(painting.scene.objects)

    def related(some: list[Relation], true: list[tuple[str, str, str]]) -> Count:
        right = sum(_holds(relation, match, painting) for relation in some)
        return Count(right, len(some), sum(one in said for one in true), len(true))

    def clear(relation: Relation) -> bool:
        ends = match.get(relation.source), match.get(relation.target)
        diagonal = None not in ends and truth.is_ambiguous(str(ends[0]), str(ends[1]))
        return not (relation.predicate in TURNED and diagonal)

    counts = {
        "objects": Count(len(match), len(scene.objects), len(match), n),
        "attributes": Count(
            sum(colors), sum(len(item.attributes) for item in scene.objects), sum(colors), n
        ),
        "relations": related(list(relations), asked),
        "contacts": related(
            [r for r in relations if r.predicate in CONTACTS], sorted(truth.contacts)
        ),
        "clear_relations": related([r for r in relations if clear(r)], asked),
    }
    if found.things:
        counts["placed_objects"] = _placed(found, painting)
    return counts


def _placed(found: Extraction, painting: Painting) -> Count:
    ours = list(found.things.values())
    theirs = painting.scene.objects
    table = np.array(
        [
            [iou(a.box, true_box(painting, b.id)) if a.name == b.name else 0.0 for b in theirs]
            for a in ours
        ]
    )
    rows, columns = linear_sum_assignment(-table)
    right = int((table[rows, columns] >= _PLACED).sum())
    return Count(right, len(ours), right, len(theirs))

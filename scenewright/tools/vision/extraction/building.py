"""Rules from the parts of an extraction to its scene graph (XTC-Bench, Sec. 3.2.2).

Crowds of one class become one node; scored relations pass thresholds and exclusive predicates. Pure
functions: whatever is dropped is listed with the figure that decided it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse.csgraph import connected_components

from scenewright.core.formats.base import numbered
from scenewright.core.ports.vision import (
    Candidate,
    Detection,
    Dropped,
    Extraction,
    ExtractionError,
    Mask,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.questions import attribute_fact_id, object_fact_id, relation_fact_id
from scenewright.core.scene import (
    MAX_RELATIONS,
    Attributes,
    Relation,
    SceneError,
    SceneGraph,
    SceneObject,
    clean_name,
)
from scenewright.core.vocabulary import EXCLUSIVE, canonical
from scenewright.tools.vision.detection.boxes import gap, joint_box, pad_box


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
class MergedDetections:
    """Detections as things of a graph."""

    things: tuple[Thing, ...]
    """Each where its first member was; ids ``name.1``, ``name.2``, …"""
    owner: tuple[str, ...]
    """Of each detection, in order, the id of the thing that it went into."""
    told: tuple[Dropped, ...] = ()
    """One line a group: its instances are no nodes of their own."""


def groups_of(detections: Sequence[Detection], rule: MergeRule) -> list[list[int]]:
    """Positions of the detections that belong together, in order.

    Of one class, and reached from each other over padded boxes that overlap. Groups below
    ``rule.least`` come apart again.
    """
    boxes = [pad_box(found.box, rule.padding) for found in detections]
    touching = np.zeros((len(boxes), len(boxes)), bool)
    for a, b in combinations(range(len(boxes)), 2):
        overlap = gap(boxes[a], boxes[b], 0) < 0 and gap(boxes[a], boxes[b], 1) < 0
        touching[a, b] = overlap and detections[a].name == detections[b].name
    merge_scores: dict[int, list[int]] = {}
    for at, group in enumerate(connected_components(touching, directed=False)[1].tolist()):
        merge_scores.setdefault(group, []).append(at)
    found = [
        part
        for members in merge_scores.values()
        for part in ([members] if len(members) >= rule.least else [[one] for one in members])
    ]
    return sorted(found)


def merge_detections(detections: Sequence[Detection], rule: MergeRule | None) -> MergedDetections:
    """Return the things of ``detections``.

    Groups by ``rule`` are one thing each (None: none is merged).

    A merged thing has the joint box, the union of the masks where every member has one, and the
    best score of its members.
    """
    groups = [[at] for at in range(len(detections))]
    if rule is not None and detections:
        groups = groups_of(detections, rule)
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
        masks = [part.mask for part in parts if part.mask is not None]
        mask: Mask | None = None
        if len(masks) == len(parts) and len({one.shape for one in masks}) == 1:
            mask = np.logical_or.reduce(masks)
        together = Detection(
            parts[0].name,
            joint_box(part.box for part in parts),
            max(part.score for part in parts),
            mask,
            all(part.stuff for part in parts),
        )
        things.append(Thing(id_, together, parts))
        what = f"{len(parts)} × {parts[0].name}"
        told.append(Dropped(what, "merging", f"{len(parts)} overlap: they are {id_} together"))
    return MergedDetections(tuple(things), tuple(owner), tuple(told))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of relations (XTC-Bench, Sec. 3.2.2 and 6.1.3); the authors' defaults."""

    none: float = 0.5
    """A pair whose score of no relation is this or more is dropped."""
    predicate: float = 0.4
    """A predicate is kept if its score is this or more."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, value in (("none", self.none), ("predicate", self.predicate)):
            if not 0.0 <= value <= 1.0:
                raise ExtractionError(f"the threshold {name} is {value}: it must be in [0, 1]")


def above_thresholds(
    scores: Iterable[PairScores], thresholds: Thresholds
) -> tuple[list[Candidate], list[Dropped]]:
    """Return the relations that reach ``thresholds``, best first within a pair, and what does not.

    Several predicates of one pair may pass: parallel edges. A predicate that no scene can hold
    is dropped too. A score outside of [0, 1] is an ``ExtractionError``.
    """
    kept: dict[Relation, Candidate] = {}
    dropped: list[Dropped] = []
    for pair in scores:
        for value in (pair.none, *pair.predicates.values()):
            if not 0.0 <= value <= 1.0:
                raise ExtractionError(
                    f"a score of {pair.source} and {pair.target} is {value}: give probabilities, "
                    "from 0 to 1"
                )
        if pair.source == pair.target:
            dropped.append(Dropped(f"{pair.source} and itself", "relations", "one object alone"))
            continue
        if pair.none >= thresholds.none:
            what = f"{pair.source} and {pair.target}"
            reason = f"no relation {pair.none:.2f} ≥ {thresholds.none:g}"
            dropped.append(Dropped(what, "relations", reason))
            continue
        for predicate, score in sorted(pair.predicates.items(), key=lambda one: (-one[1], one[0])):
            what = f"{pair.source} {predicate} {pair.target}"
            if score < thresholds.predicate:
                reason = f"score {score:.2f} < {thresholds.predicate:g}"
                dropped.append(Dropped(what, "relations", reason))
                continue
            try:
                clean = clean_name(predicate, "a predicate")
            except SceneError as error:
                dropped.append(Dropped(what, "relations", str(error)))
                continue
            relation = Relation(source=pair.source, predicate=clean, target=pair.target)
            if relation not in kept or kept[relation].score < score:
                kept[relation] = Candidate(relation, score)
    return list(kept.values()), dropped


def without_rivals(
    candidates: Sequence[Candidate], exclusive: Set[str] = EXCLUSIVE
) -> tuple[list[Candidate], list[Dropped]]:
    """Return the candidates with one subject for each ``exclusive`` predicate and object.

    The subject with the best score stays, the first of equals (XTC-Bench, Sec. 3.2.2). Order is
    kept.
    """
    best: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        key = (canonical(one.relation.predicate), one.relation.target)
        if key[0] in exclusive and (key not in best or one.score > best[key].score):
            best[key] = one
    kept, dropped = [], []
    for one in candidates:
        winner = best.get((canonical(one.relation.predicate), one.relation.target), one)
        if winner.relation.source == one.relation.source:
            kept.append(one)
            continue
        reason = (
            f"{winner.relation.source} does so likelier: {winner.score:.2f} ≥ {one.score:.2f}, "
            "and only one can"
        )
        dropped.append(Dropped(str(one.relation), "rules", reason))
    return kept, dropped


def merge_scores(scores: Iterable[PairScores], owner: Mapping[str, str]) -> list[PairScores]:
    """Return scores between instances as scores between the things they were merged into.

    ``owner``: instance id → thing id. Of several pairs of instances that become one, each
    predicate has its best score and no relation its least; relations within a thing go
    (XTC-Bench, Sec. 3.2.2). An id that ``owner`` lacks is an ``ExtractionError``.
    """
    found: dict[tuple[str, str], tuple[float, dict[str, float]]] = {}
    for pair in scores:
        try:
            source, target = owner[pair.source], owner[pair.target]
        except KeyError as error:
            raise ExtractionError(
                f"the scores name {error.args[0]!r}, which was not detected: there are "
                f"{', '.join(list(owner)[:12]) or 'no objects'}"
            ) from None
        if source == target:
            continue
        none, predicates = found.setdefault((source, target), (pair.none, {}))
        for predicate, score in pair.predicates.items():
            predicates[predicate] = max(score, predicates.get(predicate, 0.0))
        found[source, target] = (min(none, pair.none), predicates)
    return [PairScores(s, t, none, found_) for (s, t), (none, found_) in found.items()]


def build_extraction(
    things: Sequence[Thing],
    attributes: Mapping[str, Sequence[ReadAttribute]],
    candidates: Sequence[Candidate],
    checks: Mapping[Relation, Verification | None],
    dropped: Sequence[Dropped],
    unread: Sequence[Unread],
) -> Extraction:
    """Return the extraction of ``things`` with what was read and confirmed of them.

    ``attributes`` are words that a scene can hold. A relation's confidence is the verifier's where
    ``checks`` has one, else the scorer's.
    """
    told = list(dropped)
    confidence: dict[str, float] = {}
    objects: list[SceneObject] = []
    for thing in things:
        values: dict[str, str] = {}
        for read in attributes.get(thing.id, ()):
            values[read.key] = read.value
            if read.confidence is not None:
                confidence[attribute_fact_id(thing.id, read.key)] = read.confidence
        name = thing.detection.name
        objects.append(SceneObject(id=thing.id, name=name, attributes=Attributes(values)))
        confidence[object_fact_id(thing.id)] = thing.detection.score
    best = sorted(candidates, key=lambda one: -one.score)[:MAX_RELATIONS]
    kept = {one.relation: one for one in best}
    told += [
        Dropped(str(one.relation), "rules", f"a scene holds {MAX_RELATIONS} relations")
        for one in candidates
        if one.relation not in kept
    ]
    relations = tuple(one.relation for one in candidates if one.relation in kept)
    for relation in relations:
        check = checks.get(relation)
        known = None if check is None else check.confidence
        score = kept[relation].score if known is None else known
        confidence[relation_fact_id(relation)] = score
    return Extraction(
        SceneGraph(objects=tuple(objects), relations=relations),
        {thing.id: thing.detection for thing in things},
        confidence,
        tuple(told),
        tuple(unread),
    )

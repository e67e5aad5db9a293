"""From the parts of an extraction to its scene graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenewright.core.ports.extractor import (
    Candidate,
    Dropped,
    Extraction,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.questions import attribute_fact_id, object_fact_id, relation_fact_id
from scenewright.core.scene import MAX_RELATIONS, Attributes, Relation, SceneGraph, SceneObject


def built(
    things: Sequence[Thing],
    attributes: Mapping[str, Sequence[ReadAttribute]],
    candidates: Sequence[Candidate],
    checks: Mapping[Relation, Verification | None],
    dropped: Sequence[Dropped],
    unread: Sequence[Unread],
) -> Extraction:
    """The extraction of ``things`` with what was read and confirmed of them.

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

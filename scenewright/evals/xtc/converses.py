"""Relations said the other way round: a boat above a person is a person below a boat.

An extractor names each pair once, in the direction that it likes. Without this, a drawn picture
whose graph says the same the other way round would count as one that lacks the edge.
"""

from __future__ import annotations

from scenewright.placement import canonical_predicate
from scenewright.scene import Relation, SceneGraph

_PAIRS = (("left of", "right of"), ("above", "below"), ("in front of", "behind"))
_SYMMETRIC = ("near", "next to", "beside", "adjacent to", "touching")
CONVERSES: dict[str, str] = {
    **dict(_PAIRS),
    **{second: first for first, second in _PAIRS},
    **{predicate: predicate for predicate in _SYMMETRIC},
}
"""Predicate → what then holds the other way round. Only what follows from the words: what lies
under a thing need not carry it."""


def converse_of(predicate: str) -> str | None:
    """What holds the other way round where ``predicate`` holds; None if nothing follows."""
    said = predicate.casefold()
    return CONVERSES.get(said) or CONVERSES.get(canonical_predicate(said))


def with_converses(scene: SceneGraph) -> SceneGraph:
    """``scene`` with the converse of each relation between two objects that it relates in one
    direction alone; its own relations stay first, in their order."""
    ordered = {(r.source, r.target) for r in scene.relations}
    added = {
        Relation(source=r.target, predicate=turned, target=r.source): None
        for r in scene.relations
        if (r.target, r.source) not in ordered and (turned := converse_of(r.predicate))
    }
    if not added:
        return scene
    return SceneGraph(objects=scene.objects, relations=(*scene.relations, *added))

"""Classes of scenes by their content: the paper's two levels, by rules in place of a model.

The paper asks a language model for the class of each scene (Scene-Bench, appendix A). For the
painted world, and wherever no model is at hand, these rules say it from the names of the objects
and the predicates:

- With a person the scene is ``People-Centric``: with two, Social Interaction; with one who rides,
  Travel/Exploration; else the class that most of the other things speak for
  (:data:`BESIDE_PEOPLE`), Individual Activities if there are none.
- Without a person it is ``Non-People-Centric``, of the class that most things speak for
  (:data:`ALONE`), Objects if none does.

Where as many things speak for two classes, the one that is named first counts. No rule gives
Performance/Entertainment or Abstract/Artistic.
"""

from __future__ import annotations

from scenewright.agents.parsers.lexicon import is_person
from scenewright.core.scene import SceneGraph

PEOPLE = "People-Centric"
OTHERS = "Non-People-Centric"
CATEGORIES: dict[str, tuple[str, ...]] = {
    PEOPLE: (
        *("Social Interaction", "Individual Activities", "Work/Occupation"),
        *("Travel/Exploration", "Sports & Recreation", "Performance/Entertainment", "Daily Life"),
    ),
    OTHERS: ("Nature", "Urban/Built", "Objects", "Abstract/Artistic"),
}
"""First level → second level, as the paper names them."""
BESIDE_PEOPLE: dict[str, frozenset[str]] = {
    "Sports & Recreation": frozenset({"ball"}),
    "Individual Activities": frozenset({"hat", "umbrella", "tree"}),
    "Travel/Exploration": frozenset({"car", "boat"}),
    "Work/Occupation": frozenset({"table", "lamp"}),
    "Daily Life": frozenset({"house", "dog", "cat"}),
}
"""Class → things beside one person that speak for it."""
ALONE: dict[str, frozenset[str]] = {
    "Urban/Built": frozenset({"house", "car"}),
    "Nature": frozenset({"tree", "dog", "cat", "boat"}),
    "Objects": frozenset({"ball", "table", "lamp", "umbrella", "hat"}),
}
"""Class → things that speak for it where there is no person."""


def diversity(scene: SceneGraph) -> tuple[str, str]:
    """(group, category) of ``scene`` by the rules above."""
    people = {item.id for item in scene.objects if is_person(item.name)}
    if not people:
        return OTHERS, _most(scene, ALONE, "Objects")
    if len(people) > 1:
        return PEOPLE, "Social Interaction"
    if any(r.predicate == "riding" and r.source in people for r in scene.relations):
        return PEOPLE, "Travel/Exploration"
    return PEOPLE, _most(scene, BESIDE_PEOPLE, "Individual Activities")


def _most(scene: SceneGraph, classes: dict[str, frozenset[str]], otherwise: str) -> str:
    names = [item.name.casefold() for item in scene.objects]
    votes = {said: sum(name in things for name in names) for said, things in classes.items()}
    best = max(votes, key=lambda said: votes[said])
    return best if votes[best] else otherwise

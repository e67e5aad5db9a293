"""Facts of a scene that a prompt says in words which the image model does not read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from scenewright.agents.composers.check import lost_facts
from scenewright.core.facts import Fact
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject


def dropped_facts(
    scene: SceneGraph,
    facts: Sequence[Fact],
    prompt: str,
    read: int | None,
    unsaid: Collection[tuple[str, ...]] = (),
) -> tuple[str, ...]:
    """Ids of the ``facts`` of ``scene`` whose words stand in ``prompt`` behind its first ``read``
    characters, and not in these, and of those that its composer left ``unsaid`` for want of room;
    the former are none where all of it is read (``read`` is None).

    A fact is dropped if the whole prompt says it, or an object that it depends on is dropped, and
    the part that is read does not say it. Of a prompt that is no English sentence the words alone
    decide. What the prompt never said is not dropped.
    """
    dropped: list[str] = []
    every, kept = _words(prompt), _words(prompt[:read])
    for fact in facts:
        if fact.kind == "realism":
            continue
        if _parts_of(fact) in unsaid:
            dropped.append(fact.id)
            continue
        if read is None:
            continue
        part = _said_with(scene, fact)
        if part is None or not lost_facts(part, prompt[:read]):
            continue
        said = not lost_facts(part, prompt) or any(parent in dropped for parent in fact.parents)
        needed = _words(_text_of(part))
        if said or (needed <= every and not needed <= kept):
            dropped.append(fact.id)
    return tuple(dropped)


def _parts_of(fact: Fact) -> tuple[str, ...]:
    """The fact as ``Wording.unsaid`` names it."""
    parts = (fact.subject, fact.key, fact.predicate, fact.target)
    return tuple(part for part in parts if part is not None)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", text.casefold()))


def _text_of(scene: SceneGraph) -> str:
    """All words that a scene states."""
    values = (value for item in scene.objects for value in item.attributes.values())
    names = (item.name for item in scene.objects)
    return " ".join((*names, *values, *(relation.predicate for relation in scene.relations)))


def _said_with(scene: SceneGraph, fact: Fact) -> SceneGraph | None:
    """The least scene that states ``fact``: with what is worded alike before it, so that the second
    of two dogs is said where two are."""
    items = {item.id: item for item in scene.objects}
    subject = items.get(fact.subject)
    if subject is None:
        return None
    if fact.kind == "relation":
        return _relations(scene, items, fact)
    same = [item for item in scene.objects if item.name == subject.name]
    kept: dict[str, str] = {}
    if fact.kind == "attribute" and fact.key is not None and fact.value is not None:
        kept = {fact.key: fact.value}
        same = [item for item in same if item.attributes.get(fact.key) == fact.value]
    upto = same[: same.index(subject) + 1] if subject in same else [subject]
    return SceneGraph(objects=tuple(_bare(item, kept) for item in upto))


def _relations(scene: SceneGraph, items: dict[str, SceneObject], fact: Fact) -> SceneGraph | None:
    def label(relation: Relation) -> tuple[str, str, str]:
        return items[relation.source].name, relation.predicate, items[relation.target].name

    ends = (fact.subject, fact.predicate, fact.target)
    own = next(
        (one for one in scene.relations if (one.source, one.predicate, one.target) == ends), None
    )
    if own is None:
        return None
    same = [one for one in scene.relations if label(one) == label(own)]
    upto = same[: same.index(own) + 1]
    wanted = {end for one in upto for end in (one.source, one.target)}
    return SceneGraph(
        objects=tuple(_bare(item) for item in scene.objects if item.id in wanted),
        relations=tuple(upto),
    )


def _bare(item: SceneObject, kept: dict[str, str] | None = None) -> SceneObject:
    return item.model_copy(update={"attributes": Attributes(kept or {})})

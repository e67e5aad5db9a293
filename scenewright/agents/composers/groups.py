"""Instances of which the same can be said, and the relations between such groups."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from scenewright.agents.composers.english import (
    Described,
    Predicate,
    described,
    is_many,
    is_name,
    predicate_in_english,
)
from scenewright.core.scene import SceneGraph, SceneObject


@dataclass(slots=True, eq=False)
class Group:
    """Instances of which the same is said."""

    at: int
    """Place in the scene's order."""
    items: tuple[SceneObject, ...]
    said: Described
    proper: bool
    """Whether its label is a name: it has a capital letter and other labels have none."""
    outgoing: list[Edge] = field(default_factory=list)
    incoming: list[Edge] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.items[0].name

    @property
    def number(self) -> int:
        return len(self.items)

    @property
    def many(self) -> bool:
        """Whether its verb is "are"."""
        return self.number > 1 or is_many(self.name)

    @property
    def adjectives(self) -> str:
        return " ".join(self.said.before)


@dataclass(slots=True, eq=False)
class Edge:
    """A relation between two groups."""

    source: Group
    predicate: Predicate
    target: Group
    each: bool
    """Whether each of the source has one of the target for itself."""
    done: bool = False


def grouped(scene: SceneGraph) -> list[Group]:
    """The objects in groups of which the same can be said, with the relations between them.

    Colour refinement: instances of one class with equal attributes stay together as long as they
    have the same relations to the same groups, and each group has all or one each of another.
    """
    look = {item.id: (item.name.casefold(), item.attributes) for item in scene.objects}
    color: dict[str, int] = _numbered_by({key: (value,) for key, value in look.items()})
    while True:
        signs: dict[str, tuple[object, ...]] = {}
        for item in scene.objects:
            out = sorted(
                (r.predicate, color[r.target]) for r in scene.relations if r.source == item.id
            )
            into = sorted(
                (r.predicate, color[r.source]) for r in scene.relations if r.target == item.id
            )
            signs[item.id] = (color[item.id], tuple(out), tuple(into))
        finer = _numbered_by(signs)
        if len(set(finer.values())) == len(set(color.values())):
            color = _split_uneven(scene, finer)
            if len(set(color.values())) == len(set(finer.values())):
                break
        else:
            color = finer
    groups: dict[int, Group] = {}
    small = any(item.name[:1].islower() for item in scene.objects)
    for at, item in enumerate(scene.objects):
        mine = tuple(o for o in scene.objects if color[o.id] == color[item.id])
        groups.setdefault(
            color[item.id], Group(at, mine, described(item), is_name(item.name, small))
        )
    _join(scene, color, groups)
    return list(groups.values())


def _numbered_by(signs: Mapping[str, tuple[object, ...]]) -> dict[str, int]:
    numbers: dict[tuple[object, ...], int] = {}
    return {key: numbers.setdefault(sign, len(numbers)) for key, sign in signs.items()}


def _split_uneven(scene: SceneGraph, color: dict[str, int]) -> dict[str, int]:
    """Take one group apart between whose members and another group not all or one each holds."""
    sizes = {c: sum(1 for other in color.values() if other == c) for c in color.values()}
    counts: dict[tuple[int, str, int], int] = {}
    for r in scene.relations:
        key = (color[r.source], r.predicate, color[r.target])
        counts[key] = counts.get(key, 0) + 1
    for (source, _, target), count in counts.items():
        full = source != target and count == sizes[source] * sizes[target]
        paired = source != target and count == sizes[source] == sizes[target]
        if not (full or paired):
            worst = source if sizes[source] > 1 else target
            return _apart(color, worst)
    for (source, _, target), count in counts.items():
        paired = count == sizes[source] == sizes[target] > 1
        others = [key for key in counts if target in (key[0], key[2]) and key[0] != source]
        several = [key for key in counts if key[0] == source and key[2] == target]
        if paired and (others or len(several) > 1):
            # "Each a bag": what is said of the bag besides could not be told apart.
            return _apart(_apart(color, source), target)
    return color


def _apart(color: dict[str, int], worst: int) -> dict[str, int]:
    fresh = itertools.count(max(color.values()) + 1)
    return {key: next(fresh) if c == worst else c for key, c in color.items()}


def _join(scene: SceneGraph, color: Mapping[str, int], groups: Mapping[int, Group]) -> None:
    seen: set[tuple[int, Predicate, int]] = set()
    for relation in scene.relations:
        source, target = groups[color[relation.source]], groups[color[relation.target]]
        predicate = predicate_in_english(relation.predicate)
        key = (id(source), predicate, id(target))
        if key in seen:
            continue
        seen.add(key)
        pairs = sum(
            1
            for r in scene.relations
            if r.predicate == relation.predicate
            and color[r.source] == color[relation.source]
            and color[r.target] == color[relation.target]
        )
        each = source.number > 1 and pairs == source.number == target.number
        edge = Edge(source, predicate, target, each)
        source.outgoing.append(edge)
        target.incoming.append(edge)

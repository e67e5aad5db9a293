"""What GenEval demands of a picture (Ghosh et al., 2023): of an item of its set, or of a scene.

An item of the set ``geneval`` brings its demands as released. A scene makes the same: a class with
its number, a colour, one of the four directions to another entry. What boxes cannot show (other
attributes, other relations) is counted as unasked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from scenewright.core.facts import Fact
from scenewright.core.inflection import plural
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import DIRECTIONS, same_key
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.geneval import DEMANDS
from scenewright.evals.metrics.base import MetricError


@dataclass(frozen=True, slots=True)
class Position:
    """Where the things of an entry are."""

    relation: str
    """Of :data:`DIRECTIONS`."""
    to: int
    """The earlier or later entry that they lie so of."""
    some: bool = False
    """Whether one pair is enough, as where a scene relates two of many; the release wants every
    pair."""


@dataclass(frozen=True, slots=True)
class Demand:
    """An entry of ``include``."""

    name: str
    """The class."""
    count: int = 1
    """At least so many."""
    color: str = ""
    """Of each of them; empty: any."""
    positions: tuple[Position, ...] = ()
    """Where they are; an entry of the release has one at most."""


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of an item."""

    include: tuple[Demand, ...]
    """What must be there."""
    exclude: tuple[tuple[str, int], ...] = ()
    """(class, number): there must be fewer than so many."""
    unasked: int = 0
    """Attributes and relations of the scene that no box can show."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes, each once."""
        return tuple(dict.fromkeys([d.name for d in self.include] + [n for n, _ in self.exclude]))

    def text(self) -> str:
        """As JSON, for :func:`demands_in`."""
        return json.dumps(asdict(self), sort_keys=True)

    def total(self, name: str) -> int:
        """How many of a class all entries together want."""
        return sum(demand.count for demand in self.include if demand.name == name)


def demands_in(text: str) -> Demands:
    """What :meth:`Demands.text` wrote."""
    data = json.loads(text)
    include = tuple(
        Demand(
            one["name"], one["count"], one["color"], tuple(Position(**p) for p in one["positions"])
        )
        for one in data["include"]
    )
    exclude = tuple((name, count) for name, count in data["exclude"])
    return Demands(include, exclude, data["unasked"])


def demands_of(item: Item, *, exact: bool = False) -> Demands:
    """The demands of ``item``: those of its set, else of its scene.

    ``exact``: of a scene's classes there must not be more than the scene has; the release demands
    that of its counting task alone. Raises ``MetricError`` where there are none.
    """
    released = item.meta.get(DEMANDS)
    if released:
        return _released(released, item.id)
    if item.scene is None or not item.scene.objects:
        raise MetricError("the item has neither demands of GenEval nor a scene to make them of")
    return demands_of_scene(item.scene, exact=exact)


def _released(text: str, item: str) -> Demands:
    try:
        data = json.loads(text)
        include = tuple(
            Demand(
                one["class"],
                int(one["count"]),
                one.get("color") or "",
                (Position(str(one["position"][0]), int(one["position"][1])),)
                if one.get("position")
                else (),
            )
            for one in data["include"]
        )
        exclude = tuple((one["class"], int(one["count"])) for one in data.get("exclude", ()))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise MetricError(
            f"meta {DEMANDS!r} of {item} is no demand of GenEval ({type(error).__name__}: "
            f"{error}): give include and exclude as its evaluation_metadata.jsonl has them"
        ) from error
    _check(include, item)
    return Demands(include, exclude)


def _check(include: Sequence[Demand], item: str) -> None:
    for demand in include:
        for place in demand.positions:
            if place.relation not in DIRECTIONS or not 0 <= place.to < len(include):
                raise MetricError(
                    f"{item} wants {demand.name} {place.relation} entry {place.to}: use "
                    f"{', '.join(DIRECTIONS)} and the number of an entry of include"
                )


def demands_of_scene(scene: SceneGraph, *, exact: bool = False) -> Demands:
    """The demands that ``scene`` makes: things of one class and colour are one entry."""
    entries: dict[tuple[str, str], list[str]] = {}
    unasked = 0
    for thing in scene.objects:
        color = next((v for k, v in thing.attributes.items() if same_key(k, "color")), "")
        unasked += len(thing.attributes) - bool(color)
        entries.setdefault((thing.name, color), []).append(thing.id)
    entry_of = {one: at for at, ids in enumerate(entries.values()) for one in ids}
    positions: dict[int, list[Position]] = {}
    for relation in scene.relations:
        said = canonical_predicate(relation.predicate)
        source, target = entry_of[relation.source], entry_of[relation.target]
        if said not in DIRECTIONS or source == target:
            unasked += 1
            continue
        place = Position(said, target, some=True)
        if place not in positions.setdefault(source, []):
            positions[source].append(place)
    include = tuple(
        Demand(name, len(ids), color, tuple(positions.get(at, ())))
        for at, ((name, color), ids) in enumerate(entries.items())
    )
    totals = Counter(thing.name for thing in scene.objects)
    exclude = tuple((name, count + 1) for name, count in totals.items()) if exact else ()
    return Demands(include, exclude, unasked)


def clause_facts(demands: Demands) -> tuple[Fact, ...]:
    """One fact a clause; ``key`` names it as :func:`~.geneval_rules.clauses` does, and ``value``
    holds all demands, for a clause hangs on others."""
    told = demands.text()
    facts: list[Fact] = []

    def add(
        key: str, kind: str, statement: str, classes: Sequence[str], parents: Sequence[str] = ()
    ) -> None:
        facts.append(
            Fact.model_validate(
                {
                    "id": f"geneval:{key}",
                    "kind": kind,
                    "subject": key,
                    "key": key,
                    "value": told,
                    "classes": tuple(classes),
                    "parents": tuple(f"geneval:{parent}" for parent in parents),
                    "statement": statement,
                    "question": f"Does a detector find {statement}?",
                }
            )
        )

    for at, demand in enumerate(demands.include):
        add(f"count:{at}", "object", _many(demand.name, demand.count), [demand.name])
    for at, demand in enumerate(demands.include):
        if demand.color:
            said = _many(f"{demand.color} {demand.name}", demand.count)
            add(f"color:{at}", "attribute", said, [demand.name], [f"count:{at}"])
    for at, demand in enumerate(demands.include):
        for number, place in enumerate(demand.positions):
            other = demands.include[place.to].name
            parents = [f"count:{end}" for end in dict.fromkeys((at, place.to))]
            said = f"{demand.name} {place.relation} {other}"
            add(f"position:{at}:{number}", "relation", said, [demand.name, other], parents)
    for at, (name, count) in enumerate(demands.exclude):
        add(f"exclude:{at}", "object", f"fewer than {count} {plural(name)}", [name])
    return tuple(facts)


def _many(name: str, count: int) -> str:
    return f"at least {count} {name if count == 1 else plural(name)}"

"""GenEval's demands and rules over detections (Ghosh et al., 2023), as in its released code.

An item of the set ``geneval`` brings its demands as released. A scene makes the same: a class with
its number, a colour, one of the four directions to another entry. What boxes cannot show (other
attributes, other relations) is counted as unasked.

Of each class the most confident detections count, as many as are wanted; all of them must have the
colour, and each must be placed as demanded of each detection of the other entry. Where several
entries name one class, which the release has nowhere, they share the detections that all of them
want.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from pydantic import TypeAdapter

from scenewright.core.error_text import error_text
from scenewright.core.facts import Fact
from scenewright.core.inflection import plural
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.vision import Box, Detection
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import DIRECTIONS, same_key
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.prompt_sets import DEMANDS
from scenewright.evals.metrics.base import MetricError
from scenewright.tools.vision.detection.boxes import iou
from scenewright.tools.vision.detection.labels import normalized_label


@dataclass(frozen=True, slots=True)
class Position:
    """Where the things of an entry are."""

    relation: str
    """Of :data:`DIRECTIONS`."""
    to: int
    """The other entry, earlier or later."""
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
        """Return the demands as JSON, for :func:`demands_in`."""
        return json.dumps(asdict(self), sort_keys=True)

    def total(self, name: str) -> int:
        """Return how many of a class all entries together want."""
        return sum(demand.count for demand in self.include if demand.name == name)


_DEMANDS = TypeAdapter(Demands)


def demands_in(text: str) -> Demands:
    """Return the demands that :meth:`Demands.text` wrote."""
    return _DEMANDS.validate_json(text)


def demands_of(item: Item, *, exact: bool = False) -> Demands:
    """Return the demands of ``item``: those of its set, else of its scene.

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
            f"meta {DEMANDS!r} of {item} is not a demand of GenEval ({error_text(error)}): "
            "give include and exclude as its evaluation_metadata.jsonl has them"
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
    """Return the demands that ``scene`` makes: things of one class and colour are one entry."""
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
    """Return one fact a clause.

    ``key`` names the clause as :func:`clauses` does; ``value`` holds all demands, since a clause
    depends on others.
    """
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


COLORS = (
    *("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"),
)
"""The colours that the release distinguishes."""
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
        """Return the threshold that holds."""
        return self.counting_threshold if demands.exclude else self.threshold


@dataclass(frozen=True, slots=True)
class Clause:
    """Whether a demand is met."""

    holds: bool
    """Whether it is."""
    reason: str = ""
    """What was found instead; empty if it is met."""


def counted(detections: Sequence[Detection], demands: Demands, rules: Rules) -> Found:
    """Return the detections that count, by the classes of ``demands``."""
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
    """Return by class the detections whose colour must be known."""
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
    """Return by the key of each clause (:func:`clause_facts`) whether it is met.

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
    """Return the place of ``box`` relative to ``other``: one direction, two, or none.

    Directions are ``left of``, ``right of``, ``above`` and ``below``. The offset of the centres is
    lessened by ``threshold`` times the sum of the sizes on each axis; what is left, as a share of
    the whole offset, must be above one half.
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

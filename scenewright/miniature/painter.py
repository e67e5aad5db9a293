"""The painter: from a scene graph to a picture whose truth is known exactly."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from PIL import Image

from scenewright.facts import Fact
from scenewright.miniature.sprites import backdrop, sprite
from scenewright.miniature.world import (
    COLORS,
    CONTACTS,
    KINDS,
    PREDICATES,
    SETTINGS,
    SIZE,
    SMALL,
    can_hold,
)
from scenewright.placement import Cell, canonical_predicate, place_objects
from scenewright.scene import Attributes, Relation, SceneGraph, SceneObject

_CENTERS = (22, 64, 106)
_JITTER = 2
_NEAR = 54.0
_MIN_STEP = 20.0
_ATTEMPTS = 40

Contact = tuple[str, str, str]
"""(source id, contact predicate, target id) that is drawn."""


class PaintError(ValueError):
    """A scene the painter cannot draw; names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Box:
    """A thing's place in pixels."""

    left: int
    """First column."""
    top: int
    """First row."""
    width: int
    """Columns."""
    height: int
    """Rows."""

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) of the middle."""
        return self.left + self.width / 2, self.top + self.height / 2


@dataclass(frozen=True, slots=True)
class Truth:
    """What a painting holds, exactly."""

    scene: SceneGraph
    """Every object with its colour, and the drawn relations that were asked for."""
    setting: str
    """The background."""
    boxes: Mapping[str, Box]
    """Object id → place in pixels."""
    cells: Mapping[str, Cell]
    """Object id → cell of the 3×3 grid."""
    contacts: frozenset[Contact]
    """The contact relations that are drawn."""

    def relations_between(self, source: str, target: str) -> frozenset[str]:
        """Every predicate of the world that holds from ``source`` to ``target`` (ids).

        Directions go by the larger difference of the centres, so that of left of,
        right of, above and below at most one holds, and none between things in contact.
        """
        drawn = {p for s, p, t in self.contacts if (s, t) == (source, target)}
        touching = any({s, t} == {source, target} for s, _, t in self.contacts)
        found = set(drawn)
        (x0, y0), (x1, y1) = self.boxes[source].center, self.boxes[target].center
        dx, dy = x1 - x0, y1 - y0
        if not touching and max(abs(dx), abs(dy)) >= _MIN_STEP:
            if abs(dx) >= abs(dy):
                found.add("left of" if dx > 0 else "right of")
            else:
                found.add("above" if dy > 0 else "below")
            if (dx * dx + dy * dy) ** 0.5 <= _NEAR:
                found.add("near")
        return frozenset(found)

    def is_ambiguous(self, source: str, target: str) -> bool:
        """Whether the pair stands so diagonally that its direction is a matter of taste."""
        (x0, y0), (x1, y1) = self.boxes[source].center, self.boxes[target].center
        dx, dy = abs(x1 - x0), abs(y1 - y0)
        return min(dx, dy) > 0.7 * max(dx, dy) and max(dx, dy) > 12

    def matching(self, name: str, attributes: Mapping[str, str]) -> list[str]:
        """Ids of the objects of that class that have all these attributes."""
        return [
            o.id
            for o in self.scene.objects
            if o.name == name and all(o.attributes.get(k) == v for k, v in attributes.items())
        ]

    def holds(self, fact: Fact, asked: SceneGraph) -> bool:
        """Whether ``fact`` of the scene ``asked`` is true of this painting.

        ``asked`` may be another scene than the painted one: objects are found by class,
        number and, where the fact is about attributes or refers by them, by attributes.
        """
        subject = asked.object(fact.subject)
        if fact.kind == "object":
            same = [o.id for o in asked.objects if o.name == subject.name]
            return len(self.matching(subject.name, {})) > same.index(subject.id)
        if fact.kind == "attribute":
            wanted = {str(fact.key): str(fact.value)}
            sharing = [
                o.id
                for o in asked.objects
                if o.name == subject.name and o.attributes.get(str(fact.key)) == fact.value
            ]
            return len(self.matching(subject.name, wanted)) > sharing.index(subject.id)
        target = asked.object(str(fact.target))
        sources = self.matching(subject.name, subject.attributes)
        targets = self.matching(target.name, target.attributes)
        predicate = canonical_predicate(str(fact.predicate))
        return any(
            predicate in self.relations_between(s, t) for s in sources for t in targets if s != t
        )


@dataclass(frozen=True, slots=True)
class Painting:
    """A picture and its truth."""

    image: Image.Image
    """RGB, 128×128."""
    truth: Truth
    """What it holds."""

    @property
    def scene(self) -> SceneGraph:
        """The painted scene: every object with its colour."""
        return self.truth.scene


def _check(scene: SceneGraph) -> None:
    if not scene.objects:
        raise PaintError("the scene is empty: name at least one object")
    for item in scene.objects:
        if item.name not in KINDS:
            raise PaintError(f"cannot draw {item.name!r}: the kinds are {', '.join(KINDS)}")
        for key, value in item.attributes.items():
            if key != "color" or value not in COLORS:
                raise PaintError(
                    f"cannot draw {item.id} with {key} {value!r}: "
                    f"the only attribute is color, one of {', '.join(COLORS)}"
                )
    for relation in scene.relations:
        predicate = canonical_predicate(relation.predicate)
        source, target = scene.object(relation.source).name, scene.object(relation.target).name
        if predicate not in PREDICATES:
            raise PaintError(
                f"cannot draw {relation.predicate!r}: the predicates are {', '.join(PREDICATES)}"
            )
        if not can_hold(source, predicate, target):
            raise PaintError(
                f"cannot draw '{source} {predicate} {target}': choose another host or relation"
            )


def _contact_point(predicate: str, source: Box, target: Box, roomy: bool) -> Box:
    """Where the moved side of a contact goes: the target of *holding* and *wearing*, else
    the source."""
    (cx, _), (sx, sy) = target.center, source.center
    match predicate:
        case "on":
            return replace(
                source, left=round(cx - source.width / 2), top=target.top - source.height + 1
            )
        case "riding":
            return replace(
                source, left=round(cx - source.width / 2), top=target.top - source.height + 14
            )
        case "under" if not roomy:
            return replace(
                source, left=round(cx - source.width / 2), top=target.top + target.height - 12
            )
        case "under" | "inside":
            bottom = target.top + target.height
            return replace(
                source, left=round(cx - source.width / 2), top=bottom - source.height - 1
            )
        case "holding":
            return replace(
                target, left=source.left + source.width - 4, top=round(sy - target.height / 2)
            )
    return replace(target, left=round(sx - target.width / 2), top=source.top - target.height + 7)


def _lay_out(
    scene: SceneGraph, cells: Mapping[str, Cell], contacts: Iterable[Contact], rng: random.Random
) -> dict[str, Box]:
    contacts = sorted(contacts)
    small = {
        s
        for s, p, t in contacts
        if p == "inside" or (p == "under" and scene.object(t).name == "table")
    }
    boxes: dict[str, Box] = {}
    for item in scene.objects:
        scale = SMALL if item.id in small else 1.0
        kind = KINDS[item.name]
        width, height = round(kind.width * scale), round(kind.height * scale)
        column, row = cells[item.id]
        x = _CENTERS[column] + rng.randint(-_JITTER, _JITTER)
        y = _CENTERS[row] + rng.randint(-_JITTER, _JITTER)
        boxes[item.id] = Box(round(x - width / 2), round(y - height / 2), width, height)
    # A chain (hat on a person on a car) settles from its resting end outwards.
    moved = {(t if p in ("holding", "wearing") else s): (s, p, t) for s, p, t in contacts}
    settled: set[str] = set()

    def settle(object_id: str) -> None:
        if object_id in settled:
            return
        settled.add(object_id)
        if object_id in moved:
            s, p, t = moved[object_id]
            settle(t if object_id == s else s)
            roomy = scene.object(t).name == "table"
            boxes[object_id] = _contact_point(p, boxes[s], boxes[t], roomy)

    for item in scene.objects:
        settle(item.id)
    return {
        key: replace(
            box,
            left=min(max(box.left, 0), SIZE - box.width),
            top=min(max(box.top, 0), SIZE - box.height),
        )
        for key, box in boxes.items()
    }


def _draw_order(scene: SceneGraph, contacts: Iterable[Contact]) -> list[SceneObject]:
    """Riders go behind what they ride; what is worn, held, inside or under goes in front."""
    front: dict[str, int] = {item.id: 1 for item in scene.objects}
    for s, p, _ in contacts:
        if p == "riding":
            front[s] = 0
        elif p in ("inside", "under"):
            front[s] = 2
    for s, p, t in contacts:
        if p in ("holding", "wearing"):
            front[t] = front[s] + 1
    return sorted(scene.objects, key=lambda item: front[item.id])


def render(
    scene: SceneGraph,
    cells: Mapping[str, Cell],
    contacts: frozenset[Contact],
    setting: str,
    rng: random.Random,
) -> Painting:
    """Draw ``scene`` (every object coloured) with its objects in ``cells``."""
    boxes = _lay_out(scene, cells, contacts, rng)
    image = backdrop(setting, rng.randrange(1 << 16))
    for item in _draw_order(scene, contacts):
        box = boxes[item.id]
        scale = 1.0 if box.width == KINDS[item.name].width else SMALL
        drawing = sprite(item.name, item.attributes["color"], scale)
        image.paste(drawing, (box.left, box.top), drawing)
    return Painting(image, Truth(scene, setting, boxes, dict(cells), contacts))


def paint(scene: SceneGraph, seed: int = 0, setting: str | None = None) -> Painting:
    """Paint ``scene``: every relation of it holds in the picture. Same seed, same bytes.

    Objects without a colour get one from the seed. Raises ``PaintError`` for what the
    world does not know and ``PlacementError`` for relations that cannot hold together.
    """
    _check(scene)
    if setting is not None and setting not in SETTINGS:
        raise PaintError(f"unknown setting {setting!r}: use one of {', '.join(SETTINGS)}")
    rng = random.Random(seed)
    coloured = SceneGraph(
        objects=tuple(
            item.model_copy(
                update={
                    "attributes": Attributes(
                        {"color": item.attributes.get("color") or rng.choice(sorted(COLORS))}
                    )
                }
            )
            for item in scene.objects
        ),
        relations=scene.relations,
    )
    contacts = frozenset(
        (r.source, canonical_predicate(r.predicate), r.target)
        for r in scene.relations
        if canonical_predicate(r.predicate) in CONTACTS
    )
    chosen = setting or rng.choice(sorted(SETTINGS))
    broken = ""
    for attempt in range(_ATTEMPTS):
        painting = render(coloured, place_objects(scene, seed + attempt), contacts, chosen, rng)
        lost = [r for r in scene.relations if not _is_drawn(r, painting.truth)]
        if not lost:
            return painting
        broken = "; ".join(f"{r.source} {r.predicate} {r.target}" for r in lost)
    raise PaintError(f"found no layout in which this holds: {broken}: change or drop a relation")


def _is_drawn(relation: Relation, truth: Truth) -> bool:
    found = truth.relations_between(relation.source, relation.target)
    return canonical_predicate(relation.predicate) in found

"""What a painting is known to hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.layout import Cell, canonical_predicate
from scenewright.core.referring import instance_order
from scenewright.core.scene import SceneGraph
from scenewright.miniature.world import HIDING

_NEAR = 54.0
_MIN_STEP = 14.0
"""Pixels between two centres from which on a direction holds on an axis."""
_ALIGNED = 6.0
"""Pixels up to which two centres are in one row or column."""

Contact = tuple[str, str, str]
"""(source id, contact predicate, target id) that is drawn; the predicate may be ``HIDING``."""


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
    style: str
    """How it is drawn, a key of ``STYLES``."""
    ground: int
    """Which of the setting's variants it is drawn on."""

    def relations_between(self, source: str, target: str) -> frozenset[str]:
        """Every predicate of the world that holds from ``source`` to ``target`` (ids).

        Directions go by the centres, each on its own axis: what stands diagonally above is also
        left or right of the other. None holds between things in contact.
        """
        drawn = {p for s, p, t in self.contacts if (s, t) == (source, target)} - {HIDING}
        touching = any({s, t} == {source, target} for s, _, t in self.contacts)
        found = set(drawn)
        (x0, y0), (x1, y1) = self.boxes[source].center, self.boxes[target].center
        dx, dy = x1 - x0, y1 - y0
        if not touching:
            if abs(dx) >= _MIN_STEP:
                found.add("left of" if dx > 0 else "right of")
            if abs(dy) >= _MIN_STEP:
                found.add("above" if dy > 0 else "below")
            if found and (dx * dx + dy * dy) ** 0.5 <= _NEAR:
                found.add("near")
        return frozenset(found)

    def is_ambiguous(self, source: str, target: str) -> bool:
        """Whether it is a matter of taste how the pair is related.

        It is shifted by little on an axis, or one of it peeps out from behind the other.
        """
        if any(p == HIDING and {s, t} == {source, target} for s, p, t in self.contacts):
            return True
        if any({s, t} == {source, target} for s, _, t in self.contacts):
            return False
        (x0, y0), (x1, y1) = self.boxes[source].center, self.boxes[target].center
        return any(_ALIGNED < abs(step) < _MIN_STEP for step in (x1 - x0, y1 - y0))

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
            same = instance_order(asked, subject.name)
            return len(self.matching(subject.name, {})) > same.index(subject.id)
        if fact.kind == "attribute":
            wanted = {str(fact.key): str(fact.value)}
            sharing = [
                one
                for one in instance_order(asked, subject.name)
                if asked.object(one).attributes.get(str(fact.key)) == fact.value
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

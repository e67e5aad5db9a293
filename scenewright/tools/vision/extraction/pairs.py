"""Rules about pairs of boxes: contacts, directions, and which things are rivals.

Things that do not touch cannot hold each other, and of two opposite directions one is left: boxes
decide what is worth asking about a pair.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from scenewright.agents.parsers.tagging import is_animate
from scenewright.core.ports.vision import Box
from scenewright.core.questions import distinguishing_keys, noun_phrase
from scenewright.core.scene import Attributes, SceneGraph, SceneObject

MOST_PAIRS = 60
"""Most pairs that are looked at, the nearest first."""
OPTIONS = 3
"""Predicates that a question offers, as judges of the miniature were taught."""
MOST_CONTACTS = 2
"""Most contacts in one question: the third option is a direction, which says that none is."""
TOUCH = 0.05
"""Most that may lie between the boxes of things that touch, as a share of the picture's longer
side; boxes that people or models give roughly."""
_OVERLAP = 0.3
_WITHIN = 0.7

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object and its place."""

    id: str
    """As the scene names it."""
    name: str
    """Its class label."""
    box: Box
    """Its place, in pixels."""
    attributes: tuple[tuple[str, str], ...] = ()
    """(key, value) of what is known of it: what two things of one class are told apart by."""

    def scaled(self, factor: float) -> PlacedObject:
        """Return the same in a picture ``factor`` times as large."""
        left, top, right, bottom = self.box
        return replace(self, box=(left * factor, top * factor, right * factor, bottom * factor))

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) of the middle."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def area(self) -> float:
        """Square pixels."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])


def nearest_pairs(
    things: Iterable[PlacedObject], most: int = MOST_PAIRS
) -> list[tuple[PlacedObject, PlacedObject]]:
    """Unordered pairs of things that words can tell apart, the nearest first, at most ``most``."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(things, 2)
        if distinguishing_phrases(a, b) is not None
    ]
    pairs.sort(key=lambda pair: math.dist(pair[0].center, pair[1].center))
    return pairs[:most]


def distinguishing_phrases(a: PlacedObject, b: PlacedObject) -> tuple[str, str] | None:
    """Return how a question that shows no other things of their classes calls two things.

    By class, and by the fewest attributes where the class is one. None if nothing tells them apart.
    """
    if a.name != b.name:
        return a.name, b.name
    first, second = (
        SceneObject(id=str(at), name=one.name, attributes=Attributes(one.attributes))
        for at, one in enumerate((a, b))
    )
    scene = SceneGraph(objects=(first, second))
    keys = distinguishing_keys(scene, first), distinguishing_keys(scene, second)
    if keys[0] is None or keys[1] is None:
        return None
    return noun_phrase(first, keys[0]), noun_phrase(second, keys[1])


def contacts(
    source: PlacedObject, target: PlacedObject, side: int, touch: float = TOUCH
) -> tuple[str, ...]:
    """Contact predicates that the boxes allow from ``source`` to ``target``, the likeliest first.

    ``side`` is the picture's longer one, in pixels, and ``touch`` the share of it that may lie
    between the boxes.
    """
    across, down = gap(source.box, target.box, 0), gap(source.box, target.box, 1)
    if max(across, down) > touch * side:
        return ()
    inner = shared_area(source.box, target.box)
    lined = -across >= _OVERLAP * min(_length(source.box, 0), _length(target.box, 0))
    higher = source.center[1] < target.center[1]
    found: list[str] = []
    if inner >= _WITHIN * source.area:
        found.append("inside")
    if lined and higher:
        found.append("on")
        if is_animate(source.name):
            found.append("riding")
    if lined and (not higher or "inside" in found):
        found.append("under")
    if is_animate(source.name):
        if lined and not higher and target.area <= source.area:
            found.append("wearing")
        if target.area <= 1.5 * source.area:
            found.append("holding")
    return tuple(found)


def directions(a: PlacedObject, b: PlacedObject) -> tuple[str, ...]:
    """Return the two directions that the middles allow, and the opposite of the clearer one.

    In an order that hangs on the ids alone.
    """
    flat, steep, level = _axes(a, b)
    return _turned((flat[0], steep[0], flat[1] if level else steep[1]), a, b)


def clear_directions(a: PlacedObject, b: PlacedObject) -> tuple[str, ...]:
    """Return the direction that the middles tell clearer, and two that they rule out.

    Of a pair that stands diagonally the other one would be a second right option. In an order that
    hangs on the ids alone.
    """
    flat, steep, level = _axes(a, b)
    clear, vague = (flat, steep) if level else (steep, flat)
    return _turned((*clear, vague[1]), a, b)


def _axes(a: PlacedObject, b: PlacedObject) -> tuple[tuple[str, str], tuple[str, str], bool]:
    """Return the direction from ``a`` to ``b`` and its opposite, across and down.

    Also returns whether they lie rather across.
    """
    dx, dy = b.center[0] - a.center[0], b.center[1] - a.center[1]
    flat = ("left of", "right of") if dx > 0 else ("right of", "left of")
    steep = ("above", "below") if dy > 0 else ("below", "above")
    return flat, steep, abs(dx) >= abs(dy)


def contact_options(
    source: PlacedObject, target: PlacedObject, wanted: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the options of the questions that ask for the contacts ``wanted``.

    Up to :data:`MOST_CONTACTS` each, filled up with directions to :data:`OPTIONS`.
    """
    found = []
    for start in range(0, len(wanted), MOST_CONTACTS):
        some = wanted[start : start + MOST_CONTACTS]
        found.append((*some, *directions(source, target)[: OPTIONS - len(some)]))
    return found


def rivals_of_pair(
    source: PlacedObject, target: PlacedObject, things: Iterable[PlacedObject]
) -> frozenset[str]:
    """Return the ids of other things that the words of a question about the pair could mean."""
    names, ids = {source.name, target.name}, {source.id, target.id}
    return frozenset(o.id for o in things if o.name in names and o.id not in ids)


def by_rivals(
    asked: Sequence[T],
    ends: Sequence[tuple[PlacedObject, PlacedObject]],
    things: Sequence[PlacedObject],
) -> dict[frozenset[str], list[T]]:
    """Return ``asked`` by the ids that must be hidden.

    Questions that hide the same things see the same picture, and share one encoding of it. ``ends``
    are the pairs that they are about.
    """
    groups: dict[frozenset[str], list[T]] = {}
    for one, (source, target) in zip(asked, ends, strict=True):
        groups.setdefault(rivals_of_pair(source, target, things), []).append(one)
    return groups


def gap(a: Box, b: Box, axis: int) -> float:
    """Pixels between two boxes along an axis (0 across, 1 down); negative where they overlap."""
    return max(a[axis], b[axis]) - min(a[axis + 2], b[axis + 2])


def shared_area(a: Box, b: Box) -> float:
    """Return the square pixels that two boxes have in common."""
    return max(0.0, -gap(a, b, 0)) * max(0.0, -gap(a, b, 1))


def joint_box(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all of ``boxes``, of which there is one or more."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def pad_box(box: Box, share: float) -> Box:
    """``box`` with ``share`` of its width and height more on each side."""
    across, down = share * _length(box, 0), share * _length(box, 1)
    return box[0] - across, box[1] - down, box[2] + across, box[3] + down


def _turned(options: Sequence[str], a: PlacedObject, b: PlacedObject) -> tuple[str, ...]:
    turn = hashlib.sha256(f"{a.id}\0{b.id}".encode()).digest()[0] % len(options)
    return (*options[turn:], *options[:turn])


def _length(box: Box, axis: int) -> float:
    return box[axis + 2] - box[axis]

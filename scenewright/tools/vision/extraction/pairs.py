"""Rules about pairs of boxes: contacts, directions, and which things are rivals.

Things that do not touch cannot hold each other, and of two opposite directions one is left: boxes
decide what is worth asking about a pair.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence

from scenewright.agents.parsers.tagging import is_animate
from scenewright.core.ports.vision import Thing
from scenewright.core.referring import distinguishing_keys, noun_phrase
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.tools.vision.detection.boxes import area_of, center_of, gap, shared_area

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


def nearest_pairs(things: Iterable[Thing], most: int = MOST_PAIRS) -> list[tuple[Thing, Thing]]:
    """Unordered pairs of things that words can tell apart, the nearest first, at most ``most``."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(things, 2)
        if distinguishing_phrases(a, b) is not None
    ]
    pairs.sort(key=lambda pair: math.dist(*(center_of(one.detection.box) for one in pair)))
    return pairs[:most]


def distinguishing_phrases(a: Thing, b: Thing) -> tuple[str, str] | None:
    """Return how a question that shows no other things of their classes calls two things.

    By class, and by the fewest attributes where the class is one. None if nothing tells them apart.
    """
    if a.detection.name != b.detection.name:
        return a.detection.name, b.detection.name
    first, second = (
        SceneObject(
            id=str(at),
            name=one.detection.name,
            attributes=Attributes({read.key: read.value for read in one.attributes}),
        )
        for at, one in enumerate((a, b))
    )
    scene = SceneGraph(objects=(first, second))
    keys = distinguishing_keys(scene, first), distinguishing_keys(scene, second)
    if keys[0] is None or keys[1] is None:
        return None
    return noun_phrase(first, keys[0]), noun_phrase(second, keys[1])


def contacts(source: Thing, target: Thing, side: int, touch: float = TOUCH) -> tuple[str, ...]:
    """Contact predicates that the boxes allow from ``source`` to ``target``, the likeliest first.

    ``side`` is the picture's longer one, in pixels, and ``touch`` the share of it that may lie
    between the boxes.
    """
    own, other = source.detection.box, target.detection.box
    if max(gap(own, other, 0), gap(own, other, 1)) > touch * side:
        return ()
    lined = -gap(own, other, 0) >= _OVERLAP * min(own[2] - own[0], other[2] - other[0])
    higher, animate = center_of(own)[1] < center_of(other)[1], is_animate(source.detection.name)
    found: list[str] = []
    if shared_area(own, other) >= _WITHIN * area_of(own):
        found.append("inside")
    if lined and higher:
        found += ["on", "riding"] if animate else ["on"]
    if lined and (not higher or "inside" in found):
        found.append("under")
    if animate and lined and not higher and area_of(other) <= area_of(own):
        found.append("wearing")
    if animate and area_of(other) <= 1.5 * area_of(own):
        found.append("holding")
    return tuple(found)


def directions(a: Thing, b: Thing) -> tuple[str, ...]:
    """Return the two directions that the middles allow, and the opposite of the clearer one.

    In an order that hangs on the ids alone.
    """
    flat, steep, level = _axes(a, b)
    return _turned((flat[0], steep[0], flat[1] if level else steep[1]), a, b)


def clear_directions(a: Thing, b: Thing) -> tuple[str, ...]:
    """Return the direction that the middles tell clearer, and two that they rule out.

    Of a pair that stands diagonally the other one would be a second right option. In an order that
    hangs on the ids alone.
    """
    flat, steep, level = _axes(a, b)
    clear, vague = (flat, steep) if level else (steep, flat)
    return _turned((*clear, vague[1]), a, b)


def _axes(a: Thing, b: Thing) -> tuple[tuple[str, str], tuple[str, str], bool]:
    """Return the direction from ``a`` to ``b`` and its opposite, across and down.

    Also returns whether they lie rather across.
    """
    (x, y), (to_x, to_y) = center_of(a.detection.box), center_of(b.detection.box)
    dx, dy = to_x - x, to_y - y
    flat = ("left of", "right of") if dx > 0 else ("right of", "left of")
    steep = ("above", "below") if dy > 0 else ("below", "above")
    return flat, steep, abs(dx) >= abs(dy)


def contact_options(source: Thing, target: Thing, wanted: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the options of the questions that ask for the contacts ``wanted``.

    Up to :data:`MOST_CONTACTS` each, filled up with directions to :data:`OPTIONS`.
    """
    parts = (wanted[at : at + MOST_CONTACTS] for at in range(0, len(wanted), MOST_CONTACTS))
    rest = directions(source, target)
    return [(*some, *rest[: OPTIONS - len(some)]) for some in parts]


def by_rivals(
    ends: Sequence[tuple[Thing, Thing]], things: Sequence[Thing]
) -> dict[frozenset[str], list[int]]:
    """Return the places of questions about the pairs ``ends`` by the ids that must be hidden.

    These are other things that the words of a question could mean. Questions that hide the same
    things see the same picture, and share one encoding of it.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for at, pair in enumerate(ends):
        names, ids = {one.detection.name for one in pair}, {one.id for one in pair}
        rivals = (o.id for o in things if o.detection.name in names and o.id not in ids)
        groups.setdefault(frozenset(rivals), []).append(at)
    return groups


def _turned(options: Sequence[str], a: Thing, b: Thing) -> tuple[str, ...]:
    turn = hashlib.sha256(f"{a.id}\0{b.id}".encode()).digest()[0] % len(options)
    return (*options[turn:], *options[:turn])

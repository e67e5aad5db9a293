"""The painter: from a scene graph to a picture whose truth is known exactly.

A painting as layers: one drawing an object, from back to front, on its setting.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.errors import ScenewrightError
from scenewright.core.layout import Cell, canonical_predicate, place_objects
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.miniature.pens import HANDS
from scenewright.miniature.sprites import backdrop, sprite
from scenewright.miniature.truth import Box, Contact, Painting, Truth
from scenewright.miniature.world import (
    COLORS,
    CONTACTS,
    HIDING,
    KINDS,
    PREDICATES,
    SETTINGS,
    SIZE,
    SMALL,
    STYLES,
    can_hold,
)

Mask = NDArray[np.bool_]
"""(128, 128) by row and column."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One object's drawing."""

    object_id: str
    """Whose it is."""
    image: Image.Image
    """RGBA."""
    left: int
    """First column; may lie outside the picture."""
    top: int
    """First row; may lie outside the picture."""


def scale_of(item: SceneObject, box: Box) -> float:
    """How large ``item`` is drawn in ``box``."""
    return 1.0 if box.width == KINDS[item.name].width else SMALL


def strokes_of(box: Box) -> int:
    """How the hand moves for a thing in ``box``: given by its place, so it needs no record."""
    return (box.left + 3 * box.top) % HANDS


def draw_order(scene: SceneGraph, contacts: Iterable[Contact]) -> list[SceneObject]:
    """Return the objects from back to front.

    Riders go behind what they ride, and what hides behind the other thing; what is worn, held,
    inside or under goes in front.
    """
    front: dict[str, int] = {item.id: 1 for item in scene.objects}
    for s, p, _ in contacts:
        if p in ("riding", HIDING):
            front[s] = 0
        elif p in ("inside", "under"):
            front[s] = 2
    for s, p, t in contacts:
        if p in ("holding", "wearing"):
            front[t] = front[s] + 1
    return sorted(scene.objects, key=lambda item: front[item.id])


def layers_of(truth: Truth) -> list[Layer]:
    """Return the layers that ``truth`` is drawn from, back to front."""
    found: list[Layer] = []
    for item in draw_order(truth.scene, truth.contacts):
        box = truth.boxes[item.id]
        strokes = 0 if truth.style == "flat" else strokes_of(box)
        drawing = sprite(
            item.name, item.attributes["color"], scale_of(item, box), truth.style, strokes
        )
        found.append(Layer(item.id, drawing, box.left, box.top))
    return found


def compose(truth: Truth, layers: Iterable[Layer]) -> Image.Image:
    """``layers`` on the setting of ``truth``: RGB, 128×128."""
    image = backdrop(truth.setting, truth.ground, truth.style)
    for layer in layers:
        image.paste(layer.image, (layer.left, layer.top), layer.image)
    return image


def silhouettes(layers: Iterable[Layer]) -> dict[str, Mask]:
    """Object id → the pixels it mostly covers and that nothing in front of it does.

    Objects of which nothing can be seen are left out.
    """
    found: dict[str, Mask] = {}
    for layer in layers:
        sheet = Image.new("L", (SIZE, SIZE))
        sheet.paste(layer.image.getchannel("A"), (layer.left, layer.top))
        covered = np.asarray(sheet) >= 128
        for behind in found.values():
            behind &= ~covered
        found[layer.object_id] = covered
    return {key: mask for key, mask in found.items() if mask.any()}


__all__ = ["Box", "Contact", "PaintError", "Painting", "Truth", "paint", "render"]

_CENTERS = (22, 64, 106)
_JITTER = 2
_ATTEMPTS = 40
_PEEPS_OUT = 0.65
"""Share of its height by which a hiding thing stands out over what is in front."""
_HEADS = {"dog": 0.76}
"""Kind → where its head is, as a share of its width; of all others in the middle."""
_BRIM = 4
"""Rows of a hat that cover the head: the face stays free."""


class PaintError(ScenewrightError, ValueError):
    """A scene the painter cannot draw; names the place and the remedy."""


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


def _check_style(style: str) -> None:
    if style not in STYLES:
        raise PaintError(f"unknown style {style!r}: use one of {', '.join(STYLES)}")


def _contact_point(predicate: str, source: Box, target: Box, kind: str, roomy: bool) -> Box:
    """Return where the moved side of a contact goes.

    The target of *holding* and *wearing*, else the source, which is a ``kind``.
    """
    (cx, _), (_, sy) = target.center, source.center
    match predicate:
        case "on":
            return replace(
                source, left=round(cx - source.width / 2), top=target.top - source.height + 1
            )
        case "riding":
            return replace(
                source, left=round(cx - source.width / 2), top=target.top - source.height + 14
            )
        case _ if predicate == HIDING:
            return replace(
                source,
                left=round(cx - source.width / 2),
                top=target.top - round(_PEEPS_OUT * source.height),
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
    head = _HEADS.get(kind, 0.5) * source.width
    return replace(
        target,
        left=round(source.left + head - target.width / 2),
        top=source.top - target.height + _BRIM,
    )


def lay_out(
    scene: SceneGraph, cells: Mapping[str, Cell], contacts: Iterable[Contact], rng: random.Random
) -> dict[str, Box]:
    """Return where each object is drawn: near its cell's middle, or where its contact wants it."""
    contacts = sorted(contacts)
    small = {
        s
        for s, p, t in contacts
        if p in ("inside", HIDING) or (p == "under" and scene.object(t).name == "table")
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
            kind = scene.object(s).name
            boxes[object_id] = _contact_point(p, boxes[s], boxes[t], kind, roomy)

    for item in scene.objects:
        settle(item.id)
    return _moved_inside(boxes, contacts)


def _moved_inside(boxes: Mapping[str, Box], contacts: Iterable[Contact]) -> dict[str, Box]:
    """Return ``boxes`` within the picture: things that touch are moved together."""
    groups = {key: {key} for key in boxes}
    for s, _, t in contacts:
        if groups[s] is not groups[t]:
            joined = groups[s] | groups[t]
            groups.update(dict.fromkeys(joined, joined))
    found: dict[str, Box] = {}
    for key, box in boxes.items():
        group = [boxes[one] for one in groups[key]]
        left, top = min(one.left for one in group), min(one.top for one in group)
        right = max(one.left + one.width for one in group)
        bottom = max(one.top + one.height for one in group)
        moved = replace(
            box,
            left=box.left + _shift(left, right),
            top=box.top + _shift(top, bottom),
        )
        found[key] = replace(
            moved,
            left=min(max(moved.left, 0), SIZE - moved.width),
            top=min(max(moved.top, 0), SIZE - moved.height),
        )
    return found


def _shift(low: int, high: int) -> int:
    """Return how far a span is to move to lie within the picture; its start decides."""
    return max(0, -low) if low < 0 or high - low > SIZE else min(0, SIZE - high)


def render(
    scene: SceneGraph,
    cells: Mapping[str, Cell],
    contacts: frozenset[Contact],
    setting: str,
    rng: random.Random,
    style: str = "flat",
) -> Painting:
    """Draw ``scene`` (every object coloured) with its objects in ``cells``.

    The layout does not depend on ``style``. Raises ``PaintError`` for an unknown style.
    """
    _check_style(style)
    boxes = lay_out(scene, cells, contacts, rng)
    truth = Truth(scene, setting, boxes, dict(cells), contacts, style, rng.randrange(1 << 16))
    return Painting(compose(truth, layers_of(truth)), truth)


def paint(
    scene: SceneGraph, seed: int = 0, setting: str | None = None, style: str = "flat"
) -> Painting:
    """Paint ``scene``: every relation of it holds in the picture. Same seed, same bytes.

    Objects without a colour get one from the seed. A seed gives the same scene in every
    style. Raises ``PaintError`` for what the
    world does not know and ``PlacementError`` for relations that cannot hold together.
    """
    _check(scene)
    if setting is not None and setting not in SETTINGS:
        raise PaintError(f"unknown setting {setting!r}: use one of {', '.join(SETTINGS)}")
    _check_style(style)
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
        cells = place_objects(scene, seed + attempt)
        painting = render(coloured, cells, contacts, chosen, rng, style)
        lost = [r for r in scene.relations if not _is_drawn(r, painting.truth)]
        if not lost:
            return painting
        broken = "; ".join(f"{r.source} {r.predicate} {r.target}" for r in lost)
    raise PaintError(f"found no layout in which this holds: {broken}: change or drop a relation")


def _is_drawn(relation: Relation, truth: Truth) -> bool:
    found = truth.relations_between(relation.source, relation.target)
    return canonical_predicate(relation.predicate) in found

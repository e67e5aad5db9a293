"""The painter: from a scene graph to a picture whose truth is known exactly."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

from scenewright.core.placement import Cell, canonical_predicate, place_objects
from scenewright.core.scene import Attributes, Relation, SceneGraph
from scenewright.miniature.layers import compose, layers_of
from scenewright.miniature.truth import Box, Contact, Painting, Truth
from scenewright.miniature.world import (
    COLORS,
    CONTACTS,
    KINDS,
    PREDICATES,
    SETTINGS,
    SIZE,
    SMALL,
    STYLES,
    can_hold,
)

__all__ = ["Box", "Contact", "PaintError", "Painting", "Truth", "paint", "render"]

_CENTERS = (22, 64, 106)
_JITTER = 2
_ATTEMPTS = 40


class PaintError(ValueError):
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
    boxes = _lay_out(scene, cells, contacts, rng)
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

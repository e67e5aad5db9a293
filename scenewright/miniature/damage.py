"""Graded damage to the objects of a painting, with exact labels.

*shape* breaks an object's geometry and leaves its colours and surface plausible;
*texture* spoils its surface and leaves its outline. Levels go from 0 (untouched) to 5.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from PIL import Image

from scenewright.miniature import shape_damage, texture_damage
from scenewright.miniature.layers import (
    Layer,
    Mask,
    compose,
    layers_of,
    scale_of,
    silhouettes,
    strokes_of,
)
from scenewright.miniature.sprites import draw_parts
from scenewright.miniature.truth import Box, Painting, Truth

MANNERS: dict[str, tuple[str, ...]] = {
    "shape": shape_damage.MANNERS,
    "texture": texture_damage.MANNERS,
}
"""Kind of damage → the manners it comes in."""
LEVELS = range(6)
REACH = shape_damage.MARGIN
"""A damage changes no pixel farther than this from the box of its object."""


class DamageError(ValueError):
    """A damage that cannot be done; says what can."""


@dataclass(frozen=True, slots=True)
class DamageRequest:
    """What to do to one object."""

    object_id: str
    """Which object of the painted scene."""
    kind: str
    """shape or texture."""
    level: int
    """0 (none) to 5."""
    manner: str | None = None
    """One of the kind's ``MANNERS``; by default the seed picks."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to one object, exactly."""

    object_id: str
    """Which object of the painted scene."""
    kind: str
    """shape or texture."""
    level: int
    """0 (none) to 5."""
    manner: str
    """Which of the kind's ``MANNERS``; at level 0 the one that a higher level would have."""
    box: Box | None
    """Bounds of the changed pixels; none where nothing changed to see."""
    mask: Mask = field(compare=False, repr=False)
    """The changed pixels. With two damages of one object, texture changes the broken shape."""


@dataclass(frozen=True, slots=True)
class DamagedPainting(Painting):
    """A painting with damaged objects. Its truth, boxes included, is that of the whole one."""

    damages: tuple[Damage, ...]
    """One for each request: by the scene's objects, shape before texture."""
    masks: Mapping[str, Mask] = field(compare=False, repr=False)
    """Object id → what can be seen of it after the damage."""


def masks_of(painting: Painting) -> Mapping[str, Mask]:
    """Object id → its silhouette: (128, 128) bool, without what stands in front of it.

    Objects of which nothing can be seen are left out; no pixel belongs to two objects.
    """
    if isinstance(painting, DamagedPainting):
        return painting.masks
    return silhouettes(layers_of(painting.truth))


def parse_damage(text: str) -> DamageRequest:
    """``OBJECT:KIND:LEVEL``, as in ``dog.1:shape:3``. Raises ``DamageError``."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].strip().isdecimal():
        raise DamageError(
            f"damage {text!r} is not OBJECT:KIND:LEVEL with a level of 0 to {LEVELS[-1]}: "
            "write it like dog.1:shape:3"
        )
    object_id, kind, level = (part.strip() for part in parts)
    return DamageRequest(object_id, kind, int(level))


def _check(requests: Iterable[DamageRequest], painting: Painting) -> None:
    if isinstance(painting, DamagedPainting):
        raise DamageError("the painting is damaged already: ask for all its damages at once")
    ids = [item.id for item in painting.truth.scene.objects]
    seen: set[tuple[str, str]] = set()
    for request in requests:
        key = (request.object_id, request.kind)
        if request.object_id not in ids:
            raise DamageError(
                f"cannot damage {request.object_id!r}: the painting has {', '.join(ids)}"
            )
        if request.kind not in MANNERS:
            raise DamageError(
                f"unknown kind of damage {request.kind!r}: use one of {', '.join(MANNERS)}"
            )
        if request.level not in LEVELS:
            raise DamageError(
                f"damage level of {request.object_id} is {request.level}: use 0 to {LEVELS[-1]}"
            )
        manners = MANNERS[request.kind]
        if request.manner is not None and request.manner not in manners:
            raise DamageError(
                f"unknown manner {request.manner!r} of {request.kind}: "
                f"use one of {', '.join(manners)}"
            )
        if key in seen:
            raise DamageError(
                f"{request.kind} damage of {request.object_id} is asked twice: keep one"
            )
        seen.add(key)


def damage(painting: Painting, requests: Iterable[DamageRequest], seed: int = 0) -> DamagedPainting:
    """``painting`` with the requested damages. Same seed, same bytes.

    A seed damages an object in one way, which a higher level carries further, whatever
    else is damaged. Nothing changes farther than ``REACH`` from the object's box, and a
    texture changes only inside its outline. Raises ``DamageError``.
    """
    requests = list(requests)
    _check(requests, painting)
    truth = painting.truth
    places = {item.id: place for place, item in enumerate(truth.scene.objects)}
    layers = {layer.object_id: layer for layer in layers_of(truth)}
    image = painting.image
    done: list[Damage] = []
    for request in sorted(requests, key=lambda r: (places[r.object_id], r.kind)):
        own_seed = f"{seed}:{request.object_id}:{request.kind}"
        manner = request.manner or random.Random(own_seed).choice(MANNERS[request.kind])
        changed = np.zeros((image.height, image.width), np.bool_)
        if request.level:
            spoil = _break if request.kind == "shape" else _spoil
            layer = layers[request.object_id]
            layers[request.object_id] = spoil(truth, layer, manner, request.level, own_seed)
            before, image = image, compose(truth, layers.values())
            changed = (np.asarray(image) != np.asarray(before)).any(-1)
        done.append(
            Damage(
                request.object_id, request.kind, request.level, manner, _bounds(changed), changed
            )
        )
    return DamagedPainting(image, truth, tuple(done), silhouettes(layers.values()))


def _break(truth: Truth, layer: Layer, manner: str, level: int, seed: str) -> Layer:
    item, box = truth.scene.object(layer.object_id), truth.boxes[layer.object_id]
    scale = scale_of(item, box)
    reach = round(REACH * scale)
    shapes = shape_damage.broken(item.name, item.attributes["color"], manner, level, seed)
    drawing = draw_parts(shapes, item.name, scale, truth.style, strokes_of(box), reach)
    return Layer(layer.object_id, drawing, box.left - reach, box.top - reach)


def _spoil(truth: Truth, layer: Layer, manner: str, level: int, seed: str) -> Layer:
    rng = np.random.default_rng(random.Random(seed).getrandbits(64))
    pixels = texture_damage.spoilt(np.asarray(layer.image), manner, level, rng)
    return replace(layer, image=Image.fromarray(pixels))


def _bounds(mask: Mask) -> Box | None:
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top = int(columns[0]), int(rows[0])
    return Box(left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1)

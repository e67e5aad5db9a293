"""Graded damage to the objects of a painting, with exact labels.

*shape* breaks an object's geometry and leaves its colours and surface plausible;
*texture* spoils its surface and leaves its outline. Levels go from 0 (untouched) to 5.

How hard to damage a drawing so that a measured damage comes out.

Broken shapes: the parts of a drawing bent, sunk, moved, doubled or left out.

How far it goes is measured: a level stands for the share of the drawing that is no
longer what it was, so it means the same for every kind of thing and manner.

Spoilt textures: noise, smudges, bands, blotches and wrong patterns within an outline.

How far it goes is measured: a level stands for a mean difference of the colours, so it
means the same for every kind of thing and manner.

Paintings whose objects are damaged by exact grades: the ground truth of object realism.

Every object of a painting gets a shape grade and a texture grade of its own, from 5 (untouched)
down to 1 (damage of level 4), as two people would rate it on the scale of OcR, but exactly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter, minimum_filter

from scenewright.core.errors import ScenewrightError
from scenewright.miniature.painter import (
    Layer,
    Mask,
    compose,
    layers_of,
    scale_of,
    silhouettes,
    strokes_of,
)
from scenewright.miniature.pens import Color, Part, Points, Wobble
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.sprites import draw_parts, parts
from scenewright.miniature.truth import Box, Painting, Truth
from scenewright.miniature.world import KINDS, SIZE


def force_for(target: float, measure: Callable[[float], float], most: float) -> float:
    """Return the force from 0 to ``most`` whose measured damage is near ``target``, by bisection.

    A greater target never gives a smaller force, even where ``measure`` jumps or falls.
    Where no force on the way reaches the target it comes near to ``most``.
    """
    low, high = 0.0, most
    reached = {low: 0.0, high: measure(high)}
    for _ in range(9):
        middle = (low + high) / 2
        reached[middle] = measure(middle)
        if reached[middle] < target:
            low = middle
        else:
            high = middle
    return low if target - reached[low] < reached[high] - target else high


SHAPE_TARGETS = (0.0, 0.1, 0.2, 0.33, 0.48, 0.65)
"""Level → changed share of the drawing, in pixels of what it covered."""
MARGIN = 6
"""How far, in pixels at scale 1, a broken shape may leave its place."""

_MOST_SHAPE = 2.0
_ZOOM = 2
_LARGE = 0.3
_LESS = 0.35

Bend = Callable[[Sequence[Part], float], list[Part]]
"""Breaks the parts of one drawing with a force: 0 leaves them, 2 is the most."""


def _moved(shapes: Sequence[Part], move: Callable[[Points], Points]) -> list[Part]:
    """``shapes`` with every point where ``move`` takes it."""
    ends = np.cumsum([len(part.points) for part in shapes])[:-1]
    pieces = np.split(move(np.concatenate([part.points for part in shapes])), ends)
    return [replace(part, points=piece) for part, piece in zip(shapes, pieces, strict=True)]


def _warped(rng: random.Random, width: float, height: float) -> Bend:
    """Return the outline runs askew."""
    coarse, fine = Wobble(rng, 16), Wobble(rng, 7)

    def bend(shapes: Sequence[Part], force: float) -> list[Part]:
        return _moved(shapes, lambda at: at + force * (7 * coarse(at) + 2 * fine(at)))

    return bend


def _melted(rng: random.Random, width: float, height: float) -> Bend:
    """Let the shape sink, spread and drip."""
    sag, lean = Wobble(rng, 9), rng.uniform(-0.3, 0.3)

    def sink(points: Points, force: float) -> Points:
        x, y = points.T
        columns = np.stack([x, np.zeros_like(x)], 1)
        uneven = np.clip(0.75 + 0.5 * sag(columns)[:, 1], 0.1, 1.6)
        low = np.clip(y / height, 0, 1)
        down = (1 - np.exp(-1.1 * force * uneven)) * (1 - low) * height * 0.8
        drip = 3 * force * np.clip(sag(1.7 * columns)[:, 0], 0, None) * low
        side = (x - width / 2) * (1 + 0.35 * force * low) + width / 2
        return np.stack([side + lean * force * (1 - low) * height * 0.5, y + down + drip], 1)

    def bend(shapes: Sequence[Part], force: float) -> list[Part]:
        return _moved(shapes, lambda points: sink(points, force))

    return bend


def _area(part: Part) -> float:
    x, y = part.points.T
    if not part.closed:
        return float(np.hypot(np.diff(x), np.diff(y)).sum()) * part.width
    return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2


@dataclass(frozen=True, slots=True, eq=False)
class _Blow:
    """What happens to one part."""

    what: str
    """moved, missing or doubled."""
    start: float
    """Force from which it happens."""
    shift: Points
    """(2,) pixels."""
    turn: float
    """Radians."""

    def apply(self, part: Part, force: float) -> Iterator[Part]:
        share = min(max(force - self.start, 0.0) * 2, 1.5)
        if share == 0 or self.what == "doubled":
            yield part
        if share == 0 or self.what == "missing":
            return
        middle = part.points.mean(0)
        cos, sin = math.cos(share * self.turn), math.sin(share * self.turn)
        turned = (part.points - middle) @ np.array([[cos, sin], [-sin, cos]]) + middle
        yield replace(part, points=turned + share * self.shift)


def _scattered(rng: random.Random, shapes: Sequence[Part], reach: float) -> Bend:
    """Parts are missing, doubled or out of place; large ones, and the largest, are only moved."""
    areas = [_area(part) for part in shapes]
    blows: dict[int, _Blow] = {}
    for place, index in enumerate(rng.sample(range(len(shapes)), len(shapes))):
        angle, far = rng.uniform(0, 2 * math.pi), reach * rng.uniform(0.5, 1)
        large = areas[index] >= min(_LARGE * sum(areas), max(areas))
        blows[index] = _Blow(
            "moved" if large else rng.choice(("moved", "missing", "doubled")),
            place / len(shapes),
            far * np.array([math.cos(angle), math.sin(angle)]),
            rng.choice((-1, 1)) * rng.uniform(0.3, 1.2),
        )

    def bend(bent: Sequence[Part], force: float) -> list[Part]:
        return [new for i, part in enumerate(bent) for new in blows[i].apply(part, force)]

    return bend


SHAPE_MANNERS = ("warped", "melted", "parts")
"""Bent outline; sunk and spread; parts missing, doubled or out of place."""


def _breakage(kind: str, manner: str, seed: str) -> Bend:
    rng = random.Random(seed)
    width, height = KINDS[kind].width, KINDS[kind].height
    slight = _warped(rng, width, height)
    main: Bend
    if manner == "parts":
        main = _scattered(rng, parts(kind, "red"), 0.4 * min(width, height))
    else:
        main = (_warped if manner == "warped" else _melted)(rng, width, height)
    edge = MARGIN - 0.8
    far = np.array([width + edge, height + edge])

    def bend(shapes: Sequence[Part], force: float) -> list[Part]:
        pieces = slight(main(shapes, force), _LESS * force)
        return _moved(pieces, lambda points: np.clip(points, -edge, far))

    return bend


@lru_cache(maxsize=256)
def _force(kind: str, manner: str, level: int, seed: str) -> float:
    bend = _breakage(kind, manner, seed)
    shapes = parts(kind, "red")
    shades = {part.fill: number + 1 for number, part in enumerate(shapes)}
    whole = _map(shapes, shades, kind)

    def changed(force: float) -> float:
        now = _map(bend(shapes, force), shades, kind)
        return float((now != whole).sum() / (whole > 0).sum())

    return force_for(SHAPE_TARGETS[level], changed, _MOST_SHAPE) if level else 0.0


def _map(shapes: Sequence[Part], shades: dict[Color, int], kind: str) -> NDArray[np.uint8]:
    """Which colour of the drawing lies where, without outlines."""
    size = KINDS[kind]
    side = 2 * MARGIN
    image = Image.new("L", ((size.width + side) * _ZOOM, (size.height + side) * _ZOOM))
    draw = ImageDraw.Draw(image)
    for part in shapes:
        pairs = [(float(x), float(y)) for x, y in (part.points + MARGIN) * _ZOOM]
        if part.closed:
            draw.polygon(pairs, shades[part.fill])
        else:
            draw.line(pairs, shades[part.fill], max(1, round(part.width * _ZOOM)))
    return np.asarray(image)


def broken(kind: str, color: str, manner: str, level: int, seed: str) -> tuple[Part, ...]:
    """Return the parts of ``kind`` in ``color``, broken.

    The same seed breaks the same way further with every level (0–5).
    """
    bend = _breakage(kind, manner, seed)
    return tuple(bend(parts(kind, color), _force(kind, manner, level, seed)))


TEXTURE_TARGETS = (0.0, 7.0, 15.0, 25.0, 37.0, 51.0)
"""Level → mean absolute difference (0–255) of the pixels inside the outline."""
TEXTURE_MANNERS = ("noise", "smudged", "banded", "blotched", "patterned")
"""Grain; blur with stains; parallel bands; patches; a fine regular pattern."""

_MOST_TEXTURE = 4.0

Pixels = NDArray[np.float32]
"""(rows, columns, 3), 0 to 255."""
Cover = NDArray[np.float32]
"""(rows, columns), 0 to 1."""
Spoil = Callable[[float], Pixels]
"""Force → what the colours become, before they are kept to the inside."""


def _unit(field: NDArray[np.floating], inside: Cover) -> Pixels:
    """``field`` with a mean of 0 and a mean size of 1 inside, so that the colour stays."""
    weight = inside[..., None] if field.ndim == 3 else inside
    total = max(float(np.broadcast_to(weight, field.shape).sum()), 1e-6)
    centred = field - (field * weight).sum() / total
    size = float((np.abs(centred) * weight).sum()) / total
    found = centred / max(size, 1e-6)
    return np.asarray(found if field.ndim == 3 else found[..., None], np.float32)


def _noise(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    grey, tint = rng.standard_normal(inside.shape), rng.standard_normal(rgb.shape)
    field = _unit(grey[..., None] * rng.uniform(0, 1) + tint, inside)
    return lambda force: rgb + 30 * force * field


def _stains(rng: np.random.Generator, inside: Cover, size: float) -> NDArray[np.floating]:
    tint = np.array(rng.uniform(0.75, 1, 3))
    field = gaussian_filter(rng.standard_normal(inside.shape), size, mode="wrap")
    return np.asarray(np.tanh(3 * field / field.std())[..., None] * tint)


def _smudged(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    stains = _unit(_stains(rng, inside, 1.6), inside)

    def spoil(force: float) -> Pixels:
        sigma = 0.3 + 1.6 * min(force, 2.0)
        weight = gaussian_filter(inside, sigma) + 1e-6
        soft = gaussian_filter(rgb * inside[..., None], (sigma, sigma, 0)) / weight[..., None]
        share = min(2 * force, 1.0)
        return np.asarray(rgb + share * (soft - rgb) + 26 * force * stains, np.float32)

    return spoil


def _banded(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    y, x = np.indices(inside.shape)
    angle, pitch = rng.uniform(0, np.pi), rng.uniform(3, 6)
    across = (x * np.cos(angle) + y * np.sin(angle)) / pitch + rng.uniform(0, 1)
    heights = rng.uniform(0.5, 1, 256) * np.where(np.arange(256) % 2, 1, -1)
    bands = heights[np.floor(across).astype(int) % 256][..., None] * rng.uniform(0.75, 1, 3)
    field = _unit(bands, inside)
    return lambda force: rgb + 30 * force * field


def _blotched(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    field = _unit(_stains(rng, inside, rng.uniform(1.8, 2.8)), inside)
    return lambda force: rgb + 30 * force * field


def _patterned(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    y, x = np.indices(inside.shape)
    which, phase = int(rng.integers(3)), rng.integers(0, 4, 2)
    if which == 0:
        tiles = ((x + phase[0]) // 2 + (y + phase[1]) // 2) % 2
    elif which == 1:
        tiles = (x + phase[0] + 2 * (y % 2)) % 4 < 2
    else:
        tiles = ((x + phase[0]) % 3 == 0) | ((y + phase[1]) % 3 == 0)
    field = _unit(tiles.astype(float)[..., None] * rng.uniform(0.75, 1, 3), inside)
    return lambda force: rgb + 30 * force * field


_SPOIL: dict[str, Callable[[np.random.Generator, Pixels, Cover], Spoil]] = {
    "noise": _noise,
    "smudged": _smudged,
    "banded": _banded,
    "blotched": _blotched,
    "patterned": _patterned,
}


def spoilt(
    drawing: NDArray[np.uint8], manner: str, level: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """``drawing`` (rows, columns, RGBA) with its texture spoilt; its alpha and rim stay.

    Equal generators spoil the same way further with every level (0–5).
    """
    alpha = drawing[..., 3]
    inside = (minimum_filter(alpha, 3, mode="constant") >= 250).astype(np.float32)
    rgb = drawing[..., :3].astype(np.float32)
    spoil = _SPOIL[manner](rng, rgb, inside)
    total = max(float(inside.sum()) * 3, 1.0)

    def picture(force: float) -> Pixels:
        new = np.clip(np.rint(spoil(force)), 0, 255)
        return np.asarray(rgb + (new - rgb) * inside[..., None], np.float32)

    def difference(force: float) -> float:
        return float(np.abs(picture(force) - rgb).sum()) / total

    found = drawing.copy()
    if level:
        found[..., :3] = picture(
            force_for(TEXTURE_TARGETS[level], difference, _MOST_TEXTURE)
        ).astype(np.uint8)
    return found


MANNERS: dict[str, tuple[str, ...]] = {
    "shape": SHAPE_MANNERS,
    "texture": TEXTURE_MANNERS,
}
"""Kind of damage → the manners it comes in."""
LEVELS = range(6)
REACH = MARGIN
"""A damage changes no pixel farther than this from the box of its object."""


class DamageError(ScenewrightError, ValueError):
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
    shapes = broken(item.name, item.attributes["color"], manner, level, seed)
    drawing = draw_parts(shapes, item.name, scale, truth.style, strokes_of(box), reach)
    return Layer(layer.object_id, drawing, box.left - reach, box.top - reach)


def _spoil(truth: Truth, layer: Layer, manner: str, level: int, seed: str) -> Layer:
    rng = np.random.default_rng(random.Random(seed).getrandbits(64))
    pixels = spoilt(np.asarray(layer.image), manner, level, rng)
    return replace(layer, image=Image.fromarray(pixels))


def _bounds(mask: Mask) -> Box | None:
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top = int(columns[0]), int(rows[0])
    return Box(left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1)


GRADES = (1, 2, 3, 4, 5)
"""Realism of an aspect: 5 whole, 1 spoilt beyond belief."""
_WEIGHTS = (0.3, 0.2, 0.2, 0.15, 0.15)
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class GradedObject:
    """One object as it can be seen, and how real it is."""

    id: str
    """Within the painting's scene."""
    name: str
    """Its kind."""
    color: str
    """Its colour."""
    box: tuple[int, int, int, int]
    """Left, top, right, bottom of what can be seen of it, in pixels; right and bottom outside."""
    shape: int
    """Realism of its shape, 1–5."""
    texture: int
    """Realism of its texture, 1–5."""
    shape_manner: str
    """How its shape is broken, where it is."""
    texture_manner: str
    """How its surface is spoilt, where it is."""


@dataclass(frozen=True, slots=True)
class GradedPainting:
    """A painting and the grades of its objects."""

    painting: DamagedPainting
    """The painting."""
    objects: tuple[GradedObject, ...]
    """Those of which at least 1 % of the picture can be seen, in the scene's order."""

    @property
    def image(self) -> Image.Image:
        """The picture."""
        return self.painting.image


def sample_graded(
    rng: random.Random, style: str = "flat", n_objects: int | None = None
) -> GradedPainting:
    """Return a random painting with every object graded.

    The same ``rng`` gives the same painting.
    """
    whole = sample_painting(rng, n_objects, style=style)
    requests = [
        DamageRequest(item.id, aspect, rng.choices(range(len(_WEIGHTS)), _WEIGHTS)[0])
        for item in whole.scene.objects
        for aspect in ("shape", "texture")
    ]
    return graded(damage(whole, requests, rng.getrandbits(31)))


def graded(painting: DamagedPainting) -> GradedPainting:
    """Return the grades of a damaged painting.

    What was not damaged is 5, levels 4 and 5 are both 1.
    """
    done = {(item.object_id, item.kind): item for item in painting.damages}
    found: list[GradedObject] = []
    for item in painting.scene.objects:
        mask = painting.masks.get(item.id)
        if mask is None or mask.sum() < _LEAST_SHARE * SIZE * SIZE:
            continue
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        shape, texture = done.get((item.id, "shape")), done.get((item.id, "texture"))
        found.append(
            GradedObject(
                id=item.id,
                name=item.name,
                color=item.attributes["color"],
                box=(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1),
                shape=_grade(shape.level if shape else 0),
                texture=_grade(texture.level if texture else 0),
                shape_manner=shape.manner if shape else "",
                texture_manner=texture.manner if texture else "",
            )
        )
    return GradedPainting(painting, tuple(found))


def _grade(level: int) -> int:
    return max(GRADES[0], GRADES[-1] - level)

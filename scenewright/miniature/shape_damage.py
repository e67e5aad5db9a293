"""Broken shapes: the parts of a drawing bent, sunk, moved, doubled or left out.

How far it goes is measured: a level stands for the share of the drawing that is no
longer what it was, so it means the same for every kind of thing and manner.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from scenewright.miniature.pens import Color, Part, Points, Wobble
from scenewright.miniature.severity import force_for
from scenewright.miniature.sprites import parts
from scenewright.miniature.world import KINDS

TARGETS = (0.0, 0.1, 0.2, 0.33, 0.48, 0.65)
"""Level → changed share of the drawing, in pixels of what it covered."""
MARGIN = 6
"""How far, in pixels at scale 1, a broken shape may leave its place."""

_MOST = 2.0
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
    """The outline runs askew."""
    coarse, fine = Wobble(rng, 16), Wobble(rng, 7)

    def bend(shapes: Sequence[Part], force: float) -> list[Part]:
        return _moved(shapes, lambda at: at + force * (7 * coarse(at) + 2 * fine(at)))

    return bend


def _melted(rng: random.Random, width: float, height: float) -> Bend:
    """It sinks, spreads and drips."""
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


MANNERS = ("warped", "melted", "parts")
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

    return force_for(TARGETS[level], changed, _MOST) if level else 0.0


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
    """The parts of ``kind`` in ``color``, broken; the same seed breaks the same way further
    with every level (0–5)."""
    bend = _breakage(kind, manner, seed)
    return tuple(bend(parts(kind, color), _force(kind, manner, level, seed)))

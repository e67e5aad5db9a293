"""Pens: how the shapes of a drawing are put down, in ink at once or as parts to be altered.

The pencil style: paper, coloured hatching, graphite shading and a loose grey outline.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw
from scipy.ndimage import gaussian_filter

from scenewright.miniature.world import SIZE

ZOOM = 8
"""Ink is drawn this many times larger and scaled down once, so edges are smooth."""
INK = (38, 34, 44, 255)

Color = tuple[int, int, int, int]
Points = NDArray[np.float64]
"""(n, 2) of x and y in pixels of the finished drawing."""

_STEP = 1.5


class Pen(Protocol):
    """Draws in pixels of the finished drawing."""

    def box(self, *xyxy: float, fill: Color, radius: float = 0.0, line: float = 1.1) -> None:
        """Return a box with rounded corners."""

    def oval(self, *xyxy: float, fill: Color, line: float = 1.1) -> None:
        """Return an ellipse within a box."""

    def poly(self, *xy: float, fill: Color, line: float = 1.1) -> None:
        """Return a polygon."""

    def pie(self, *xyxy: float, start: float, end: float, fill: Color, line: float = 1.1) -> None:
        """Return a slice of an ellipse, clockwise from ``start`` to ``end`` degrees."""

    def stroke(self, *xy: float, fill: Color = INK, width: float = 1.6) -> None:
        """Return an open line."""

    def dot(self, x: float, y: float, r: float, fill: Color = INK) -> None:
        """Return a disc without an outline."""


class InkPen:
    """Draws at once; every shape has an ink outline, which lies inside its box."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGBA", (width * ZOOM, height * ZOOM))
        self._draw = ImageDraw.Draw(self.image)

    @staticmethod
    def _up(points: tuple[float, ...]) -> list[float]:
        return [value * ZOOM for value in points]

    def box(self, *xyxy: float, fill: Color, radius: float = 0.0, line: float = 1.1) -> None:
        self._draw.rounded_rectangle(
            self._up(xyxy), radius * ZOOM, fill, INK, max(1, round(line * ZOOM))
        )

    def oval(self, *xyxy: float, fill: Color, line: float = 1.1) -> None:
        self._draw.ellipse(self._up(xyxy), fill, INK, max(1, round(line * ZOOM)))

    def poly(self, *xy: float, fill: Color, line: float = 1.1) -> None:
        points = self._up(xy)
        pairs = list(zip(points[::2], points[1::2], strict=True))
        self._draw.polygon(pairs, fill)
        self._draw.line([*pairs, pairs[0], pairs[1]], INK, round(line * ZOOM), joint="curve")

    def pie(self, *xyxy: float, start: float, end: float, fill: Color, line: float = 1.1) -> None:
        self._draw.pieslice(self._up(xyxy), start, end, fill, INK, round(line * ZOOM))

    def stroke(self, *xy: float, fill: Color = INK, width: float = 1.6) -> None:
        points = self._up(xy)
        pairs = list(zip(points[::2], points[1::2], strict=True))
        self._draw.line(pairs, fill, round(width * ZOOM), joint="curve")

    def dot(self, x: float, y: float, r: float, fill: Color = INK) -> None:
        self._draw.ellipse(self._up((x - r, y - r, x + r, y + r)), fill)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One shape of a drawing, fine enough to be bent."""

    points: Points
    """The middle of its line."""
    fill: Color
    """Colour of its area, or of the line when it is open."""
    width: float
    """Of the line, in pixels; 0 is no line."""
    closed: bool = True
    """Whether it has an area."""


class PartsPen:
    """Draws nothing, keeps the parts."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def _arc(self, x: float, y: float, rx: float, ry: float, start: float, end: float) -> Points:
        count = max(2, math.ceil(math.radians(abs(end - start)) * max(rx, ry) / _STEP))
        angles = np.radians(np.linspace(start, end, count + 1))
        return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], 1)

    def _keep(self, points: Points, fill: Color, width: float, closed: bool = True) -> None:
        self.parts.append(Part(_refined(points, closed), fill, width, closed))

    def box(self, *xyxy: float, fill: Color, radius: float = 0.0, line: float = 1.1) -> None:
        x0, y0, x1, y1 = _inset(xyxy, line)
        r = min(max(radius - line / 2, 0.0), (x1 - x0) / 2, (y1 - y0) / 2)
        corners = ((x1 - r, y0 + r, -90), (x1 - r, y1 - r, 0), (x0 + r, y1 - r, 90))
        arcs = [self._arc(x, y, r, r, a, a + 90) for x, y, a in (*corners, (x0 + r, y0 + r, 180))]
        self._keep(np.concatenate(arcs), fill, line)

    def oval(self, *xyxy: float, fill: Color, line: float = 1.1) -> None:
        x0, y0, x1, y1 = _inset(xyxy, line)
        x, y, rx, ry = (x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 2, (y1 - y0) / 2
        self._keep(self._arc(x, y, rx, ry, 0, 360)[:-1], fill, line)

    def poly(self, *xy: float, fill: Color, line: float = 1.1) -> None:
        self._keep(np.array(xy, float).reshape(-1, 2), fill, line)

    def pie(self, *xyxy: float, start: float, end: float, fill: Color, line: float = 1.1) -> None:
        x0, y0, x1, y1 = _inset(xyxy, line)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        arc = self._arc(x, y, (x1 - x0) / 2, (y1 - y0) / 2, start, end)
        self._keep(np.concatenate([arc, [(x, y)]]), fill, line)

    def stroke(self, *xy: float, fill: Color = INK, width: float = 1.6) -> None:
        self._keep(np.array(xy, float).reshape(-1, 2), fill, width, closed=False)

    def dot(self, x: float, y: float, r: float, fill: Color = INK) -> None:
        self._keep(self._arc(x, y, r, r, 0, 360)[:-1], fill, 0.0)


def _inset(xyxy: tuple[float, ...], line: float) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = xyxy
    # The ink pen counts the last row and column of a box in.
    half, last = line / 2, 0.6 / ZOOM
    return x0 + half, y0 + half, x1 - half + last, y1 - half + last


def _refined(points: Points, closed: bool) -> Points:
    """Return the same line with points at most ``_STEP`` apart."""
    ends = np.roll(points, -1, 0) if closed else points[1:]
    found: list[Points] = []
    for start, end in zip(points, ends, strict=False):
        count = math.ceil(float(np.hypot(*(end - start))) / _STEP)
        if count == 0:
            continue
        found.append(start + (end - start) * (np.arange(count) / count)[:, None])
    if not closed:
        found.append(points[-1:])
    return np.concatenate(found)


class Wobble:
    """A smooth random field of displacements, about one pixel large.

    A sum of plane waves no shorter than ``wavelength`` pixels: neighbours move together.
    """

    def __init__(self, rng: random.Random, wavelength: float, waves: int = 5) -> None:
        def draw(low: float, high: float) -> NDArray[np.float64]:
            return np.array([rng.uniform(low, high) for _ in range(2 * waves)])

        turn, length = draw(0, 2 * math.pi), wavelength * draw(1, 2)
        self._waves = 2 * math.pi * np.stack([np.cos(turn), np.sin(turn)]) / length
        self._phases = draw(0, 2 * math.pi)

    def __call__(self, points: Points) -> Points:
        """(n, 2) displacements at ``points``."""
        waves = np.sin(points @ self._waves + self._phases)
        half = waves.shape[1] // 2
        return np.stack([waves[:, :half].mean(1), waves[:, half:].mean(1)], 1) * math.sqrt(half)


def draw_ink(parts: Iterable[Part], size: tuple[float, float], origin: Points) -> Image.Image:
    """``parts`` in ink as the ``InkPen`` would draw them: RGBA, ``size`` times ``ZOOM``.

    ``origin`` (x, y) is where the drawing's corner lies on the picture.
    """
    image = Image.new("RGBA", (round(size[0] * ZOOM), round(size[1] * ZOOM)))
    draw = ImageDraw.Draw(image)
    for part in parts:
        pairs = [(float(x), float(y)) for x, y in (part.points + origin) * ZOOM]
        if not part.closed:
            draw.line(pairs, part.fill, round(part.width * ZOOM), joint="curve")
            continue
        draw.polygon(pairs, part.fill)
        if part.width:
            draw.line([*pairs, *pairs[:2]], INK, max(1, round(part.width * ZOOM)), joint="curve")
    return image


HANDS = 4
"""How many ways a thing can be hatched."""

_ZOOM = 4
_PAPER = np.array([250.0, 247.0, 240.0], np.float32)
_GRAPHITE = np.array([84.0, 84.0, 92.0], np.float32)
_TILE = SIZE
_START = 24.0
"""Where a sprite's corner lies in the tile of strokes: what is left of it is hatched too."""
_PITCH = 2.3
_ANGLES = (35.0, 48.0, 22.0)
_TINT = 0.36
_PRESSURE = 0.92

Coverage = NDArray[np.float32]
"""(rows, columns), 0 to 1: how much pencil lies there."""


def _coverage(value: NDArray[np.floating], least: float = 0.0) -> Coverage:
    return np.asarray(np.clip(value, least, 1), np.float32)


@lru_cache(maxsize=32)
def _grain(hand: int) -> Coverage:
    """Return the paper's tooth, which takes the pencil unevenly."""
    noise = np.random.default_rng(hand).standard_normal((_TILE * _ZOOM, _TILE * _ZOOM))
    rough = gaussian_filter(noise, 1.6, mode="wrap")
    return _coverage(0.82 + 0.2 * rough / rough.std(), 0.3)


@lru_cache(maxsize=64)
def _hatching(angle: float, pitch: float, hand: int) -> Coverage:
    """Parallel strokes ``pitch`` pixels apart, each a little bent and of its own pressure."""
    rng = np.random.default_rng([hand, round(angle * 10), round(pitch * 10)])
    y, x = np.mgrid[: _TILE * _ZOOM, : _TILE * _ZOOM].astype(np.float32) / _ZOOM
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    along, across = x * cos - y * sin, x * sin + y * cos
    across = across + 0.2 * np.sin(along / 9 + rng.uniform(0, 6)) + 2 * _TILE
    across = across + 0.2 * np.sin(along / 4.1 + across / 5)
    number = np.floor(across / pitch).astype(int)
    middle = 0.5 + rng.uniform(-0.12, 0.12, 1024)[number]
    # A hand lifts now and then: the next length has its own pressure.
    length = np.floor(along / 17 + rng.uniform(0, 9, 1024)[number] + 64).astype(int)
    pressure = rng.uniform(0.7, 1, (1024, 128))[number, length]
    distance = np.abs(across / pitch - number - middle)
    width = 0.32 + 0.05 * np.sin(along / 5 + number)
    stroke = np.clip((width - distance) * pitch * 2 + 0.5, 0, 1) * pressure
    return _coverage(stroke * _grain(hand))


def _pencil_color(fill: Color) -> NDArray[np.float32]:
    """Return ``fill`` as a coloured pencil draws it: a little greyer, never as dark as ink."""
    rgb = np.array(fill[:3], np.float32)
    grey = rgb.mean()
    return np.asarray(np.clip(rgb * 0.86 + grey * 0.08 + 14, 0, 255), np.float32)


class _Sheet:
    """A transparent sheet that pencil is laid on."""

    def __init__(self, size: tuple[float, float], origin: Points, hand: int) -> None:
        columns, rows = round(size[0] * _ZOOM), round(size[1] * _ZOOM)
        self._size = (columns, rows)
        self._origin = origin
        self._hand = hand
        x, y = (round((_START - float(value)) * _ZOOM) for value in origin)
        self._window = (slice(y, y + rows), slice(x, x + columns))
        self.color = np.empty((rows, columns, 3), np.float32)
        self.color[:] = _PAPER
        self.alpha = Image.new("L", self._size)
        rng = random.Random(hand)
        self._outlines = [(Wobble(rng, 9), 0.34), (Wobble(rng, 11), 0.5)]

    def _strokes(self, angle: float, pitch: float) -> Coverage:
        return _hatching(angle, pitch, self._hand)[self._window]

    def _pairs(self, points: Points, pass_number: int) -> list[tuple[float, float]]:
        field, size = self._outlines[pass_number]
        moved = (points + self._origin + size * field(points)) * _ZOOM
        return [(float(x), float(y)) for x, y in moved]

    def _lay(
        self, where: tuple[slice, slice], color: NDArray[np.float32], cover: NDArray[np.floating]
    ) -> None:
        self.color[where] += (color - self.color[where]) * cover[..., None]

    def add(self, part: Part, number: int) -> None:
        """Put ``part``, the drawing's ``number``-th, on what lies there."""
        mask, line = (Image.new("L", self._size) for _ in range(2))
        pencil = _pencil_color(part.fill)
        if part.closed:
            pairs = self._pairs(part.points, 0)
            ImageDraw.Draw(mask).polygon(pairs, 255)
        else:
            thick = max(1, round(part.width * _ZOOM))
            ImageDraw.Draw(mask).line(self._pairs(part.points, 0), 255, thick, joint="curve")
        if part.width and part.closed:
            for index in range(len(self._outlines)):
                pairs = self._pairs(part.points, index)
                thick = max(1, round((part.width - 0.25 - 0.4 * index) * _ZOOM))
                ImageDraw.Draw(line).line(
                    [*pairs, *pairs[:2]], 255 - 75 * index, thick, joint="curve"
                )
        touched = ImageChops.lighter(mask, line.point(lambda value: 255 if value else 0))
        box = touched.getbbox()
        if box is None:
            return
        self.alpha = ImageChops.lighter(self.alpha, touched)
        where = (slice(box[1], box[3]), slice(box[0], box[2]))
        inside = np.asarray(mask.crop(box), np.float32) / 255
        drawn = np.asarray(line.crop(box), np.float32) / 255
        if part.fill == INK:
            self._lay(where, _GRAPHITE * 0.6, inside)
            return
        self._lay(where, _PAPER + (pencil - _PAPER) * _TINT, inside)
        angle = _ANGLES[number % len(_ANGLES)]
        self._lay(where, pencil, inside * self._strokes(angle, _PITCH)[where] * _PRESSURE)
        # Shade falls on the lower right of every shape.
        rows, columns = inside.shape
        fall = np.linspace(0, 1, rows, dtype=np.float32)[:, None] * 0.6
        fall = fall + np.linspace(0, 1, columns, dtype=np.float32)[None] * 0.6
        shade = np.clip(fall - 0.45, 0, 1) * self._strokes(angle + 68, 1.7)[where]
        self._lay(where, _GRAPHITE, inside * shade * 0.6)
        tooth = _grain(self._hand)[self._window][where]
        self._lay(where, _GRAPHITE, drawn * np.clip(tooth, 0.55, 1))


def draw_pencil(
    parts: Iterable[Part], size: tuple[float, float], origin: Points, hand: int
) -> Image.Image:
    """``parts`` in pencil: RGBA, several times larger than ``size`` and to be scaled down.

    ``origin`` (x, y) is where the drawing's corner lies on the picture; ``hand``, below
    ``HANDS``, picks the strokes.
    """
    sheet = _Sheet(size, origin, hand)
    for number, part in enumerate(parts):
        sheet.add(part, number)
    image = Image.fromarray(np.clip(sheet.color + 0.5, 0, 255).astype(np.uint8))
    image.putalpha(sheet.alpha)
    return image


def sketch(
    flat: Image.Image, tones: tuple[tuple[int, int, int], tuple[int, int, int], float], hand: int
) -> Image.Image:
    """Return the flat setting ``flat`` (RGB, 128×128) drawn in pencil.

    ``tones`` are its colours above and below the horizon, and the horizon (0 top, 1 bottom).
    """
    side = SIZE * _ZOOM
    top, bottom, horizon = tones
    picture = np.asarray(flat.resize((side, side), Image.Resampling.BICUBIC), np.float32)
    rows = np.arange(side, dtype=np.float32)[:, None] / side
    wave = np.sin(np.arange(side) / 61 + hand)[None] * 0.004
    below = (rows > horizon + wave).astype(np.float32)
    sheet = np.empty((side, side, 3), np.float32)
    sheet[:] = _PAPER
    for tone, angle, region in ((top, 12.0, 1 - below), (bottom, 30.0, below)):
        pencil = _pencil_color((*tone, 255)) * 0.93
        sheet += (pencil - sheet) * (region * 0.35)[..., None]
        cover = region * _hatching(angle, 3.1, hand) * 0.55
        sheet += (pencil - sheet) * cover[..., None]
    plain = np.where(rows[..., None] > horizon, np.array(bottom), np.array(top))
    detail = np.clip(np.abs(picture - plain).max(-1) / 40, 0, 1)
    detail[np.abs(rows[:, 0] - horizon) < 4 / SIZE] = 0
    sheet += (_GRAPHITE + 40 - sheet) * (detail * _grain(hand) * 0.5)[..., None]
    line = np.clip(1 - np.abs(rows - horizon - wave) * SIZE / 0.7, 0, 1)
    sheet += (_GRAPHITE + 30 - sheet) * (line * _grain(hand) * 0.6)[..., None]
    image = Image.fromarray(np.clip(sheet + 0.5, 0, 255).astype(np.uint8))
    return image.resize((SIZE, SIZE), Image.Resampling.BOX)

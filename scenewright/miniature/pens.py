"""Pens: how the shapes of a drawing are put down, in ink at once or as parts to be altered."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

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
        """A box with rounded corners."""

    def oval(self, *xyxy: float, fill: Color, line: float = 1.1) -> None:
        """An ellipse within a box."""

    def poly(self, *xy: float, fill: Color, line: float = 1.1) -> None:
        """A polygon."""

    def pie(self, *xyxy: float, start: float, end: float, fill: Color, line: float = 1.1) -> None:
        """A slice of an ellipse, clockwise from ``start`` to ``end`` degrees."""

    def stroke(self, *xy: float, fill: Color = INK, width: float = 1.6) -> None:
        """An open line."""

    def dot(self, x: float, y: float, r: float, fill: Color = INK) -> None:
        """A disc without an outline."""


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
    """The same line with points at most ``_STEP`` apart."""
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

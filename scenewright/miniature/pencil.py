"""The pencil style: paper, coloured hatching, graphite shading and a loose grey outline."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw
from scipy.ndimage import gaussian_filter

from scenewright.miniature.pens import INK, Color, Part, Points, Wobble
from scenewright.miniature.world import SIZE

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
    """The paper's tooth, which takes the pencil unevenly."""
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
    """What a coloured pencil makes of ``fill``: a little greyer, never as dark as ink."""
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
    """The flat setting ``flat`` (RGB, 128×128) drawn in pencil.

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

"""The drawings of the miniature world.

One small picture a kind, colour and style, and the settings. Sprites and settings are cached.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from scenewright.miniature.pens import (
    INK,
    Color,
    InkPen,
    Part,
    PartsPen,
    Pen,
    draw_ink,
    draw_pencil,
    sketch,
)
from scenewright.miniature.world import COLORS, KINDS, SIZE

_SKIN = (246, 205, 170, 255)
_WOOD = (140, 96, 62, 255)
_PALE = (250, 246, 236, 255)
_GREY = (120, 122, 130, 255)


def _shade(color: Color, factor: float) -> Color:
    if factor >= 1:
        r, g, b = (round(255 - (255 - c) * (2 - factor)) for c in color[:3])
    else:
        r, g, b = (round(c * factor) for c in color[:3])
    return (r, g, b, 255)


def _person(pen: Pen, c: Color) -> None:
    pen.box(7, 26, 11.5, 37.5, fill=_shade(c, 0.7), radius=1.5)
    pen.box(12.5, 26, 17, 37.5, fill=_shade(c, 0.7), radius=1.5)
    pen.box(0.6, 14, 23.4, 18.6, fill=_SKIN, radius=2.2)
    pen.box(5.5, 12.5, 18.5, 28, fill=c, radius=3.5)
    pen.oval(6, 0.6, 18, 13, fill=_SKIN)
    pen.dot(10, 6.5, 0.9)
    pen.dot(14, 6.5, 0.9)
    pen.stroke(10, 9.6, 12, 10.4, 14, 9.6, width=0.9)


def _dog(pen: Pen, c: Color) -> None:
    pen.stroke(3, 14, 1.5, 5, fill=_shade(c, 0.8), width=3.4)
    for x in (5, 10, 20, 25):
        pen.box(x, 18, x + 4, 27.5, fill=_shade(c, 0.8), radius=1.5)
    pen.box(2.5, 10.5, 30, 21.5, fill=c, radius=5)
    pen.box(21.5, 1.5, 33.5, 14.5, fill=c, radius=4)
    pen.box(29.5, 7.5, 35.5, 14, fill=_shade(c, 1.5), radius=2.5)
    pen.box(20.5, 2, 25, 12.5, fill=_shade(c, 0.65), radius=2.2)
    pen.dot(29, 6, 1.1, _PALE)
    pen.dot(29.3, 6, 0.7)
    pen.dot(34.6, 8.8, 1.1)


def _cat(pen: Pen, c: Color) -> None:
    pen.stroke(19, 28, 24.2, 25, 24, 17, fill=_shade(c, 0.75), width=3)
    pen.poly(4, 31.3, 6, 17, 20, 17, 22, 31.3, fill=c)
    pen.oval(9, 19, 17, 31, fill=_shade(c, 1.5), line=0.6)
    pen.poly(3.5, 9, 4, 0.9, 10.5, 5, fill=c)
    pen.poly(22.5, 9, 22, 0.9, 15.5, 5, fill=c)
    pen.oval(3, 3.4, 23, 18.6, fill=c)
    pen.dot(9, 9.6, 1.7, _PALE)
    pen.dot(17, 9.6, 1.7, _PALE)
    pen.dot(9, 9.8, 0.9)
    pen.dot(17, 9.8, 0.9)
    pen.poly(11.9, 12.4, 14.1, 12.4, 13, 14, fill=INK, line=0.4)
    for y in (12.5, 14.5):
        pen.stroke(0.8, y, 7, 13.4, width=0.6)
        pen.stroke(25.2, y, 19, 13.4, width=0.6)


def _tree(pen: Pen, c: Color) -> None:
    pen.box(13.5, 22, 20.5, 37.5, fill=_WOOD, radius=1)
    pen.oval(0.6, 9, 19, 26, fill=c)
    pen.oval(15, 9, 33.4, 26, fill=c)
    pen.oval(6.5, 0.6, 27.5, 20, fill=c)
    pen.dot(17, 17, 8.4, c)
    pen.dot(13, 7.5, 2.2, _shade(c, 1.35))
    pen.dot(24.5, 15, 2, _shade(c, 1.35))
    pen.dot(8, 17, 2, _shade(c, 1.35))


def _house(pen: Pen, c: Color) -> None:
    pen.box(25.5, 3, 30.5, 14, fill=_shade(c, 0.6))
    pen.box(3.5, 15.5, 34.5, 37.4, fill=c)
    pen.poly(0.8, 17, 19, 1, 37.2, 17, fill=_shade(c, 0.6))
    pen.box(10.5, 19.5, 27.5, 37.4, fill=_PALE)
    pen.oval(16.2, 7.6, 21.8, 13.2, fill=_PALE)


def _car(pen: Pen, c: Color) -> None:
    pen.poly(7, 10.5, 11.5, 1, 26, 1, 32, 10.5, fill=_shade(c, 0.8))
    pen.poly(10, 9.5, 13, 3, 18, 3, 18, 9.5, fill=(206, 232, 246, 255), line=0.7)
    pen.poly(20, 9.5, 20, 3, 25, 3, 29, 9.5, fill=(206, 232, 246, 255), line=0.7)
    pen.box(0.7, 9, 37.3, 19, fill=c, radius=3.5)
    pen.dot(35, 12.6, 1.5, (255, 240, 150, 255))
    for x in (5, 24):
        pen.oval(x, 14, x + 9.4, 23.4, fill=(60, 60, 66, 255))
        pen.dot(x + 4.7, 18.7, 2, (214, 214, 220, 255))


def _boat(pen: Pen, c: Color) -> None:
    pen.box(16.4, 1, 18.8, 27, fill=_WOOD, line=0.6)
    pen.poly(15, 3, 15, 23, 2.5, 23, fill=_PALE)
    pen.poly(20, 6, 20, 23, 32, 23, fill=_shade(c, 1.45))
    pen.poly(0.8, 25.5, 35.2, 25.5, 29, 35.2, 7, 35.2, fill=c)
    pen.stroke(4.4, 29, 31.6, 29, fill=_shade(c, 0.65), width=1.8)


def _ball(pen: Pen, c: Color) -> None:
    pen.oval(0.7, 0.7, 25.3, 25.3, fill=c)
    pen.pie(0.7, 0.7, 25.3, 25.3, start=-120, end=-60, fill=_PALE, line=0.9)
    pen.pie(0.7, 0.7, 25.3, 25.3, start=60, end=120, fill=_PALE, line=0.9)
    pen.oval(9.4, 9.4, 16.6, 16.6, fill=_shade(c, 0.65), line=0.9)


def _table(pen: Pen, c: Color) -> None:
    pen.box(3, 6, 7.5, 27.4, fill=_shade(c, 0.7))
    pen.box(30.5, 6, 35, 27.4, fill=_shade(c, 0.7))
    pen.box(0.6, 0.7, 37.4, 7.5, fill=c, radius=1.5)


def _lamp(pen: Pen, c: Color) -> None:
    pen.box(9.4, 14, 12.6, 33, fill=_GREY, line=0.8)
    pen.box(3.5, 31.4, 18.5, 35.4, fill=_GREY, radius=1.8)
    pen.poly(6, 0.8, 16, 0.8, 21.2, 16, 0.8, 16, fill=c)
    pen.dot(11, 18.4, 2.3, (255, 240, 150, 255))


def _umbrella(pen: Pen, c: Color) -> None:
    pen.stroke(18, 3, 18, 31, fill=_WOOD, width=2.4)
    pen.stroke(18, 31, 18.6, 34, 22, 34.6, 24, 32, fill=_WOOD, width=2.4)
    pen.pie(0.7, 2, 35.3, 35, start=180, end=360, fill=c)
    pen.pie(12, 2, 24, 35, start=180, end=360, fill=_shade(c, 1.45), line=0.8)
    pen.dot(18, 2, 1.5)


def _hat(pen: Pen, c: Color) -> None:
    pen.box(7, 0.7, 23, 17, fill=c, radius=3)
    pen.box(7.4, 10.4, 22.6, 14, fill=_PALE, line=0.7)
    pen.box(0.6, 14, 29.4, 19.4, fill=_shade(c, 0.8), radius=2.6)


_DRAW: dict[str, Callable[[Pen, Color], None]] = {
    "person": _person,
    "dog": _dog,
    "cat": _cat,
    "tree": _tree,
    "house": _house,
    "car": _car,
    "boat": _boat,
    "ball": _ball,
    "table": _table,
    "lamp": _lamp,
    "umbrella": _umbrella,
    "hat": _hat,
}


@lru_cache(maxsize=128)
def parts(kind: str, color: str) -> tuple[Part, ...]:
    """Return the shapes of ``kind`` in ``color``, back to front, at scale 1."""
    pen = PartsPen()
    _DRAW[kind](pen, (*COLORS[color], 255))
    return tuple(pen.parts)


def draw_parts(
    shapes: Iterable[Part],
    kind: str,
    scale: float = 1.0,
    style: str = "flat",
    strokes: int = 0,
    reach: int = 0,
) -> Image.Image:
    """RGBA drawing of ``shapes``, which stand where those of ``kind`` stand.

    ``reach`` pixels are added on every side, for shapes that leave their place.
    """
    width, height = _target(kind, scale)
    margin = np.array([reach * KINDS[kind].width / width, reach * KINDS[kind].height / height])
    size = (KINDS[kind].width + 2 * margin[0], KINDS[kind].height + 2 * margin[1])
    if style == "pencil":
        image = draw_pencil(shapes, size, margin, strokes)
    else:
        image = draw_ink(shapes, size, margin)
    return _shrunk(image, (width + 2 * reach, height + 2 * reach), scale)


def _target(kind: str, scale: float) -> tuple[int, int]:
    size = KINDS[kind]
    return max(1, round(size.width * scale)), max(1, round(size.height * scale))


def _shrunk(image: Image.Image, size: tuple[int, int], scale: float) -> Image.Image:
    return image.resize(size, Image.Resampling.BOX if scale == 1 else Image.Resampling.LANCZOS)


@lru_cache(maxsize=2048)
def sprite(
    kind: str, color: str, scale: float = 1.0, style: str = "flat", strokes: int = 0
) -> Image.Image:
    """RGBA drawing of ``kind`` in ``color``: size ``KINDS[kind]`` times ``scale``, in pixels.

    ``strokes`` picks how the hand moves, where the style has a hand.
    """
    if style != "flat":
        return draw_parts(parts(kind, color), kind, scale, style, strokes)
    pen = InkPen(KINDS[kind].width, KINDS[kind].height)
    _DRAW[kind](pen, (*COLORS[color], 255))
    return _shrunk(pen.image, _target(kind, scale), scale)


_GROUND: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], float]] = {
    "meadow": ((214, 236, 250), (196, 230, 168), 0.5),
    "beach": ((190, 228, 240), (250, 234, 190), 0.45),
    "snow": ((222, 226, 242), (255, 255, 255), 0.5),
    "room": ((250, 232, 214), (216, 184, 150), 0.72),
}
_VARIANTS = 8


@lru_cache(maxsize=64)
def _backdrop(setting: str, variant: int) -> Image.Image:
    rng = random.Random(variant)
    top, bottom, horizon = _GROUND[setting]
    zoom = 4
    side = SIZE * zoom
    image = Image.new("RGB", (side, side), top)
    draw = ImageDraw.Draw(image)
    line = round(side * horizon)
    draw.rectangle((0, line, side, side), bottom)
    for _ in range(4):
        x = rng.uniform(0, SIZE) * zoom
        if setting == "meadow":
            y = rng.uniform(0.58, 0.97) * side
            for lean in (-2, 0, 2):
                draw.line((x, y, x + lean * zoom, y - 4 * zoom), (150, 202, 120), zoom)
        elif setting == "beach":
            y = rng.uniform(0.1, 0.4) * side
            draw.line((x, y, x + 14 * zoom, y), (232, 246, 250), zoom)
        elif setting == "snow":
            y = rng.uniform(0.02, 0.98) * side
            draw.ellipse((x, y, x + 3 * zoom, y + 3 * zoom), (240, 244, 252))
        else:
            y = line + rng.uniform(0.15, 0.9) * (side - line)
            draw.line((x, y, x + 22 * zoom, y), (196, 162, 128), zoom)
    return image.resize((SIZE, SIZE), Image.Resampling.BOX)


@lru_cache(maxsize=64)
def _pencil_backdrop(setting: str, variant: int) -> Image.Image:
    return sketch(_backdrop(setting, variant), _GROUND[setting], variant)


def backdrop(setting: str, variant: int, style: str = "flat") -> Image.Image:
    """RGB background of ``setting``; ``variant`` moves its small details."""
    draw = _pencil_backdrop if style == "pencil" else _backdrop
    return draw(setting, variant % _VARIANTS).copy()

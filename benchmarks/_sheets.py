"""Sheets of pictures with words, and PNG files that stay small without wrong hues."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_INK = (30, 30, 34)
_PAPER = (255, 255, 255)

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def font(size: int) -> Font:
    """The typeface that comes with Pillow: the same on every machine."""
    return ImageFont.load_default(size)


def line_height(size: int) -> int:
    """Pixels from one line of text to the next."""
    return round(size * 1.25)


def paper(width: int, height: int) -> Image.Image:
    """An empty sheet."""
    return Image.new("RGB", (width, height), _PAPER)


def write(
    sheet: Image.Image,
    place: tuple[int, int],
    lines: Sequence[str],
    size: int,
    columns: int | None = None,
) -> None:
    """Write ``lines`` down from ``place`` (left, top), wrapped at ``columns`` characters."""
    draw = ImageDraw.Draw(sheet)
    wrapped = [
        part
        for line in lines
        for part in (textwrap.wrap(line, columns, subsequent_indent="   ") if columns else [line])
    ]
    left, top = place
    for at, line in enumerate(wrapped):
        draw.text((left, top + at * line_height(size)), line, _INK, font(size))


def paste(sheet: Image.Image, place: tuple[int, int], image: Image.Image, side: int) -> None:
    """Paste ``image``, scaled to ``side`` pixels a side, at ``place`` (left, top)."""
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    sheet.paste(image, place)


def rounded(image: Image.Image, bits: int) -> Image.Image:
    """RGB of ``image`` with ``bits`` (1–8) of every channel, at most 2^(7 − bits) off.

    It compresses as well as a palette does, but a palette loses the rare colours, and a
    picture's few small things are just those.
    """
    if not 1 <= bits <= 8:
        raise ValueError(f"bits is {bits}: use 1 to 8")
    pixels = np.asarray(image.convert("RGB"))
    lost = 8 - bits
    middle = (1 << lost) >> 1
    return Image.fromarray(((pixels >> lost) << lost) + np.uint8(middle))


def small_png(image: Image.Image, limit: int) -> bytes:
    """PNG of ``image`` below ``limit`` bytes, in 8 to 4 bits a channel, as many as fit.

    Raises ``ValueError`` if even 4 bits take more.
    """
    for bits in (8, 7, 6, 5, 4):
        buffer = io.BytesIO()
        rounded(image, bits).save(buffer, "PNG", optimize=True)
        if buffer.tell() < limit:
            return buffer.getvalue()
    raise ValueError(f"{image.width}×{image.height} pixels do not fit into {limit} bytes: ask less")

"""Pictures for people: enlarged smoothly, made small, and inlined into HTML."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from scenewright.core.images import ImageError, load_image

SHOWN_SIDE = 256
"""Longest side in CSS pixels at which the page shows a picture."""
LARGE_SIDE = 1536
"""Most pixels of the longest side of the kept picture, which the page shows large."""
INLINE_SIDE = 512
"""Longest side in pixels of an inlined picture: twice the shown one, for dense screens."""
SOURCE_SIDE = 192
"""Longest side in pixels of an inlined reference image, which is shown small."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a page can show."""

    uri: str
    """``data:`` URI, or an address on the server of the page."""
    width: int
    """Pixels of the original."""
    height: int
    """Pixels of the original."""


Show = Callable[[Path | None, int], Picture | None]
"""Makes a picture of the file and its longest side in pixels; none if the file is not there."""


def fit(image: Image.Image, side: int) -> Image.Image:
    """``image`` scaled to a longest side of ``side`` pixels, with Lanczos both ways."""
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def inline(path: Path | None, side: int = INLINE_SIDE) -> Picture | None:
    """Return the picture at ``path`` as a ``data:`` URI; none if it is missing or damaged.

    A side of more than :data:`INLINE_SIDE` is that of the file, if it is smaller. A page must be
    written for a damaged run too: it says what is missing in its place.
    """
    if path is None:
        return None
    try:
        image = load_image(path)
    except ImageError:
        return None
    if side > INLINE_SIDE:
        side = min(side, max(INLINE_SIDE, *image.size))
    buffer = io.BytesIO()
    fit(image, side).save(buffer, "WEBP", quality=90, method=4)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/webp;base64,{encoded}", image.width, image.height)


def linked(folder: str) -> Show:
    """Pictures by address: ``folder`` is the address below which they lie by content hash.

    A small one is asked for as its preview.
    """

    def show(path: Path | None, side: int) -> Picture | None:
        if path is None:
            return None
        try:
            with Image.open(path) as image:
                width, height = image.size
        except (OSError, UnidentifiedImageError, ValueError):
            return None
        address = f"{folder}/{path.stem}"
        return Picture(address if side > SHOWN_SIDE else f"{address}/preview", width, height)

    return show

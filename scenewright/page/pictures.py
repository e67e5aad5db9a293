"""Pictures for people: enlarged smoothly, made small, and inlined into HTML."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from scenewright.images import ImageError, load_image

SHOWN_SIDE = 256
"""Longest side in CSS pixels at which the page shows a picture."""
INLINE_SIDE = 512
"""Longest side in pixels of an inlined picture: twice the shown one, for dense screens."""
SOURCE_SIDE = 192
"""Longest side in pixels of an inlined reference image, which is shown small."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a page can show."""

    uri: str
    """``data:`` URI."""
    width: int
    """Pixels of the original."""
    height: int
    """Pixels of the original."""


def fit(image: Image.Image, side: int) -> Image.Image:
    """``image`` scaled to a longest side of ``side`` pixels, with Lanczos both ways."""
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def inline(path: Path | None, side: int = INLINE_SIDE) -> Picture | None:
    """The picture at ``path`` as a ``data:`` URI; none if it is missing or damaged.

    A page must be written for a damaged run too: it says what is missing in its place.
    """
    if path is None:
        return None
    try:
        image = load_image(path)
    except ImageError:
        return None
    buffer = io.BytesIO()
    fit(image, side).save(buffer, "WEBP", quality=90, method=4)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/webp;base64,{encoded}", image.width, image.height)

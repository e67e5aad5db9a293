"""Pictures of runs as files of a wanted format and size."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

from PIL import Image, PngImagePlugin

from scenewright.core.images import ImageError, load_image
from scenewright.service.core.errors import NotFound

FileFormat = Literal["png", "jpeg", "webp"]
"""What pictures are sent as."""


def picture_file(
    path: Path,
    form: FileFormat = "png",
    *,
    compression: int = 100,
    size: tuple[int, int] | None = None,
    text: str | None = None,
) -> tuple[bytes, tuple[int, int], tuple[int, int]]:
    """The file of a picture, its (width, height) in pixels, and those that it was drawn at.

    ``size``: scaled to it (Lanczos). ``compression``: quality of JPEG and WebP, 0–100. ``text``:
    kept in a PNG file under ``parameters``. A PNG that stays as it is goes as it lies there.
    Raises ``NotFound`` if it is not there.
    """
    try:
        image = load_image(path)
    except ImageError as error:
        raise NotFound(f"the picture cannot be had: {error}") from error
    same = size is None or image.size == size
    if same and form == "png" and text is None:
        return path.read_bytes(), image.size, image.size
    own = image.size
    if size is not None and not same:
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    if form == "png":
        notes = PngImagePlugin.PngInfo()
        if text is not None:
            notes.add_itxt("parameters", text)
        image.save(buffer, "PNG", pnginfo=notes)
    elif form == "jpeg":
        image.save(buffer, "JPEG", quality=compression, subsampling=0 if compression > 90 else -1)
    else:
        image.save(buffer, "WEBP", quality=compression)
    return buffer.getvalue(), image.size, own

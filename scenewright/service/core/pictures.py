"""Pictures that people send: read within limits, upright, as plain pixels without metadata.

Pictures of runs as files of a wanted format and size.
"""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from fastapi import UploadFile
from PIL import Image, PngImagePlugin

from scenewright.core.images import FORMATS, ImageError, load_image, read_image
from scenewright.core.layout import keep_outside
from scenewright.service.core.errors import NotFound, TooLarge, Unprocessable
from scenewright.service.core.settings import ServiceSettings

_DECODING = 2
"""Pictures that are decoded at once: each may take some hundred MiB for a moment."""
_DECODERS = ThreadPoolExecutor(_DECODING, thread_name_prefix="uploads")

FileFormat = Literal["png", "jpeg", "webp"]
"""Form in which pictures are sent."""


async def picture_of(upload: UploadFile, settings: ServiceSettings) -> Image.Image:
    """Return the picture of an upload: RGB, upright as its EXIF tag says, without metadata.

    Of an animated file the first frame. Raises ``TooLarge`` over the limits of ``settings``,
    ``Unprocessable`` for what is no image.
    """
    data = await upload.read(settings.upload_bytes + 1)
    return await picture_in(data, settings)


async def picture_in(
    data: bytes, settings: ServiceSettings, name: str = "the image"
) -> Image.Image:
    """As :func:`picture_of`, of the bytes of a file; errors call it ``name``."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_DECODERS, decoded, data, settings, name)


def decoded(data: bytes, settings: ServiceSettings, name: str = "the image") -> Image.Image:
    """As :func:`picture_in`, in this thread."""
    if len(data) > settings.upload_bytes:
        raise TooLarge(
            f"{name} is over {settings.upload_bytes / 2**20:.3g} MiB: scale it down or save it "
            "with more compression"
        )
    try:
        try:
            # Of the header nothing is decoded, whatever it claims.
            with Image.open(io.BytesIO(data), formats=FORMATS) as header:
                pixels = header.width * header.height
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            pixels = Image.MAX_IMAGE_PIXELS or settings.upload_pixels + 1
        if pixels > settings.upload_pixels:
            raise TooLarge(
                f"{name} says that it has {pixels} pixels or more, the limit is "
                f"{settings.upload_pixels} in all: scale it down"
            )
        found = read_image(data, name)
    except ImageError as error:
        raise Unprocessable(str(error)) from error
    except TooLarge:
        raise
    except Exception as error:
        # The decoders raise whatever their parsers meet in a file that was made to break them.
        raise Unprocessable(f"{name} is damaged: get it again or save it anew") from error
    return Image.frombytes("RGB", found.size, found.tobytes())


def picture_file(
    path: Path,
    form: FileFormat = "png",
    *,
    compression: int = 100,
    size: tuple[int, int] | None = None,
    text: str | None = None,
    kept: tuple[Path, Path] | None = None,
) -> tuple[bytes, tuple[int, int], tuple[int, int]]:
    """Return the file of a picture, its (width, height) in pixels, and those that it was drawn at.

    ``size``: scaled to it (Lanczos). ``compression``: quality of JPEG and WebP, 0–100. ``text``:
    kept in a PNG file under ``parameters``. ``kept``: the picture that a run with a mask began
    with, and the mask; what is scaled has its own pixels where that is black. A PNG that stays as
    it is goes as it lies there. Raises ``NotFound`` if it is not there.
    """
    try:
        image = load_image(path)
        own = image.size
        same = size is None or own == size
        if same and form == "png" and text is None:
            return path.read_bytes(), own, own
        if size is not None and not same:
            image = image.resize(size, Image.Resampling.LANCZOS)
            if kept is not None:
                image, _ = keep_outside(image, *(load_image(one) for one in kept))
    except ImageError as error:
        raise NotFound(f"the picture cannot be had: {error}") from error
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

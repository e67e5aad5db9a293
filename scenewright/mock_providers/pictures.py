"""Images that come as base64 data: read, measured, and refused if they are broken."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
from collections import OrderedDict
from dataclasses import dataclass

from PIL import Image

from scenewright.core.images import ImageError, to_rgb
from scenewright.mock_providers.problems import Problem

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_BYTES = 20 * 2**20
"""Largest image file."""
MAX_SIDE = 8000
"""Longest side in pixels."""
_MAX_PIXELS = 36 * 10**6
_INLINE_BYTES = 64 * 1024
_KNOWN = 8192


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a request, decoded once to be sure that it can be."""

    data: bytes
    """The file."""
    digest: bytes
    """Its SHA-256."""
    size: tuple[int, int]
    """Width and height in pixels."""

    def decoded(self) -> Image.Image:
        """Return the image as RGB."""
        return _decode(self.data)


def decode_base64(text: object, param: str) -> bytes:
    """Return the bytes of a base64 text, of the usual or of the URL-safe alphabet.

    ``Problem`` if none.
    """
    if not isinstance(text, str) or not text:
        raise Problem.image("the image holds no base64 data", param)
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        raise Problem.image(f"the image is larger than {MAX_BYTES // 2**20} MiB", param)
    if "-" in text or "_" in text:
        text = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem.image(f"the image is not valid base64: {error}", param) from None


def from_data_url(url: object, param: str) -> bytes:
    """Return the bytes of ``data:image/…;base64,…``; ``Problem`` for any other address."""
    if not isinstance(url, str) or not url.startswith("data:"):
        raise Problem.image(
            "the mock server fetches nothing: give the image as a data: URL with base64 data", param
        )
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise Problem.image("the data: URL must read data:image/png;base64,DATA", param)
    return decode_base64(data, param)


class Pictures:
    """Checks images; the sizes of those that were good are remembered by content."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    async def look(self, data: bytes, param: str | None = None) -> Picture:
        """Return the picture in ``data``; raises ``Problem`` if it is broken or too large."""
        digest = hashlib.sha256(data).digest()
        size = self._sizes.get(digest)
        if size is None:
            try:
                if len(data) <= _INLINE_BYTES:
                    size = _decode(data).size
                else:
                    size = (await asyncio.to_thread(_decode, data)).size
            except Problem as problem:
                problem.param = param
                raise
            self._sizes[digest] = size
            if len(self._sizes) > _KNOWN:
                self._sizes.popitem(last=False)
        return Picture(data, digest, size)


def _decode(data: bytes) -> Image.Image:
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if max(image.size) > MAX_SIDE or image.width * image.height > _MAX_PIXELS:
                raise Problem.image(
                    f"the image has {image.width}×{image.height} pixels: use sides of at most "
                    f"{MAX_SIDE} and {_MAX_PIXELS // 10**6} megapixels"
                )
            return to_rgb(image)
    except ImageError as error:
        raise Problem.image(str(error)) from None
    except Problem:
        raise
    except Exception as error:
        # Pillow's decoders raise whatever a broken file makes them stumble over.
        known = ", ".join(name.lower() for name in FORMATS)
        raise Problem.image(
            f"the image cannot be read ({type(error).__name__}): give a whole file of {known}"
        ) from None

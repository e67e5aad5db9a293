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

from scenewright.core.images import ImageError, read_image
from scenewright.mock_providers.problems import Problem

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_BYTES = 20 * 2**20
"""Largest image file."""
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
        return decoded(self.data)


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
            if len(data) <= _INLINE_BYTES:
                size = decoded(data, param).size
            else:
                size = (await asyncio.to_thread(decoded, data, param)).size
            self._sizes[digest] = size
            if len(self._sizes) > _KNOWN:
                self._sizes.popitem(last=False)
        return Picture(data, digest, size)


def decoded(data: bytes, param: str | None = None) -> Image.Image:
    """Return the image in a file as RGB; raises ``Problem`` if it cannot be read."""
    try:
        image = read_image(data, "the image")
    except ImageError as error:
        raise Problem.image(str(error), param) from None
    with Image.open(io.BytesIO(data)) as file:
        if file.format not in FORMATS:
            raise Problem.image(f"the image is no file of {', '.join(FORMATS)}", param)
    return image

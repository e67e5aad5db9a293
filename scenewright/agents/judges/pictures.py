"""How a picture is made ready for a judge: shrunk, encoded, bounded in bytes.

The preparation is data and part of every judge's fingerprint, so that an answer is never
taken for one to another picture. What was prepared lately is kept: several calls and several
judges of equal preparation encode a picture once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.judge import JudgeError

ImageFormat = Literal["png", "jpeg", "webp"]

_KEPT = 32
_KEPT_BYTES = 64 * 2**20
_SMALL_PIXELS = 128 * 128
_LEAST_QUALITY = 40
_LEAST_SIDE = 8


@dataclass(frozen=True, slots=True)
class ImagePreparation:
    """What is done to a picture before a judge is shown it. Raises ``JudgeError`` out of range."""

    max_side: int = 1024
    """Longest side in pixels; larger pictures are scaled down."""
    format: ImageFormat = "png"
    """File format that is sent."""
    quality: int = 92
    """Quality of a JPEG or WebP file, 1 to 100; PNG loses nothing and has none."""
    max_bytes: int = 3_750_000
    """Most bytes of the file; a larger one loses quality, then size, until it fits."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.format not in ("png", "jpeg", "webp"):
            raise JudgeError(f"image format {self.format!r}: use png, jpeg or webp")
        if self.max_side < _LEAST_SIDE or not 1 <= self.quality <= 100 or self.max_bytes < 1:
            raise JudgeError(
                f"image side {self.max_side}, quality {self.quality}, bytes {self.max_bytes}: use "
                f"a side of {_LEAST_SIDE} or more, a quality of 1 to 100 and 1 byte or more"
            )

    def shown_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Width and height of an image of ``size`` once it is prepared, if its bytes are few."""
        scale = min(1.0, self.max_side / max(size))
        return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


@dataclass(frozen=True, slots=True, repr=False)
class PreparedImage:
    """A picture as a judge is shown it."""

    data: bytes
    """The file."""
    media_type: str
    """Its MIME type."""
    width: int
    """Pixels across."""
    height: int
    """Pixels down."""

    @property
    def base64(self) -> str:
        """The file in base64, as the wire formats take it."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def key(self) -> str:
        """Name of its content for a provider's cache of prompts."""
        return hashlib.sha256(self.data).hexdigest()[:32]

    @property
    def block(self) -> dict[str, Any]:
        """The file as a content block of a LangChain message."""
        return {"type": "image", "base64": self.base64, "mime_type": self.media_type}

    def __repr__(self) -> str:
        """Size and type, without the bytes."""
        return f"PreparedImage({self.media_type}, {self.width}×{self.height}, {len(self.data)} B)"


def shrink(image: Image.Image, max_side: int) -> Image.Image:
    """``image`` as RGB, at most ``max_side`` pixels on its longer side; the given one stays.

    Raises ``ImageError`` for an image whose mode has no defined 8-bit range.
    """
    shown = image.copy() if image.mode == "RGB" else to_rgb(image)
    if max(shown.size) > max_side:
        shown.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return shown


def encode(image: Image.Image, preparation: ImagePreparation) -> PreparedImage:
    """``image`` made ready; the same pixels give the same bytes.

    Raises ``ImageError`` if it cannot be read, or not be made to fit ``max_bytes``.
    """
    shown = shrink(image, preparation.max_side)
    # A colour profile or a text of the old file would travel along.
    shown.info = {}
    quality = preparation.quality
    while True:
        data = _file(shown, preparation.format, quality)
        if len(data) <= preparation.max_bytes:
            return PreparedImage(data, f"image/{preparation.format}", shown.width, shown.height)
        side = max(shown.size)
        if preparation.format != "png" and quality > _LEAST_QUALITY:
            quality = max(_LEAST_QUALITY, quality - 15)
        elif side > _LEAST_SIDE:
            factor = min(0.9, (preparation.max_bytes / len(data)) ** 0.5)
            shown = shrink(shown, max(_LEAST_SIDE, int(side * factor)))
        else:
            raise ImageError(
                f"no {preparation.format} file of {preparation.max_bytes} bytes can hold the "
                "image: allow a judge's images more bytes"
            )


class PreparedImages:
    """The pictures prepared last; safe for many threads, which never do the same work twice."""

    def __init__(self, kept: int = _KEPT, kept_bytes: int = _KEPT_BYTES) -> None:
        """``kept``: most pictures that stay; ``kept_bytes``: most bytes of their files."""
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, ImagePreparation], Future[PreparedImage]] = (
            OrderedDict()
        )
        self.encoded = 0
        """How many pictures were encoded so far."""

    def get(self, image: Image.Image, preparation: ImagePreparation) -> PreparedImage:
        """As :func:`encode`, or what that gave before."""
        key = (_digest(image), preparation)
        with self._lock:
            future = self._found.get(key)
            mine = future is None
            if future is None:
                future = self._found[key] = Future()
                self.encoded += 1
            self._found.move_to_end(key)
        if mine:
            try:
                future.set_result(encode(image, preparation))
            except BaseException as error:
                with self._lock:
                    self._found.pop(key, None)
                future.set_exception(error)
                raise
            self._forget()
        return future.result()

    def _forget(self) -> None:
        with self._lock:
            done = [key for key, future in self._found.items() if future.done()]
            held = sum(len(self._found[key].result().data) for key in done)
            for key in done[:-1]:
                if len(self._found) <= self._kept and held <= self._kept_bytes:
                    return
                held -= len(self._found.pop(key).result().data)


_PREPARED = PreparedImages()


async def prepare(
    image: Image.Image, preparation: ImagePreparation, kept: PreparedImages | None = None
) -> PreparedImage:
    """``image`` made ready, in a thread unless it is small; ``kept``: where to look first.

    Raises ``ImageError`` as :func:`encode` does.
    """
    kept = kept or _PREPARED
    if image.width * image.height <= _SMALL_PIXELS:
        return kept.get(image, preparation)
    return await asyncio.to_thread(kept.get, image, preparation)


def _digest(image: Image.Image) -> str:
    if image.mode not in ("RGB", "L"):
        image = to_rgb(image)
    digest = hashlib.sha256(f"{image.mode} {image.width} {image.height} ".encode())
    digest.update(image.tobytes())
    return digest.hexdigest()


def _file(image: Image.Image, form: ImageFormat, quality: int) -> bytes:
    buffer = io.BytesIO()
    if form == "png":
        image.save(buffer, "PNG", optimize=False, compress_level=6)
    elif form == "jpeg":
        # Halved colours would blur the small coloured things that facts are about.
        image.save(buffer, "JPEG", quality=quality, subsampling=0, optimize=False)
    else:
        image.save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()

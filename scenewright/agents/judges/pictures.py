"""Images for judges: prepared files and the tokens that they take.

An image is scaled, encoded and bounded in bytes. The preparation is data and part of every judge's
fingerprint, so that an answer is never used for another image. The latest prepared images are
cached: several calls and several judges with equal preparation encode an image once.

Tokens of images and texts are estimated by the providers' published rules, for limits of tokens per
minute, which apply before the provider has counted, and for estimates of cost. A reply's usage has
the real numbers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Self

from PIL import Image
from pydantic import Field, model_validator

from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.judge import JudgeError
from scenewright.core.validation import FrozenModel

ImageFormat = Literal["png", "jpeg", "webp"]

_KEPT = 32
_KEPT_BYTES = 64 * 2**20
_SMALL_PIXELS = 128 * 128
_LEAST_QUALITY = 40
_LEAST_SIDE = 8


@dataclass(frozen=True, slots=True)
class ImagePreparation:
    """Preparation of an image for a judge.

    Raises ``JudgeError`` out of range.
    """

    max_side: int = 1024
    """Longest side in pixels; larger pictures are scaled down."""
    format: ImageFormat = "png"
    quality: int = 92
    """Quality of a JPEG or WebP file, 1 to 100; PNG loses nothing and has none."""
    max_bytes: int = 3_750_000
    """Most bytes of the file; a larger one is reduced in quality, then in size."""

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
        """Return width and height of an image of ``size`` after preparation, if its bytes fit."""
        scale = min(1.0, self.max_side / max(size))
        return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


@dataclass(frozen=True, slots=True, repr=False)
class PreparedImage:
    """A prepared image."""

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
        """Return size and type, without the bytes."""
        return f"PreparedImage({self.media_type}, {self.width}×{self.height}, {len(self.data)} B)"


def shrink(image: Image.Image, max_side: int) -> Image.Image:
    """Return a copy of ``image`` as RGB, at most ``max_side`` pixels on its longer side.

    Raises ``ImageError`` for an image whose mode has no defined 8-bit range.
    """
    shown = image.copy() if image.mode == "RGB" else to_rgb(image)
    if max(shown.size) > max_side:
        shown.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return shown


def encode(image: Image.Image, preparation: ImagePreparation) -> PreparedImage:
    """Prepare ``image``; the same pixels give the same bytes.

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
    """Cache of the latest prepared images; thread-safe, and no image is prepared twice at once."""

    def __init__(self, kept: int = _KEPT, kept_bytes: int = _KEPT_BYTES) -> None:
        """``kept``: most images; ``kept_bytes``: most bytes of their files."""
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, ImagePreparation], Future[PreparedImage]] = (
            OrderedDict()
        )
        self.encoded = 0
        """Number of encoded images."""

    def get(self, image: Image.Image, preparation: ImagePreparation) -> PreparedImage:
        """Return :func:`encode` of the image, cached if possible."""
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
    """Prepare ``image``, in a thread unless it is small; ``kept`` is the cache.

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


CHARACTERS_A_TOKEN = 4
"""Characters per token of text, by the providers' rule of thumb."""
TOKENS_A_FACT = 20
"""Expected output tokens of one answer, its share of reasons included."""
TOKENS_A_REPLY = 20
"""Output tokens around the answers."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """OpenAI, gpt-4o and its kin: ``base + tile · n`` over n squares of 512 pixels.

    The image is first shrunk to fit 2048 × 2048, then until its shorter side is 768 at most.
    Source: OpenAI, "Images and vision", calculating costs (1024 × 1024 takes 765 by 85 + 170).
    """

    base: int
    """Tokens of any image."""
    tile: int
    """Tokens of each square."""

    def __call__(self, width: int, height: int) -> int:
        """Return tokens of ``width`` × ``height`` pixels."""
        scale = min(1.0, 2048 / max(width, height))
        scale = min(scale, 768 / min(width, height))
        return self.base + self.tile * _cells(width * scale, 512) * _cells(height * scale, 512)


@dataclass(frozen=True, slots=True)
class Patches:
    """OpenAI, small and reasoning models: patches of 32 pixels times a factor.

    An image of more patches than ``most`` is shrunk until it is covered by whole patches.
    Source: OpenAI, "Images and vision", calculating costs (1800 × 2400 takes 1452 patches).
    """

    factor: float
    """Tokens a patch."""
    most: int = 1536
    """Most patches that are counted."""

    def __call__(self, width: int, height: int) -> int:
        """Return tokens of ``width`` × ``height`` pixels."""
        patches = _cells(width, 32) * _cells(height, 32)
        if patches > self.most:
            scale = math.sqrt(32 * 32 * self.most / (width * height))
            across, down = width * scale / 32, height * scale / 32
            if min(across, down) >= 1:
                scale *= min(math.floor(across) / across, math.floor(down) / down)
            patches = _cells(width * scale, 32) * _cells(height * scale, 32)
        return math.ceil(min(patches, self.most) * self.factor)


@dataclass(frozen=True, slots=True)
class Area:
    """Anthropic: ``width · height / 750`` after the image is shrunk to fit ``side``.

    Source: Anthropic, "Vision", image costs: what is over 1568 pixels on its longer side or
    over about 1600 tokens is scaled down first.
    """

    side: int = 1568
    """Longest side in pixels."""
    pixels: int = 750
    """Pixels a token."""
    most: int = 1600
    """Most tokens that an image takes."""

    def __call__(self, width: int, height: int) -> int:
        """Return tokens of ``width`` × ``height`` pixels."""
        scale = min(1.0, self.side / max(width, height))
        return max(1, min(self.most, math.ceil(width * scale * height * scale / self.pixels)))


@dataclass(frozen=True, slots=True)
class SquareTiles:
    """Gemini: one tile for an image of at most ``small`` on both sides, else squares of ``side``.

    Source: Google, "Understand and count tokens", multimodal tokens.
    """

    tile: int = 258
    """Tokens of a tile."""
    small: int = 384
    """Longest side in pixels of an image that takes one tile."""
    side: int = 768
    """Side of a tile in pixels."""

    def __call__(self, width: int, height: int) -> int:
        """Return tokens of ``width`` × ``height`` pixels."""
        if max(width, height) <= self.small:
            return self.tile
        return self.tile * _cells(width, self.side) * _cells(height, self.side)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Gemini 3 and later: as many tokens as the request's ``media_resolution`` says.

    Source: Google, "Media resolution" (280, 560 and 1120 tokens an image); read from a summary,
    so that the usage of a reply decides where it differs.
    """

    tokens: int
    """Tokens of any image."""

    def __call__(self, width: int, height: int) -> int:
        """Return tokens of ``width`` × ``height`` pixels."""
        return self.tokens


Rule = Tiles | Patches | Area | SquareTiles | Fixed

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "tiles-85-170": Tiles(85, 170),
        "tiles-70-140": Tiles(70, 140),
        "tiles-75-150": Tiles(75, 150),
        "tiles-2833-5667": Tiles(2833, 5667),
        "patches-1.62": Patches(1.62),
        "patches-1.72": Patches(1.72),
        "patches-2.46": Patches(2.46),
        "area-750": Area(),
        "tiles-258": SquareTiles(),
        "media-280": Fixed(280),
        "media-560": Fixed(560),
        "media-1120": Fixed(1120),
    }
)
"""The rules by name, as ``models.toml`` and the mock server use them."""


class PictureCaps(FrozenModel):
    """What a provider's model accepts of images."""

    images_per_call: int = Field(ge=1)
    """Most images that one call takes."""
    max_side: int = Field(ge=8)
    """Longest side of its images, in pixels."""
    image_format: ImageFormat
    """File format of the images that are sent."""
    image_quality: int = Field(ge=1, le=100)
    """Quality of a JPEG or WebP image."""
    image_bytes: int = Field(ge=1)
    """Most bytes of an image's file."""
    image_tokens: str
    """Name of the rule that estimates an image's tokens, of :data:`RULES`."""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if self.image_tokens not in RULES:
            raise ValueError(f"image_tokens {self.image_tokens!r}: use one of {', '.join(RULES)}")
        return self

    @property
    def preparation(self) -> ImagePreparation:
        """Preparation of images."""
        return ImagePreparation(
            self.max_side, self.image_format, self.image_quality, self.image_bytes
        )


def image_tokens(rule: str, width: int, height: int) -> int:
    """Return the tokens of a ``width`` × ``height`` pixel image (1 or more) by the named rule.

    Raises ``ValueError`` for a name that is not in :data:`RULES`.
    """
    if rule not in RULES:
        raise ValueError(f"no rule {rule!r} for the tokens of an image: use one of {list(RULES)}")
    return RULES[rule](width, height)


def character_tokens(characters: int) -> int:
    """Return the estimate ``chars/4``: a quarter of so many characters, rounded up.

    Providers name it as a rule of thumb for English; it needs no tokenizer of theirs.
    """
    return math.ceil(characters / CHARACTERS_A_TOKEN)


def text_tokens(text: str) -> int:
    """Return :func:`character_tokens` of ``text``."""
    return character_tokens(len(text))


def answer_tokens(facts: int) -> int:
    """Return the expected output tokens of that many facts."""
    return TOKENS_A_FACT * facts + TOKENS_A_REPLY


def _cells(length: float, side: int) -> int:
    # A length that scaling puts a hair above a whole number of cells takes no cell more.
    return max(1, math.ceil(round(length / side, 6)))

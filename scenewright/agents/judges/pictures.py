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
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self

from PIL import Image
from pydantic import Field, model_validator

from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.validation import FrozenModel

ImageFormat = Literal["png", "jpeg", "webp"]

_KEPT = 32
_KEPT_BYTES = 64 * 2**20
_SMALL_PIXELS = 128 * 128
_LEAST_QUALITY = 40
_LEAST_SIDE = 8
# Of a JPEG halved colours would blur the small coloured things that facts are about.
_SETTINGS: Mapping[ImageFormat, Mapping[str, Any]] = {
    "png": {"optimize": False, "compress_level": 6},
    "jpeg": {"subsampling": 0, "optimize": False},
    "webp": {"method": 4},
}


@dataclass(frozen=True, slots=True)
class ImagePreparation:
    """Preparation of an image for a judge."""

    max_side: int = 1024
    """Longest side in pixels; larger pictures are scaled down."""
    format: ImageFormat = "png"
    quality: int = 92
    """Quality of a JPEG or WebP file, 1 to 100; PNG loses nothing and has none."""
    max_bytes: int = 3_750_000
    """Most bytes of the file; a larger one is reduced in quality, then in size."""

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
    def data_url(self) -> str:
        """The file as a URL of its own."""
        return f"data:{self.media_type};base64,{self.base64}"

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
        buffer = io.BytesIO()
        shown.save(buffer, preparation.format, quality=quality, **_SETTINGS[preparation.format])
        data = buffer.getvalue()
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
        plain = image if image.mode in ("RGB", "L") else to_rgb(image)
        shape = f"{plain.mode} {plain.width} {plain.height} ".encode()
        key = (hashlib.sha256(shape + plain.tobytes()).hexdigest(), preparation)
        with self._lock:
            first = key not in self._found
            future = self._found.setdefault(key, Future())
            self._found.move_to_end(key)
            self.encoded += first
        if first:
            try:
                future.set_result(encode(image, preparation))
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._found.pop(key, None)
            with self._lock:
                done = [key for key, future in self._found.items() if future.done()]
                held = sum(len(self._found[key].result().data) for key in done)
                for key in done[:-1]:
                    if len(self._found) <= self._kept and held <= self._kept_bytes:
                        break
                    held -= len(self._found.pop(key).result().data)
        return future.result()


_PREPARED = PreparedImages()


async def prepare(
    image: Image.Image, preparation: ImagePreparation, kept: PreparedImages = _PREPARED
) -> PreparedImage:
    """Prepare ``image``, in a thread unless it is small; ``kept`` is the cache.

    Raises ``ImageError`` as :func:`encode` does.
    """
    if image.width * image.height <= _SMALL_PIXELS:
        return kept.get(image, preparation)
    return await asyncio.to_thread(kept.get, image, preparation)


CHARACTERS_A_TOKEN = 4
"""Characters per token of text, by the providers' rule of thumb."""
TOKENS_A_FACT = 20
"""Expected output tokens of one answer, its share of reasons included."""
TOKENS_A_REPLY = 20
"""Output tokens around the answers."""


def _tiles(width: int, height: int, *, base: int, tile: int) -> int:
    """OpenAI, gpt-4o and its kin: ``base + tile · n`` over n squares of 512 pixels.

    The image is first shrunk to fit 2048 × 2048, then until its shorter side is 768 at most.
    Source: OpenAI, "Images and vision", calculating costs (1024 × 1024 takes 765 by 85 + 170).
    """
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return base + tile * _cells(width * scale, 512) * _cells(height * scale, 512)


def _patches(width: int, height: int, *, factor: float, most: int = 1536) -> int:
    """OpenAI, small and reasoning models: patches of 32 pixels, each of ``factor`` tokens.

    An image of more patches than ``most`` is shrunk until it is covered by whole patches.
    Source: OpenAI, "Images and vision", calculating costs (1800 × 2400 takes 1452 patches).
    """
    patches = _cells(width, 32) * _cells(height, 32)
    if patches > most:
        scale = math.sqrt(32 * 32 * most / (width * height))
        across, down = width * scale / 32, height * scale / 32
        if min(across, down) >= 1:
            scale *= min(math.floor(across) / across, math.floor(down) / down)
        patches = _cells(width * scale, 32) * _cells(height * scale, 32)
    return math.ceil(min(patches, most) * factor)


def _area(width: int, height: int) -> int:
    """Anthropic: ``width · height / 750`` after the image is shrunk to fit 1568 pixels.

    Source: Anthropic, "Vision", image costs: what is over 1568 pixels on its longer side or
    over about 1600 tokens is scaled down first.
    """
    scale = min(1.0, 1568 / max(width, height))
    return max(1, min(1600, math.ceil(width * scale * height * scale / 750)))


RULES: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "tiles-85-170": partial(_tiles, base=85, tile=170),
        "tiles-70-140": partial(_tiles, base=70, tile=140),
        "tiles-75-150": partial(_tiles, base=75, tile=150),
        "tiles-2833-5667": partial(_tiles, base=2833, tile=5667),
        "patches-1.62": partial(_patches, factor=1.62),
        "patches-1.72": partial(_patches, factor=1.72),
        "patches-2.46": partial(_patches, factor=2.46),
        "area-750": _area,
        # Gemini: 258 tokens for an image of at most 384 pixels on both sides, else a square of
        # 768. Source: Google, "Understand and count tokens", multimodal tokens.
        "tiles-258": lambda width, height: (
            258 if max(width, height) <= 384 else 258 * _cells(width, 768) * _cells(height, 768)
        ),
        # Gemini 3 and later: as many tokens as the request's ``media_resolution`` says. Source:
        # Google, "Media resolution" (280, 560 and 1120 tokens an image); read from a summary, so
        # that the usage of a reply decides where it differs.
        "media-280": lambda width, height: 280,
        "media-560": lambda width, height: 560,
        "media-1120": lambda width, height: 1120,
    }
)
"""The rules by name, as the table of model facts and the mock server use them."""


class PictureCaps(FrozenModel):
    """Image formats and limits that a provider's model accepts."""

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
    @abstractmethod
    def judge_caps(self) -> JudgeCaps:
        """Abilities in the form of the judge protocol."""

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

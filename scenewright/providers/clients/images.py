"""Pictures of image APIs: the request and the file in a common form."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpx2

from scenewright.core.validation import cut_short
from scenewright.providers import transport
from scenewright.providers.retry import Transient, TransportError, UnusableReply, unreachable
from scenewright.providers.usage import Usage

MAX_BYTES = 64 * 2**20
"""Largest file of a picture that is taken from a provider."""

ShowPartial = Callable[[int, bytes], Awaitable[None]]
"""Takes a partial image: its number, from 0, and its file, which may be broken."""


@dataclass(frozen=True, slots=True, repr=False)
class ImageRequest:
    """A picture as it is requested from a provider; all files are PNG."""

    prompt: str
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    ratio: str = ""
    """Name of the aspect ratio, where there are names."""
    resolution: str = ""
    """Name of the resolution, likewise."""
    pictures: tuple[bytes, ...] = ()
    """Pictures to change or to refer to, the one to change first."""
    mask: bytes | None = None
    """As large as the first picture: transparent where that may change."""
    parameters: Mapping[str, str | int | bool] = field(default_factory=dict)
    """Further parameters of the provider's, such as ``quality``."""
    partial_images: int = 0
    """Most pictures that are wanted of it while it is drawn."""


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """A picture that came."""

    data: bytes
    """Its file."""
    usage: Usage
    request_id: str = ""
    """The provider's id of the request."""


def picture_of(text: str, usage: Usage) -> bytes:
    """Return the file in base64 ``text``.

    Reads a ``data:`` prefix, line breaks, the URL-safe alphabet and missing padding. Raises
    ``UnusableReply`` for anything else, saying what it is; it carries ``usage``.
    """
    data = re.sub(r"\s+|\\[rn]", "", text)
    if data[:5].casefold() == "data:":
        head, comma, data = data.partition(",")
        if not comma or not head.casefold().endswith(";base64"):
            told = f"the picture's data URL is not base64: {cut_short(head, 60)!r}"
            raise UnusableReply(told, usage)
    data = data.rstrip("=").replace("-", "+").replace("_", "/")
    if not data:
        raise UnusableReply("the picture is empty", usage)
    if (size := len(data) * 3 // 4) > MAX_BYTES:
        told = f"the picture has {size} bytes, which is more than {MAX_BYTES}"
        raise UnusableReply(told, usage, retry=False)
    if data.startswith(("http://", "https://")):
        raise UnusableReply("the picture is an address where base64 was expected", usage)
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except ValueError as error:
        told = f"the picture is not valid base64 ({error}): {cut_short(data, 40)!r}"
        raise UnusableReply(told, usage) from None


async def fetch_picture(url: str, base_url: str, usage: Usage) -> bytes:
    """Return the file at an address that a server at ``base_url`` gave; no key is sent there."""
    if url.startswith("data:"):
        return picture_of(url, usage)
    try:
        return await transport.fetch_picture(url, base_url, MAX_BYTES)
    except TransportError as error:
        again = isinstance(error.decision, Transient)
        raise UnusableReply(error.decision.reason, usage, retry=again) from None
    except (httpx2.HTTPError, OSError) as error:
        told = f"the picture could not be fetched: {unreachable(error)}"
        raise UnusableReply(told, usage) from None

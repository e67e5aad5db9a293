"""What the wires of all image APIs have in common: an order, a drawing, a client a loop."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from scenewright.providers.decisions import Decision
from scenewright.providers.sdk_wire import SdkWire
from scenewright.providers.usage import Usage
from scenewright.tools.backends.image_models import ImageCaps, Served

C = TypeVar("C")

MAX_BYTES = 64 * 2**20
"""Largest file of a picture that is taken from a provider."""


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """A picture as it is ordered from a provider; all files are PNG."""

    prompt: str
    """Its words."""
    size: Served
    """What is asked for."""
    quality: str | None = None
    """The provider's word for how much work goes into it."""
    start: bytes | None = None
    """The picture to change."""
    mask: bytes | None = None
    """As large as ``start``: transparent where that may change."""
    references: tuple[bytes, ...] = ()
    """Pictures of things to be seen in it."""

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """All of them, the one to change first."""
        return (*(() if self.start is None else (self.start,)), *self.references)


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """What came back."""

    data: bytes
    """A file."""
    usage: Usage
    """What it took."""
    request_id: str = ""
    """How the provider names the request."""


class ImageWire(SdkWire[ImageCaps, C]):
    """How one provider's model is asked for a picture; C is the client."""

    @abstractmethod
    async def draw(self, order: Order) -> Drawn:
        """One attempt. Raises ``UnusableReply`` for a refusal or a reply without a picture, or
        what the provider's SDK raises."""

    @abstractmethod
    def classify(self, error: Exception) -> Decision:
        """What an error of :meth:`draw` means; its reason holds no secret."""


def too_large(length: int) -> str:
    """Why a file of ``length`` bytes is not taken."""
    return f"the picture's file has {length} bytes or more, the limit is {MAX_BYTES}"

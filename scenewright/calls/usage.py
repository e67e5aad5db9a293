"""What a call took: tokens, images, dollars, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and images of one call, as the provider counted them."""

    tokens_in: int = 0
    """Input tokens in all, the image's and the cached ones included."""
    tokens_out: int = 0
    """Output tokens, reasoning included."""
    tokens_cached: int = 0
    """Input tokens that the provider had in its cache."""
    images: int = 0
    """Images that the provider drew."""
    image_tokens_in: int = 0
    """Those of the input tokens that are of images, where they have a price of their own."""
    image_tokens_out: int = 0
    """Those of the output tokens that are of images, likewise."""

    def __add__(self, other: Usage) -> Usage:
        """What both took together."""
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            self.images + other.images,
            self.image_tokens_in + other.image_tokens_in,
            self.image_tokens_out + other.image_tokens_out,
        )


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What one attempt of a call brought."""

    value: T
    """The provider's response."""
    usage: Usage
    """Its tokens."""
    request_id: str = ""
    """How the provider names the request; for its support and our log."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """A finished call and its account."""

    value: T
    """The provider's response."""
    usage: Usage
    """Tokens of all its replies, one of no use included."""
    usd: float
    """Their price; 0 for a model without a known one."""
    seconds: float
    """Duration of the attempt that succeeded."""
    attempts: int
    """How often it was sent; 1: at once."""
    waited: float
    """Seconds it stood in line for the limits and between attempts."""

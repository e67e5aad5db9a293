"""What a call took: tokens, images, dollars, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import AIMessage

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
    tokens_written: int = 0
    """Input tokens that the provider put into its cache, where that has a price of its own."""

    def __add__(self, other: Usage) -> Usage:
        """What both took together."""
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            self.images + other.images,
            self.image_tokens_in + other.image_tokens_in,
            self.image_tokens_out + other.image_tokens_out,
            self.tokens_written + other.tokens_written,
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


@dataclass(frozen=True, slots=True)
class Expected:
    """What calls are expected to take, before any is made."""

    calls: int = 0
    """How many."""
    usage: Usage = Usage()
    """Their tokens and images, by the providers' published rules."""
    usd: float | None = 0.0
    """Their price; None if it is not known."""

    def __add__(self, other: Expected) -> Expected:
        """Both together; one unknown price makes the sum unknown."""
        unknown = self.usd is None or other.usd is None
        return Expected(
            self.calls + other.calls,
            self.usage + other.usage,
            None if unknown else (self.usd or 0.0) + (other.usd or 0.0),
        )

    def __mul__(self, times: float) -> Expected:
        """So many times of it; counts are rounded."""

        def some(count: int) -> int:
            return round(count * times)

        usage = self.usage
        return Expected(
            some(self.calls),
            Usage(
                some(usage.tokens_in),
                some(usage.tokens_out),
                some(usage.tokens_cached),
                some(usage.images),
                some(usage.image_tokens_in),
                some(usage.image_tokens_out),
                some(usage.tokens_written),
            ),
            None if self.usd is None else self.usd * times,
        )


_WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Tokens written to a provider's cache; LangChain tells them in all or by how long they stay."""


def usage_of(message: AIMessage) -> Usage:
    """The tokens of a message, as LangChain counts them for every provider."""
    found = message.usage_metadata
    if found is None:
        return Usage()
    details: Any = found.get("input_token_details") or {}
    cached = details.get("cache_read") or 0
    return Usage(
        int(found["input_tokens"]),
        int(found["output_tokens"]),
        int(cached),
        tokens_written=sum(int(details.get(key) or 0) for key in _WRITTEN),
    )

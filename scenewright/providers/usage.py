"""Usage and cost of calls: tokens, images, seconds, dollars, and the table of prices.

A composer or a chat model returns text without usage; the node that called it meters it::

    with metered() as spent:
        prompt = await composer.compose(scene, seed)
    spent.usd, spent.usage.tokens_in

Prices are a dated table that users can override. An unknown price is never guessed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field
from datetime import date
from operator import add
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from langchain_core.messages import AIMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.providers.known_models import best_key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and images of one call, as the provider counted them."""

    tokens_in: int = 0
    """All input tokens, images' and cached ones included."""
    tokens_out: int = 0
    """Output tokens, reasoning included."""
    tokens_cached: int = 0
    """Input tokens that the provider had in its cache."""
    images: int = 0
    """Generated images."""
    image_tokens_in: int = 0
    """Input tokens of images, where they have a price of their own."""
    image_tokens_out: int = 0
    """Output tokens of images, where they have a price of their own."""
    tokens_written: int = 0
    """Input tokens that the provider put into its cache, where that has a price of its own."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """Reply to one attempt of a call."""

    value: T
    """The provider's response."""
    usage: Usage
    """Its tokens."""
    request_id: str = ""
    """The provider's id of the request, for its support and our log."""


@dataclass(frozen=True, slots=True)
class CallResult(Generic[T]):
    """A finished call with its usage."""

    value: T
    """The provider's response."""
    usage: Usage
    """Tokens of all its replies, unusable ones included."""
    usd: float
    """Their price; 0 for a model without a known one."""
    seconds: float
    """Duration of the attempt that succeeded."""
    attempts: int
    """Number of attempts."""
    waited: float
    """Seconds of waiting in line and between attempts."""


@dataclass(frozen=True, slots=True)
class ExpectedUsage:
    """Expected usage of calls, before any is made."""

    calls: int = 0
    """Number of calls."""
    usage: Usage = Usage()
    """Their tokens and images, by the providers' published rules."""
    usd: float | None = 0.0
    """Their price; None if unknown."""

    def __add__(self, other: ExpectedUsage) -> ExpectedUsage:
        """Return both together; one unknown price makes the sum unknown."""
        unknown = self.usd is None or other.usd is None
        return ExpectedUsage(
            self.calls + other.calls,
            self.usage + other.usage,
            None if unknown else (self.usd or 0.0) + (other.usd or 0.0),
        )

    def __mul__(self, times: float) -> ExpectedUsage:
        """Return it ``times`` times, counts rounded."""
        return ExpectedUsage(
            round(self.calls * times),
            Usage(*(round(count * times) for count in astuple(self.usage))),
            None if self.usd is None else self.usd * times,
        )


_WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Keys of tokens written to a provider's cache; LangChain reports them in total or by lifetime."""


def usage_of(message: AIMessage) -> Usage:
    """Return the tokens of a message, as LangChain counts them for every provider."""
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


@dataclass(slots=True)
class Meter:
    """Usage counted so far."""

    usage: Usage = field(default_factory=Usage)
    """Tokens of all calls, lost ones included."""
    usd: float = 0.0
    """Their price."""
    calls: int = 0
    """Finished calls."""
    seconds: float = 0.0
    """Summed seconds of their attempts."""


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("scenewright_meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the calls of this task and its subtasks; may be nested."""
    meter = Meter()
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def count(usage: Usage, usd: float, seconds: float) -> None:
    """Add a finished call to all meters around this task."""
    for meter in _METERS.get():
        meter.usage = meter.usage + usage
        meter.usd += usd
        meter.calls += 1
        meter.seconds += seconds


BUILT_IN = Path(__file__).with_name("prices.toml")

_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PriceError(ValueError):
    """A file of prices that cannot be used; names the file and the key."""


class Price(BaseModel):
    """Price of a model's tokens, in US dollars per million, and of its images, in dollars each.

    Prices of tokens may be left out where images have a price; they are 0 then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: _Dollars
    """Tokens sent."""
    cached: _Dollars | None = None
    """Tokens sent that the provider had in its cache; None: as ``input``."""
    cache_write: _Dollars | None = None
    """Tokens sent that the provider put into its cache; None: as ``input``."""
    output: _Dollars
    """Tokens received, reasoning included."""
    image_input: _Dollars | None = None
    """Tokens sent that are of images; None: as ``input``. Those in the cache count as text's."""
    image_output: _Dollars | None = None
    """Tokens received that are of images; None: as ``output``."""
    image: _Dollars = 0.0
    """Each image drawn, in dollars (not per million), on top of its tokens."""
    as_of: date
    """Day on which this was the price."""
    source: str = ""
    """Where it was published."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_image(cls, value: Any) -> Any:
        return {"input": 0.0, "output": 0.0, **value} if "image" in value else value

    def usd(self, usage: Usage) -> float:
        """Return the dollars for ``usage``.

        Cached, written and image tokens are included in the total tokens.
        """
        cached = min(usage.tokens_cached, usage.tokens_in)
        written = min(usage.tokens_written, usage.tokens_in - cached)
        seen = min(usage.image_tokens_in, usage.tokens_in - cached - written)
        drawn = min(usage.image_tokens_out, usage.tokens_out)
        return (
            (usage.tokens_in - cached - written - seen) * self.input
            + cached * _or(self.cached, self.input)
            + written * _or(self.cache_write, self.input)
            + seen * _or(self.image_input, self.input)
            + (usage.tokens_out - drawn) * self.output
            + drawn * _or(self.image_output, self.output)
        ) / 1e6 + usage.images * self.image


class PriceTable:
    """Prices by ``provider:model``, from one or more files."""

    def __init__(self, *layers: Mapping[str, Price]) -> None:
        """``layers``: name or beginning of one with ``*`` → price; later layers go before."""
        self._layers: Sequence[Mapping[str, Price]] = layers[::-1]

    @classmethod
    def load(cls, *overrides: Path) -> PriceTable:
        """Return the built-in table, and ``overrides`` before it, the last one first.

        The first file that names a model decides, in it the longest name that fits. Raises
        ``PriceError`` that names the file and the key.
        """
        return cls(*(_read(path) for path in (BUILT_IN, *overrides)))

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model, None if unknown."""
        name = f"{provider}:{model}"
        for layer in self._layers:
            key = best_key(layer, name)
            if key is not None:
                return layer[key]
        return None

    def usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """Return the dollars for ``usage`` of a model, None if its price is unknown."""
        price = self.price(provider, model)
        return None if price is None else price.usd(usage)


def _or(price: float | None, other: float) -> float:
    return other if price is None else price


def _read(path: Path) -> dict[str, Price]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PriceError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PriceError(f"{path} is not valid TOML: {error}") from error
    prices: dict[str, Price] = {}
    for name, entry in found.items():
        provider, colon, model = name.partition(":")
        if not (provider and colon and model) or "*" in name[:-1]:
            raise PriceError(
                f'{path}: [{name}] is not a model: write ["provider:model"], '
                "with * at the end for all that begin so"
            )
        if not isinstance(entry, dict):
            raise PriceError(
                f"{path}: {name} = {entry!r} is not a price: it must be a table of prices"
            )
        try:
            prices[name] = Price(**entry)
        except ValidationError as error:
            wrong = error.errors()[0]
            key = ".".join(map(str, wrong["loc"]))
            raise PriceError(
                f'{path}: ["{name}"] {key}: {wrong["msg"]}. An entry has input and output, or '
                "image, and as_of (a date), and may have cached, cache_write, image_input, "
                "image_output, source"
            ) from error
    return prices

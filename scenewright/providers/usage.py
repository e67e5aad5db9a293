"""Usage and cost of calls: tokens, images, seconds, dollars, and the table of prices.

A composer or a chat model returns text without usage; the node that called it meters it::

    with metered() as spent:
        prompt = await composer.compose(scene, seed)
    spent.usd, spent.usage.tokens_in

Prices are a dated table that users can override. An unknown price is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field
from datetime import date
from operator import add
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from scenewright.core.errors import ScenewrightError
from scenewright.core.user_files import read_user_toml
from scenewright.core.validation import FrozenModel, first_problem
from scenewright.providers.model_facts import best_key, model_facts, undated

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

    def add(self, usage: Usage, usd: float, seconds: float) -> None:
        """Count a finished call."""
        self.usage += usage
        self.usd += usd
        self.calls += 1
        self.seconds += seconds


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set ``variable`` for this task and its subtasks, for the length of the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("scenewright_meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the calls of this task and its subtasks; may be nested."""
    meter = Meter()
    with within(_METERS, (*_METERS.get(), meter)):
        yield meter


def count(usage: Usage, usd: float, seconds: float) -> None:
    """Add a finished call to all meters around this task."""
    for meter in _METERS.get():
        meter.add(usage, usd, seconds)


_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PriceError(ScenewrightError, ValueError):
    """A file of prices that cannot be used; names the file and the key."""


class Price(FrozenModel):
    """Price of a model's tokens, in US dollars per million, and of its images, in dollars each.

    Prices of tokens may be left out where images have a price; they are 0 then.
    """

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
    """Place of publication."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_image(cls, value: Any) -> Any:
        by_image = isinstance(value, Mapping) and "image" in value
        return {"input": 0.0, "output": 0.0, **value} if by_image else value

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
        rows = model_facts().rows("price")
        built_in = {name: Price.model_validate(row) for name, row in rows.items()}
        layers = [built_in]
        for path in overrides:
            read = read_user_toml(path, PriceError)
            try:
                layers.append(_PRICES.validate_python(read))
            except ValidationError as error:
                raise PriceError(
                    f'{path}: {first_problem(error)}. Write ["provider:model"], with * at the end '
                    "for all that begin so; an entry has input and output, or image, and as_of (a "
                    "date), and may have cached, cache_write, image_input, image_output, source"
                ) from error
        return cls(*layers)

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model, None if unknown.

        A model with a date at the end of its name costs what the model without does.
        """
        name = f"{provider}:{model}"
        for asked in (name, undated(name)):
            for layer in self._layers:
                key = best_key(layer, asked)
                if key is not None:
                    return layer[key]
        return None

    def usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """Return the dollars for ``usage`` of a model, None if its price is unknown."""
        price = self.price(provider, model)
        return None if price is None else price.usd(usage)


def _or(price: float | None, other: float) -> float:
    return other if price is None else price


_PRICES = TypeAdapter(
    dict[Annotated[str, StringConstraints(pattern=r"^[^:*]+:([^*]+\*?|\*)$")], Price]
)

"""What tokens and images cost: a dated table that users can override.

An unknown price is never guessed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.providers.model_table import best_key
from scenewright.providers.usage import Usage

BUILT_IN = Path(__file__).with_name("prices.toml")

_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PriceError(ValueError):
    """A file of prices that cannot be used; names the file and the key."""


class Price(BaseModel):
    """Price of a model's tokens, in US dollars per million, and of its images, in dollars each.

    With a price of images that of tokens may be left out: it is 0 then.
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
        """Dollars for ``usage``; its cached and written tokens and its images' are part of the
        others."""
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
        """The built-in table, and ``overrides`` before it, the last one first.

        The first file that names a model decides, in it the longest name that fits. Raises
        ``PriceError`` that names the file and the key.
        """
        return cls(*(_read(path) for path in (BUILT_IN, *overrides)))

    def price(self, provider: str, model: str) -> Price | None:
        """The price of a model, None if unknown."""
        name = f"{provider}:{model}"
        for layer in self._layers:
            key = best_key(layer, name)
            if key is not None:
                return layer[key]
        return None

    def usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """Dollars for ``usage`` of a model, None if its price is unknown."""
        price = self.price(provider, model)
        return None if price is None else price.usd(usage)

    def as_of(self, provider: str, model: str) -> date | None:
        """The day on which a model's price was right, None if it is unknown."""
        price = self.price(provider, model)
        return None if price is None else price.as_of


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
                f'{path}: [{name}] is no model: write ["provider:model"], '
                "with * at the end for all that begin so"
            )
        if not isinstance(entry, dict):
            raise PriceError(f"{path}: {name} = {entry!r} is no price: it is a table of prices")
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

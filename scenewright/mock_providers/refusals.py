"""Refusals of the providers, from ``refusals.toml``: models, efforts and parameters.

Only models of the providers are checked; those of the mock itself take everything. The table names
its sources and knows nothing of the facts by which the package's clients ask.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scenewright.mock_providers.problems import Problem

Place = Literal[
    "chat", "responses", "messages", "gemini", "images", "edits", "decisions", "gemini decisions",
    "systemone",
]  # fmt: skip
"""A format: what refuses depends on it."""
Provider = Literal["openai", "anthropic", "gemini"]
_PROVIDERS: Mapping[Place, Provider] = {"messages": "anthropic", "gemini": "gemini"}
_SIZE = re.compile(r"(\d+)x(\d+)")


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    """A document, an SDK's file or a thread."""


class Served(_Row):
    """Models that a provider serves, all of them by their full names."""

    provider: Provider
    names: frozenset[str]


class Retired(Served):
    """Models that are gone from a day on."""

    date: datetime.date


class Effort(_Row):
    """The efforts of reasoning that models accept."""

    models: tuple[str, ...]
    """Patterns of names, as in all rows."""
    accepts: tuple[str, ...]
    """None: the models do not reason."""
    not_in_chat: tuple[str, ...] = ()
    """Efforts that only the Responses API takes."""
    default: str


class Sides(BaseModel):
    """Limits of a picture's size."""

    multiple: int
    longest: int
    ratio: float
    least: int
    most: int

    def fit(self, size: str) -> bool:
        """Whether a picture of ``size``, such as 1024x1024, is drawn."""
        found = _SIZE.fullmatch(size)
        if found is None:
            return size == "auto"
        short, long = sorted(map(int, found.groups()))
        whole = short % self.multiple == 0 and long % self.multiple == 0
        shape = short > 0 and long <= self.longest and long <= self.ratio * short
        return whole and shape and self.least <= short * long <= self.most


class Refusal(_Row):
    """A field that models refuse."""

    at: tuple[Place, ...]
    models: tuple[str, ...]
    field: str
    """Its path in the body, with dots."""
    allowed: tuple[Any, ...] = ()
    """Values that are taken all the same."""
    holds: str = ""
    """The field is a list; it is refused if it holds this."""
    sides: Sides | None = None
    """The field is a size; it is refused outside of these limits."""
    thinking: bool = False
    """Only while the model reasons: by the effort of the request, or its own."""
    beside: Mapping[str, tuple[str, ...]] = Field(default={}, alias="with")
    """Other fields that must stand beside it, and their values."""
    unless: Mapping[str, tuple[Any, ...]] = {}
    """Other fields that let it pass, and their values."""
    message: str
    """In the provider's words."""
    param: str | None = None
    """The field that the provider names, if it is another one."""
    code: str | None = None

    def refuses(self, body: Mapping[str, Any]) -> bool:
        """Whether the body of a request holds what is refused."""
        value = _at(body, self.field)
        if value in (None, []) or value in self.allowed:
            return False
        if self.holds and not (isinstance(value, list) and self.holds in value):
            return False
        if self.sides is not None and self.sides.fit(str(value)):
            return False
        if any(_at(body, field) in values for field, values in self.unless.items()):
            return False
        return all(_at(body, field) in values for field, values in self.beside.items())


class Fields(_Row):
    """All fields that a format knows."""

    at: tuple[Place, ...]
    names: frozenset[str]
    message: str
    """Refusal of another field, in the provider's words."""


class Table(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judges: Mapping[str, str]
    """Pattern of a name → the mock's model that looks at images for it, the first that fits."""
    generators: Mapping[str, str]
    """Pattern of a name → the mock's model that draws for it."""
    aspect_ratios: Mapping[str, tuple[int, int]]
    """Names of Gemini's aspect ratios → size in pixels: an eighth of the provider's own at 1K."""
    resolutions: Mapping[str, int]
    """Names of Gemini's resolutions → factor of the size."""
    serves: tuple[Served, ...]
    retired: tuple[Retired, ...]
    effort: tuple[Effort, ...]
    refusal: tuple[Refusal, ...]
    form: tuple[Refusal, ...]
    """Fields that a format refuses whatever the model is."""
    fields: tuple[Fields, ...]


@cache
def table() -> Table:
    """Return what ``refusals.toml`` holds."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return Table.model_validate(tomllib.loads(text))


def check_form(place: Place, body: Mapping[str, Any]) -> None:
    """Raise ``Problem`` for a field that the format does not know or refuses for all models."""
    for known in table().fields:
        if place in known.at and (others := [name for name in body if name not in known.names]):
            raise Problem.invalid(known.message.format(field=others[0]), others[0])
    for row in table().form:
        if place in row.at and row.refuses(body):
            raise Problem.invalid(row.message, row.field)


def check(place: Place, model: str, body: Mapping[str, Any], today: datetime.date) -> None:
    """Raise ``Problem`` for a model that the provider does not serve, or a field that it refuses.

    A name with a slash is that of a router: any provider may serve it.
    """
    name = model.rpartition("/")[2]
    retired = [row for row in table().retired if name in row.names]
    known = {row.provider for row in (*table().serves, *retired) if name in row.names}
    if not known or ("/" not in model and _PROVIDERS.get(place, "openai") not in known):
        raise Problem("unknown_model", 404, model, param="model")
    if any(row.date <= today for row in retired):
        raise Problem("retired_model", 404, model, param="model")
    thinks = _check_effort(place, name, body)
    for row in table().refusal:
        if place not in row.at or (row.thinking and not thinks) or not _fits(name, row.models):
            continue
        if row.refuses(body):
            value, allowed = _at(body, row.field), _listed(row.allowed)
            told = row.message.format(model=name, value=value, allowed=allowed)
            raise Problem("invalid", 400, told, param=row.param or row.field, code=row.code)


def _check_effort(place: Place, model: str, body: Mapping[str, Any]) -> bool:
    """Return whether the model reasons; raises ``Problem`` for an effort that it refuses."""
    row = next((one for one in table().effort if _fits(model, one.models)), None)
    if row is None or place not in ("chat", "responses"):
        return False
    chat = place == "chat"
    param = "reasoning_effort" if chat else "reasoning.effort"
    effort = _at(body, param)
    if effort is None:
        return row.default != "none"
    if not row.accepts:
        told = f"Unsupported parameter: '{param}' is not supported with this model."
        raise Problem("invalid", 400, told, param=param, code="unsupported_parameter")
    accepted = tuple(one for one in row.accepts if not (chat and one in row.not_in_chat))
    if effort not in accepted:
        told = (
            f"Unsupported value: '{param}' does not support '{effort}' with this model."
            if chat
            else f"Unsupported value: '{effort}' is not supported with the '{model}' model."
        )
        listed = f"{told} Supported values are: {_listed(accepted)}."
        raise Problem("invalid", 400, listed, param=param, code="unsupported_value")
    return effort != "none"


def _fits(model: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in patterns)


def _at(body: Mapping[str, Any], path: str) -> object:
    found: object = body
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _listed(values: tuple[Any, ...]) -> str:
    """Return ``'low', 'medium', and 'high'``."""
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"

"""Replies and errors of the mock server as data, in the form of each provider.

Replies are the shapes of ``shapes.toml``, filled with values; the providers' words, the shapes of
their errors and their headers are in ``problems.toml``.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Json

ABSENT: Any = object()
"""Value of a field that is left out."""
_ALONE = re.compile(r"\{(\w+)\}")


def fill(shape: Any, values: Mapping[str, Any]) -> Any:
    """Return ``shape`` with ``values``: ``"{name}"`` is one itself, within a text its words."""
    match shape:
        case dict():
            filled = {fill(key, values): fill(one, values) for key, one in shape.items()}
            return {key: one for key, one in filled.items() if one is not ABSENT}
        case list():
            return [fill(one, values) for one in shape]
        case str() if alone := _ALONE.fullmatch(shape):
            return values[alone[1]]
        case str():
            return shape.format_map(values)
    return shape


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("shapes.toml").read_text(encoding="utf-8")
    return {
        provider: {name: json.loads(shape) for name, shape in shapes.items()}
        for provider, shapes in tomllib.loads(text).items()
    }


def shaped(provider: str, name: str, /, **values: Any) -> Any:
    """Return the shape ``name`` of ``provider`` with ``values``."""
    return fill(_shapes()[provider][name], values)


ProblemKind = Literal[
    "invalid", "image", "unknown_model", "retired_model", "no_route", "too_large", "rate_limited",
    "server", "overloaded", "moderated",
]  # fmt: skip
LimitKind = Literal["requests", "tokens", "concurrent"]
Left = tuple[str, int, int]
"""Name of a limit, the limit, and the rest of it."""


@dataclass(eq=False)
class Problem(Exception):
    """A request that gets an error."""

    kind: ProblemKind
    status: int
    """HTTP status."""
    message: str
    """Message for the sender; of a model its name."""
    param: str | None = None
    """The field at fault."""
    code: str | None = None
    """OpenAI's word for it."""
    limit: LimitKind = "requests"
    """Of ``rate_limited``: which limit."""
    allowed: int | None = None
    """Most that the limit allows."""
    retry_after: float = 0.0
    """Seconds after which the same request would be let in, if nothing else comes."""

    def __str__(self) -> str:
        return self.message

    @classmethod
    def invalid(cls, message: str, param: str | None = None) -> Problem:
        """Return a request that makes no sense."""
        return cls("invalid", 400, message, param=param)

    @classmethod
    def image(cls, message: str, param: str | None = None) -> Problem:
        """Return an image that is missing or cannot be read."""
        return cls("image", 400, message, param=param)

    @classmethod
    def server(cls, message: object) -> Problem:
        """Return a failure of a model or of the server."""
        return cls("server", 500, str(message))

    @classmethod
    def unknown_model(cls, model: str) -> Problem:
        """Return a request for a model that is not there."""
        return cls("unknown_model", 404, model, param="model")

    @classmethod
    def rate_limited(
        cls, retry_after: float, limit: LimitKind = "requests", allowed: int | None = None
    ) -> Problem:
        """Return a request over a limit."""
        told = None, None, limit, allowed, retry_after
        return cls("rate_limited", 429, "rate limited", *told)


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Words(_Row):
    """A provider's words for a kind of problem."""

    message: str = "{message}"
    """Text, with what stands in braces filled in."""
    allowed: str = ""
    """Part of the text where the bound of a limit is known."""
    type: str = ""
    """The provider's word for the kind; empty: as for most."""
    code: str | None = None
    """OpenAI's code."""
    details: Json[Any] = None
    """Details beside the text; of a field only where one is named."""


class Language(_Row):
    """The errors and headers of one provider."""

    source: str
    type: str = ""
    """Of a kind that has no other."""
    names_param: bool = False
    """Whether the text begins with the field at fault."""
    error: Json[Any]
    """Shape of an error."""
    limits: Mapping[str, str] = {}
    """Limit → its name."""
    kinds: Mapping[ProblemKind, Words] = {}
    headers: Mapping[str, str] = {}
    """Headers of all replies."""
    limit_headers: Mapping[str, str] = {}
    """Headers for each limit of an account."""
    wait_headers: Mapping[str, str] = {}
    """Headers of a request over a limit."""

    def body(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the body of an error."""
        row, param = self.kinds.get(problem.kind, Words()), problem.param or ""
        known = problem.allowed is not None
        values: dict[str, Any] = {
            "id": id,
            "status": problem.status,
            "message": problem.message,
            "param": problem.param,
            "code": problem.code or row.code,
            "unit": "tokens" if problem.limit == "tokens" else "requests",
            "kind": problem.limit,
            "limit": self.limits.get(problem.limit),
            "bound": str(problem.allowed) if known else ABSENT,
            "allowed": row.allowed.format(problem.allowed) if known else "",
            "wait": _whole_seconds(problem),
        }
        said = row.message.format_map(values)
        if self.names_param and problem.kind in ("invalid", "image"):
            said = said if said.startswith(param) else f"{param}: {said}"
        values |= {"message": said, "type": (row.type or self.type).format_map(values)}
        shown = row.details if param or problem.kind == "rate_limited" else None
        values["details"] = ABSENT if shown is None else fill(shown, values)
        body: dict[str, Any] = fill(self.error, values)
        return body

    def headers_of(
        self, id: str, problem: Problem | None, limits: Sequence[Left]
    ) -> dict[str, str]:
        """Return the headers of a response or an error."""
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
        reset = later.strftime("%Y-%m-%dT%H:%M:%SZ")
        found = fill(self.headers, {"id": id})
        for name, limit, left in limits:
            told = {"name": name, "limit": limit, "left": left, "reset": reset}
            found |= fill(self.limit_headers, told)
        if problem is not None and problem.kind == "rate_limited":
            found |= fill(self.wait_headers, {"wait": _whole_seconds(problem)})
        return {name: str(value) for name, value in found.items()}


@cache
def language(provider: str) -> Language:
    """Return the errors and headers of ``provider`` in ``problems.toml``."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return Language.model_validate(tomllib.loads(text)[provider])


def _whole_seconds(problem: Problem) -> int:
    """Seconds for a Retry-After: rounded up, at least 1."""
    return max(1, math.ceil(problem.retry_after))

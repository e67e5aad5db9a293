"""Errors of the mock server, in the form of each provider.

The providers' words are in ``problems.toml``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

ProblemKind = Literal[
    "invalid", "image", "unknown_model", "retired_model", "no_route", "too_large", "rate_limited",
    "server", "overloaded",
]  # fmt: skip


class Problem(Exception):
    """A request that gets an error; ``str()`` is the message for its sender."""

    def __init__(
        self,
        kind: ProblemKind,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        limit: str = "requests",
        allowed: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Describe a refusal with the HTTP ``status``; ``param`` is the field at fault.

        ``code``: OpenAI's word for it. Of a model the message is its name.

        ``limit``, ``allowed``, ``retry_after`` (seconds): for ``rate_limited``.
        """
        super().__init__(message)
        self.kind: ProblemKind = kind
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.limit = limit
        self.allowed = allowed
        self.retry_after = retry_after

    @classmethod
    def invalid(cls, message: str, param: str | None = None) -> Problem:
        """Return a request that makes no sense."""
        return cls("invalid", 400, message, param=param)

    @classmethod
    def image(cls, message: str, param: str | None = None) -> Problem:
        """Return an image that is missing or cannot be read."""
        return cls("image", 400, message, param=param)


class Words(BaseModel):
    """A provider's words for a kind of problem."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: str = "{message}"
    """Text, with what stands in braces filled in."""
    allowed: str = ""
    """Part of the text where the bound of a limit is known."""
    type: str = ""
    """The provider's word for the kind; empty: as for most."""
    code: str | None = None
    """OpenAI's code."""


class Language(BaseModel):
    """The words of one provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    type: str
    """Of a kind that has no other."""
    limits: Mapping[str, str]
    """Limit → its name."""
    kinds: Mapping[ProblemKind, Words]

    def tell(self, problem: Problem) -> Words:
        """Return the words for ``problem``, filled in."""
        row = self.kinds.get(problem.kind, Words())
        message = row.message.format(
            message=problem.message,
            limit=self.limits[problem.limit],
            allowed="" if problem.allowed is None else row.allowed.format(problem.allowed),
            wait=whole_seconds(problem.retry_after),
        )
        unit = "tokens" if problem.limit == "tokens" else "requests"
        kind = (row.type or self.type).format(unit=unit)
        return Words(message=message, type=kind, code=problem.code or row.code)


@cache
def language(provider: str) -> Language:
    """Return the words of ``provider`` in ``problems.toml``."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return Language.model_validate(tomllib.loads(text)[provider])


def whole_seconds(seconds: float | None) -> int:
    """Seconds for a Retry-After: rounded up, at least 1."""
    return max(1, math.ceil(seconds or 0.0))

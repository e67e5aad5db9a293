"""What the mock server has to say when it cannot answer; each provider says it in its own form."""

from __future__ import annotations

from typing import Literal

ProblemKind = Literal[
    "invalid", "image", "unknown_model", "no_route", "too_large", "rate_limited", "server",
    "overloaded",
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
        limit: str = "requests",
        allowed: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Describe a refusal with the HTTP ``status``; ``param`` is the field at fault.

        ``limit``, ``allowed``, ``retry_after`` (seconds): for ``rate_limited``.
        """
        super().__init__(message)
        self.kind: ProblemKind = kind
        self.status = status
        self.message = message
        self.param = param
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

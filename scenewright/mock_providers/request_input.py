"""What a request brings with it: its body, its API key, its connection; and its visit, once it is
let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from scenewright.mock_providers.accounts import Account, Refusal
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.pictures import MAX_BYTES
from scenewright.mock_providers.problems import Problem

MAX_BODY = 2 * MAX_BYTES
"""Largest body of a request, bytes."""
Finish = Callable[[Fault | None], Awaitable[tuple[Any, int]]]
"""Makes the answer with its fault: JSON, bytes or a ``Problem``, and the output tokens."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that was let in."""

    request: Request
    """As it came."""
    body: bytes | None
    """Its body; none if that is too large."""
    account: Account
    """Whose it is."""
    entry: list[float]
    """Its place in the account's window."""
    received: float
    """When its body was there, by the monotonic clock."""
    chance: Chance
    """What is random about it."""

    def charge(self, tokens: int) -> None:
        """Count its input tokens; raises ``Problem`` if they are over the account's limit."""
        refusal = self.account.charge(self.entry, tokens, self.received)
        if refusal is not None:
            raise rate_limited(refusal)


Prepare = Callable[[Visit], Awaitable[Finish]]
"""Reads what was let in; raises ``Problem`` for what cannot be served."""


def api_key(request: Request) -> str:
    """The API key of a request, wherever a provider's SDK puts it; empty if there is none."""
    headers = request.headers
    given = headers.get("x-api-key") or headers.get("x-goog-api-key")
    if not given:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else ""
    return given or request.query_params.get("key", "")


async def read_body(request: Request) -> bytes | None:
    """The body; none if it is larger than ``MAX_BODY``. ``ConnectionError`` if it breaks off."""
    parts: list[bytes] = []
    length = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client has left")
        part = message.get("body", b"")
        length += len(part)
        # What is too large is read to its end, so that the sender gets to see the answer.
        if length <= MAX_BODY:
            parts.append(part)
        elif length > 8 * MAX_BODY:
            return None
        if not message.get("more_body"):
            return b"".join(parts) if length <= MAX_BODY else None


def json_object(body: bytes | None) -> dict[str, Any]:
    """The JSON object in a body of :func:`read_body`; raises ``Problem``."""
    if body is None:
        raise Problem("too_large", 413, f"the request is larger than {MAX_BODY >> 20} MiB")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Problem.invalid("the body of the request is not a JSON object")
    return parsed


def transport_of(request: Request) -> asyncio.Transport | None:
    """The connection; none if the server does not tell."""
    found: asyncio.Transport | None = request.scope.get("state", {}).get("transport")
    return found


def gone(request: Request) -> bool:
    """Whether the client has left."""
    transport = transport_of(request)
    return transport is not None and transport.is_closing()


def abort(request: Request) -> None:
    """Drop the connection."""
    transport = transport_of(request)
    if transport is not None:
        transport.abort()


def rate_limited(refusal: Refusal) -> Problem:
    """The error of a request over a limit."""
    return Problem(
        "rate_limited",
        429,
        "rate limited",
        limit=refusal.limit,
        allowed=refusal.allowed,
        retry_after=refusal.retry_after,
    )

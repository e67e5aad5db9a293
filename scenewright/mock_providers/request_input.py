"""What a request brings with it: its body, its API key, its connection.

And its visit, once it is let in.

Responses: JSON, JSON that drips, and none at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from scenewright.mock_providers.accounts import Account, Refusal
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.pictures import MAX_BYTES
from scenewright.mock_providers.problems import Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_SHORTEST_STEP = 0.002


def json_response(content: Any, status: int, headers: Mapping[str, str]) -> Response:
    """``content`` as a JSON response; bytes go as they are."""
    return Response(
        encoded(content),
        status,
        headers=dict(headers),
        media_type="application/json",
    )


@dataclass(frozen=True, slots=True)
class Events:
    """An answer as server-sent events, and how it goes wrong."""

    events: tuple[tuple[str, Any], ...]
    """Type and data of each."""
    fault: Fault | None = None
    """A fault of streams: it comes after the first event."""

    def encoded(self) -> tuple[bytes, ...]:
        """Return the events as they are sent."""
        return tuple(
            b"event: " + kind.encode() + b"\ndata: " + encoded(data) + b"\n\n"
            for kind, data in self.events
        )


class EventStream(Response):
    """A response of server-sent events."""

    media_type = "text/event-stream"

    def __init__(
        self,
        parts: Sequence[bytes],
        headers: Mapping[str, str],
        pause: float = 0.0,
        fault: Fault | None = None,
        transport: asyncio.Transport | None = None,
        closing: asyncio.Event | None = None,
    ) -> None:
        """``pause``: seconds before each event; ``fault`` comes after the first one.

        ``transport``: of the connection, to be cut; ``closing`` ends what hangs.
        """
        super().__init__(headers=dict(headers))
        del self.headers["content-length"]
        self._parts = parts
        self._pause = pause
        self._fault = fault
        self._transport = transport
        self._closing = closing or asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send event by event."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        for at, part in enumerate(self._parts):
            if self._pause and not self._closing.is_set():
                await asyncio.sleep(self._pause)
            if at == 1 and self._fault in (Fault.STREAM_CUT, Fault.STREAM_STALL):
                await self._break(receive)
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _break(self, receive: Receive) -> None:
        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        if self._fault is Fault.STREAM_STALL:
            waits = [asyncio.ensure_future(left()), asyncio.ensure_future(self._closing.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if self._transport is not None:
            self._transport.abort()
        await left()


def encoded(content: Any) -> bytes:
    """``content`` as JSON, of an SDK's type the fields that were given; bytes stay as they are."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, BaseModel):
        return content.model_dump_json(exclude_unset=True).encode()
    return json.dumps(content, separators=(",", ":")).encode()


class Silence(Response):
    """No response: the connection is torn down."""

    def __init__(self, transport: asyncio.Transport | None) -> None:
        """``transport``: of the connection; none if it is gone already."""
        super().__init__()
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close the connection without a word and wait until the server knows."""
        if self._transport is not None:
            self._transport.abort()
        # The server takes an application that says nothing for a broken one, unless it has
        # seen the connection end before.
        while (await receive())["type"] != "http.disconnect":
            pass


class Drip(Response):
    """A JSON response whose body comes in many small pieces."""

    def __init__(
        self,
        content: Any,
        headers: Mapping[str, str],
        seconds: float,
        closing: asyncio.Event,
    ) -> None:
        """``seconds``: time from the first piece to the last; cut short by ``closing``."""
        super().__init__(
            encoded(content),
            headers=dict(headers),
            media_type="application/json",
        )
        self._seconds = seconds
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body byte by byte, or in the pieces that the time makes necessary."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        body = bytes(self.body)
        steps = max(1, min(len(body), int(self._seconds / _SHORTEST_STEP)))
        pause = self._seconds / steps
        loop = asyncio.get_running_loop()
        started = loop.time()
        for step in range(steps):
            piece = body[len(body) * step // steps : len(body) * (step + 1) // steps]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            left = started + (step + 1) * pause - loop.time()
            if left > 0 and not self._closing.is_set():
                await asyncio.sleep(left)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


MAX_BODY = 2 * MAX_BYTES
"""Largest body of a request, bytes."""
Finish = Callable[[Fault | None], Awaitable[tuple[Any, int]]]
"""Makes the answer with its fault: JSON, bytes, :class:`Events` or a ``Problem``, and the output
tokens."""


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
    """Return the API key of a request, wherever a provider's SDK puts it.

    Empty if there is none.
    """
    headers = request.headers
    given = headers.get("x-api-key") or headers.get("x-goog-api-key")
    if not given:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else ""
    return given or request.query_params.get("key", "")


async def read_body(request: Request) -> bytes | None:
    """Return the body; none if it is larger than ``MAX_BODY``.

    ``ConnectionError`` if it breaks off.
    """
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
    """Return the JSON object in a body of :func:`read_body`; raises ``Problem``."""
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
    """Return the connection; none if the server does not tell."""
    found: asyncio.Transport | None = request.scope.get("state", {}).get("transport")
    return found


def client_left(request: Request) -> bool:
    """Whether the client has left."""
    transport = transport_of(request)
    return transport is not None and transport.is_closing()


def abort(request: Request) -> None:
    """Drop the connection."""
    transport = transport_of(request)
    if transport is not None:
        transport.abort()


def rate_limited(refusal: Refusal) -> Problem:
    """Return the error of a request over a limit."""
    return Problem(
        "rate_limited",
        429,
        "rate limited",
        limit=refusal.limit,
        allowed=refusal.allowed,
        retry_after=refusal.retry_after,
    )

"""Parts of a request: its body, its API key, its connection.

And its visit, once it is let in.

Responses: JSON, streams of events, either of them dripping, and none at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from scenewright.mock_providers.accounts import Account
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.pictures import MAX_BYTES
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.streams import Event

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
JSON = "application/json"
_SHORTEST_STEP = 0.002
_COMMENT_SECONDS = 0.05


def json_response(content: Any, status: int, headers: Mapping[str, str]) -> Response:
    """``content`` as a JSON response; bytes go as they are."""
    return Response(encoded(content), status, headers=dict(headers), media_type=JSON)


@dataclass(frozen=True, slots=True)
class Events:
    """An answer as server-sent events, and how it goes wrong."""

    events: tuple[Event, ...]
    """Type and data of each; of a nameless one the type is empty."""
    fault: Fault | None = None
    """A fault of streams."""
    error: Event = ("", None)
    """Event of the fault ``stream_error``."""
    middle: int = 1
    """Number of events before the faults in the middle."""

    def encoded(self) -> tuple[bytes, ...]:
        """Return the events as they are sent."""
        events = self.events
        if self.fault is Fault.STREAM_ERROR:
            events = (*events[: self.middle], self.error)
        elif self.fault is Fault.STREAM_UNENDED:
            events = events[:-1]
        return tuple(
            (f"event: {kind}\n".encode() if kind else b"") + b"data: " + encoded(data) + b"\n\n"
            for kind, data in events
        )


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = "text/event-stream"

    def __init__(
        self,
        parts: Sequence[bytes],
        headers: Mapping[str, str],
        pause: float,
        stream: Events,
        request: Request,
        closing: asyncio.Event,
        under_way: contextlib.ExitStack,
    ) -> None:
        """``pause``: seconds before each event; ``stream``: with its fault.

        ``request``: of the connection, to be cut; ``closing`` ends what hangs; ``under_way`` is
        closed before the last event is sent, and at the latest with the response.
        """
        self._under_way = under_way

        async def paced() -> AsyncIterator[bytes]:
            """Yield event by event; the response stops this once the client has left."""
            fault = stream.fault
            if fault is Fault.KEEP_ALIVE:
                while not closing.is_set():
                    yield b": keep-alive\n\n"
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(closing.wait(), max(pause, _COMMENT_SECONDS))
                await cut(request)
            for at, part in enumerate(parts):
                if pause and not closing.is_set():
                    await asyncio.sleep(pause)
                if at == stream.middle and fault in (Fault.STREAM_CUT, Fault.STREAM_STALL):
                    if fault is Fault.STREAM_STALL:
                        await closing.wait()
                    await cut(request)
                if at == len(parts) - 1:
                    # Whoever has the last event may send the next request.
                    under_way.close()
                yield part

        super().__init__(paced(), headers=dict(headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; a client that leaves ends the request too."""
        with self._under_way:
            await super().__call__(scope, receive, send)


async def cut(request: Request) -> None:
    """Drop the connection and wait for the end of the response, which comes of that."""
    abort(request)
    await asyncio.Event().wait()


def encoded(content: Any) -> bytes:
    """``content`` as JSON; bytes stay as they are."""
    if isinstance(content, bytes):
        return content
    return json.dumps(content, separators=(",", ":")).encode()


class Silence(Response):
    """No response: the connection is torn down."""

    def __init__(self, request: Request | None = None) -> None:
        """``request``: whose connection is dropped; none if it is gone already."""
        super().__init__()
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close the connection without a word and wait until the server knows."""
        if self._request is not None:
            abort(self._request)
        # The server takes an application that says nothing for a broken one, unless it has
        # seen the connection end before.
        while (await receive())["type"] != "http.disconnect":
            pass


def drops(body: bytes, seconds: float) -> tuple[tuple[bytes, ...], float]:
    """Return ``body`` byte by byte, or in the pieces that so many ``seconds`` make necessary.

    Also returns the pause before each.
    """
    steps = max(1, min(len(body), int(seconds / _SHORTEST_STEP)))
    ends = [len(body) * step // steps for step in range(steps + 1)]
    return tuple(body[start:end] for start, end in pairwise(ends)), seconds / steps


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
    """Its sender's account."""
    entry: list[float]
    """Its place in the account's window."""
    received: float
    """When its body was there, by the monotonic clock."""
    chance: Chance
    """Everything random about it."""

    def charge(self, tokens: int) -> None:
        """Count its input tokens; raises ``Problem`` if they are over the account's limit."""
        if (refusal := self.account.charge(self.entry, tokens, self.received)) is not None:
            raise refusal


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

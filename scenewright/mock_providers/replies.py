"""Responses: JSON, JSON that drips, and none at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from fastapi import Response

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


def encoded(content: Any) -> bytes:
    """``content`` as JSON; bytes stay as they are."""
    if isinstance(content, bytes):
        return content
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

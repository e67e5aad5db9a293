"""What a request brings with it: its body, its API key, its connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import Request

from scenewright.lab.pictures import MAX_BYTES
from scenewright.lab.problems import Problem

MAX_BODY = 2 * MAX_BYTES
"""Largest body of a request, bytes."""


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

"""Limits of request bodies, counted as they come: before anything is parsed."""

from __future__ import annotations

import asyncio
import math
import time

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from scenewright.service.core.errors import ServiceError, TooLarge
from scenewright.service.core.settings import ServiceSettings

JSON_BYTES = 2 * 2**20
"""Largest body without files."""
_SLACK = 2 * 2**20
"""The other fields of a form with files, and its boundaries."""
_MANY_FILES = "/v1/images/edits"
_FILES_IN_JSON = ("/mcp", _MANY_FILES)
_FILES = 4
"""As many of the largest files may come with an edit of pictures at once."""
IDLE_SECONDS = 30.0
"""Longest silence within a body."""
WHOLE_SECONDS = 300.0
"""Longest time for a whole body."""
_DRAIN_BYTES = 64 * 2**20
_DRAIN_SECONDS = 5.0
_DRAIN_IDLE_SECONDS = 0.5


class TooSlow(ServiceError):
    """A body that does not come."""

    status = 408


def limit_of(path: str, headers: Headers, settings: ServiceSettings) -> int:
    """Most bytes of a body for ``path``."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    under = path.rstrip("/")
    if kind == "multipart/form-data":
        return settings.upload_bytes * (_FILES if under == _MANY_FILES else 1) + _SLACK
    if under in _FILES_IN_JSON:
        # Base64 takes four bytes for three.
        return settings.upload_bytes * (_FILES if under == _MANY_FILES else 1) * 4 // 3 + _SLACK
    return JSON_BYTES


class Body:
    """Passes a request's body on, and counts it."""

    def __init__(self, receive: Receive, limit: int, *, idle: float = IDLE_SECONDS) -> None:
        """``limit``: most bytes; ``idle``: longest wait for the next of them, seconds."""
        self._receive = receive
        self._limit = limit
        self._idle = idle
        self._count = 0
        self._began = time.monotonic()
        self._whole = False
        self.error: ServiceError | None = None
        """Why the body was refused, once it was: nothing that the application says of it holds."""

    async def __call__(self) -> Message:
        """The next message. Raises ``TooLarge`` or ``TooSlow``."""
        if self.error is not None:
            raise self.error
        if self._whole:
            return await self._receive()
        left = self._began + WHOLE_SECONDS - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(self._idle, left))):
                message = await self._receive()
        except TimeoutError:
            self.error = TooSlow("the body of the request did not come in time: send it again")
            raise self.error from None
        if message["type"] == "http.request":
            self._count += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._count > self._limit:
                self.error = too_large(self._limit)
                raise self.error
        else:
            self._whole = True
        return message

    async def drain(self, headers: Headers) -> bool:
        """Take the rest of a refused body, if it is not too much; whether all of it came.

        A client that is still sending when the connection is closed never reads the reply.
        """
        if "expect" in headers or _length(headers) > _DRAIN_BYTES:
            return self._whole
        count, ends = 0, time.monotonic() + _DRAIN_SECONDS
        while not self._whole and count < _DRAIN_BYTES and time.monotonic() < ends:
            try:
                async with asyncio.timeout(_DRAIN_IDLE_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                break
            count += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        return self._whole


def check_length(headers: Headers, limit: int) -> None:
    """Raises ``TooLarge`` if the body says that it is over ``limit`` bytes."""
    if _length(headers) > limit:
        raise too_large(limit)


def too_large(limit: int) -> TooLarge:
    """The error of a body over ``limit`` bytes."""
    return TooLarge(f"the body is over {limit / 2**20:.0f} MiB, the limit here: send less")


def _length(headers: Headers) -> float:
    """The length that a body says it has; endless if that makes no sense."""
    said = headers.get("content-length", "0")
    sound = said.isascii() and said.isdecimal() and len(said) <= 18
    return int(said) if sound else math.inf

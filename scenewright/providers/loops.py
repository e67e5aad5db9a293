"""One client for each event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")
CLOSING_SECONDS = 5.0
"""How long a loop in another thread is waited for when its client is closed."""


class PerLoop(Generic[T]):
    """Makes a client when a loop first asks for one; safe for loops in many threads."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        """``make`` is called inside the running loop; ``close`` in the loop of its client."""
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [known for known in self._clients if known.is_closed()]:
                # Its connections went with it: nothing is left that could be closed.
                del self._clients[other]
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = self._make()
            return client

    async def aclose(self) -> None:
        """Close the running loop's client, and those of loops that run in other threads."""
        with self._lock:
            clients, self._clients = self._clients, {}
        here = asyncio.get_running_loop()
        for loop, client in clients.items():
            if loop is here:
                await self._close(client)
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(self._closed(client), loop)
                # A loop that stops meanwhile never says so.
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.wrap_future(closing), CLOSING_SECONDS)

    async def _closed(self, client: T) -> None:
        await self._close(client)

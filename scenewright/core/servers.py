"""Run uvicorn in an existing event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn


class GuestServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signals alone and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        """``config``: what is served, and how."""
        super().__init__(config)
        self.ready = asyncio.Event()
        """Set once it listens."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.ready.set()


@contextlib.asynccontextmanager
async def running(server: GuestServer, place: socket.socket) -> AsyncIterator[None]:
    """Return ``server`` on the listening socket ``place``, until the block is left.

    Requests under way have the time that its configuration gives them. Raises what ends its start.
    """
    task = asyncio.create_task(server.serve([place]))
    ready = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield
    finally:
        ready.cancel()
        server.should_exit = True
        await task

"""The service on a socket."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import uvicorn

from scenewright.config.profiles import SettingsError
from scenewright.core.servers import GuestServer
from scenewright.core.sockets import listening, url_of
from scenewright.service.core.settings import ServiceSettings

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Message, Receive, Scope, Send

_BACKLOG = 2048
_GRACE_SECONDS = 5
_THREADS = 32
_SWITCH_SECONDS = 0.0002
_OLDEST = 2
"""Generation of the objects that only a search of all of them looks at."""


class Freezer:
    """Leave what the first runs load out of the searches for garbage.

    A search of all objects stands still for a tenth of a second and more where the libraries of a
    run are among them. What makes one take long is mostly modules; that is done a few times
    only, so that little of what was at work just then is kept for good.
    """

    def __init__(self, seconds: float = 0.01, times: int = 5) -> None:
        """``seconds`` that a search takes, beyond which what it left is left out of the next."""
        self._seconds = seconds
        self._left = times
        self._began = 0.0

    def begin(self) -> None:
        """Hear of every search."""
        gc.callbacks.append(self._heard)

    def end(self) -> None:
        """Hear of no further search."""
        if self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: Mapping[str, int]) -> None:
        # The objects are not counted: a list of all of them holds tuples that other threads are
        # still filling, and `tuple()` fails there with a SystemError.
        if info["generation"] != _OLDEST or self._left <= 0:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began > self._seconds:
            gc.freeze()
            self._left -= 1


class Server(GuestServer):
    """A server that lets streams go at its end."""

    def __init__(self, app: FastAPI, settings: ServiceSettings) -> None:
        """``app``: what is served."""
        self._app = app
        self._failure: BaseException | None = None
        self._freezer = Freezer()
        super().__init__(
            uvicorn.Config(
                self._served,
                interface="asgi3",
                # The same reader of requests whatever else is installed: it is the one that was
                # tried with malformed ones.
                http="h11",
                # There are no websockets; the library for them would answer in its own words.
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                # Streams of events end by themselves; what else is at work has so long.
                timeout_graceful_shutdown=_GRACE_SECONDS,
                # Nobody is believed to speak for another address but a proxy on this machine.
                forwarded_allow_ips="127.0.0.1,::1",
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so. Raises what the application's lifespan raises."""
        # While threads work on large scenes, the loop gets its turn after a thousandth of a second.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Threads wait for the disk more than they work: there may be more of them than cores.
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="aside")
        )
        try:
            await super().startup(sockets)
        except SystemExit:
            if self._failure is None:
                raise
            raise self._failure from None
        # What was loaded stays: a search of it for garbage would hold all streams up each time.
        gc.freeze()
        self._freezer.begin()
        gc.enable()

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the application; the caller raises the reason of a failed start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def said(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                message = {**message, "message": ""}
            await send(message)

        try:
            await self._app(scope, receive, said)
        except BaseException as error:
            self._failure = error
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let who listens go, then end as uvicorn does: the lifespan drains the worker."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.broadcaster.close()
        self._freezer.end()
        await super().shutdown(sockets)


def bind(settings: ServiceSettings) -> socket.socket:
    """Return a listening socket; ``SettingsError`` if the address cannot be had."""
    return listening(settings.host, settings.port, _BACKLOG, SettingsError)


def address_of(settings: ServiceSettings, made: socket.socket) -> str:
    """``http://HOST:PORT`` of a listening socket, for a client on this machine."""
    return url_of(settings.host, made.getsockname()[1])

"""A mock server on a socket: inside an event loop, or in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from scenewright.core.servers import GuestServer, running
from scenewright.core.sockets import listening, url_of
from scenewright.mock_providers.accounts import account_name
from scenewright.mock_providers.faults import Fault, MockError, Swap
from scenewright.mock_providers.quirks import Quirk
from scenewright.mock_providers.routes import application
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.settings import MockSettings

T = TypeVar("T")

_GRACE_SECONDS = 1
_BACKLOG = 4096
_START_SECONDS = 30.0


class _Protocol(H11Protocol):
    """HTTP/1.1 whose requests know their connection, so that it can be dropped."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class Server(GuestServer):
    """A server that wakes what hangs at its end."""

    def __init__(self, lab: MockProviders) -> None:
        """``lab``: what is served."""
        config = uvicorn.Config(
            application(lab),
            http=_Protocol,
            lifespan="off",
            log_config=None,
            # A dropped connection is no error here; the mock server logs its own by another name.
            log_level="critical",
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._lab = lab

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of what hangs, then end as uvicorn does."""
        self._lab.closing.set()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serving(settings: MockSettings | None = None) -> AsyncIterator[MockProviders]:
    """Serve a mock server in the running loop; its address is ``lab.url``.

    Requests under way have a second to end. ``MockError`` if the address cannot be had.
    """
    lab = MockProviders(settings)
    place = listening(lab.settings.host, lab.settings.port, _BACKLOG, MockError)
    lab.url = url_of(lab.settings.host, place.getsockname()[1])
    async with running(Server(lab), place):
        yield lab


class ThreadedMockProviders:
    """A mock server in another thread. Its methods may be called from any thread but that one."""

    def __init__(self, lab: MockProviders, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: the one that serves ``lab``."""
        self._lab = lab
        self._loop = loop
        self.url = lab.url
        """``http://HOST:PORT``: base URL for the SDKs of Anthropic and Gemini."""
        self.openai_url = f"{lab.url}/v1"
        """Base URL for OpenAI's SDK."""

    def report(self) -> dict[str, Any]:
        """Return the counters of every account."""
        return self._do(self._lab.report)

    def reset(self) -> None:
        """Forget what was counted."""
        self._do(self._lab.reset)

    def order(self, kind: Fault | str, count: int = 1, key: str | None = None) -> None:
        """Return the next ``count`` requests (with the API key ``key``) meet ``kind``."""
        account = None if key is None else account_name(key)
        self._do(lambda: self._lab.faults.order(Fault(kind), count, account))

    def set_share(self, kind: Fault | str, share: float, key: str | None = None) -> None:
        """``share`` of the requests (with the API key ``key``) meet ``kind``."""
        account = None if key is None else account_name(key)
        self._do(lambda: self._lab.faults.set_share(Fault(kind), share, account))

    def order_quirk(self, kind: Quirk | str, key: str | None = None) -> None:
        """Have requests (with the API key ``key``) meet ``kind`` from now on."""
        account = None if key is None else account_name(key)
        self._do(lambda: self._lab.quirks.order(Quirk(kind), account))

    def clear_quirks(self) -> None:
        """Back to the quirks that the mock server began with."""
        self._do(self._lab.quirks.clear)

    def order_swap(self, swap: Swap) -> None:
        """Have another model answer in place of one from now on."""
        self._do(lambda: self._lab.swaps.order(swap))

    def clear_faults(self) -> None:
        """Back to the faults that the mock server began with."""
        self._do(self._lab.faults.clear)

    def _do(self, what: Callable[[], T]) -> T:
        async def done() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(timeout=30)


@contextlib.contextmanager
def serving_thread(settings: MockSettings | None = None) -> Iterator[ThreadedMockProviders]:
    """Serve a mock in a thread with its own loop; ``MockError`` if the address cannot be had."""
    ready = threading.Event()
    stop: list[Callable[[], None]] = []
    made: list[ThreadedMockProviders] = []
    failed: list[BaseException] = []

    async def run() -> None:
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with serving(settings) as lab:
            made.append(ThreadedMockProviders(lab, loop))
            stop.append(lambda: loop.call_soon_threadsafe(ending.set))  # type: ignore[arg-type]
            ready.set()
            await ending.wait()

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="scenewright-lab", daemon=True)
    thread.start()
    if not ready.wait(_START_SECONDS):
        raise MockError(f"the mock server did not start within {_START_SECONDS:g} s")
    if failed:
        raise failed[0]
    try:
        yield made[0]
    finally:
        stop[0]()
        thread.join()

"""Doors behind real HTTP on this machine, in a thread with a loop of its own; no Ray."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import uvicorn

from scenewright.core.servers import GuestServer, running
from scenewright.core.sockets import listening, url_of
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.service.model_serving.gateway import gateway
from scenewright.service.model_serving.models import ModelEndpoint

START_SECONDS = 120.0


@contextmanager
def hosting(
    make: Callable[[], Awaitable[Mapping[str, ModelEndpoint]]],
    key: str = "",
    most_bytes: int = 2**20,
) -> Iterator[str]:
    """Serve the doors that ``make`` builds in the server's loop; gives the address."""
    ready = threading.Event()
    ends: list[Callable[[], object]] = []
    urls: list[str] = []
    failures: list[BaseException] = []

    async def run() -> None:
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        place = listening("127.0.0.1", 0, 64, RuntimeError)
        app = gateway(await make(), key, most_bytes)
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        async with running(GuestServer(config), place):
            urls.append(url_of("127.0.0.1", place.getsockname()[1]))
            ends.append(lambda: loop.call_soon_threadsafe(ending.set))
            ready.set()
            await ending.wait()

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    assert ready.wait(START_SECONDS)
    if failures:
        raise failures[0]
    try:
        yield urls[0]
    finally:
        ends[0]()
        thread.join(START_SECONDS)


def swift(attempts: int = 2) -> Caller:
    """A caller that loses no time between attempts."""
    return Caller(
        "cluster", timeout=60.0, attempts=attempts, priced=False, backoff=Backoff(initial=0.01)
    )

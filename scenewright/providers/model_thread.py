"""One thread that owns a model on this machine: its work waits in line there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scenewright.providers.device_gate import Stop

T = TypeVar("T")


class ModelThread:
    """Does one piece of work after the other, in the order in which they came; the event loop
    stays free meanwhile."""

    def __init__(self, name: str) -> None:
        """``name``: what the thread's name begins with."""
        self.closed = False
        """Whether :meth:`aclose` was called: it takes no more work then."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[Stop], T]) -> T:
        """What ``work`` returns or raises in the thread. Cancelling sets the ``Stop`` that it is
        given."""
        stop = Stop()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def aclose(self) -> None:
        """Wait for the running work; what is still in line is cancelled."""
        self.closed = True
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

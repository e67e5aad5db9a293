"""Computations for answers, away from the event loop and from the threads that wait for disks.

A large scene takes a thread a second where a small one takes a hundredth. Small ones have threads
of their own, and large ones take turns in a single one: who sends many of them waits for them, and
nobody else does.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from scenewright.graphs.large_scenes import LARGE_SCENE_ITEMS as LARGE_SCENE_ITEMS
from scenewright.graphs.large_scenes import size_of as size_of
from scenewright.graphs.large_scenes import size_of_data
from scenewright.service.core.errors import Busy

WAITING = 16
"""Most computations on large scenes that wait for their turn."""
_SMALL_AT_ONCE = 2
_RETRY_SECONDS = 5.0

P = ParamSpec("P")
T = TypeVar("T")


def size_of_request(request: Mapping[str, Any]) -> int:
    """Return :func:`size_of` the scene in the stored request of a run, without reading the scene.

    0 if it has none.
    """
    return size_of_data(request.get("scene"))


class WorkerThread:
    """The threads of one service; one event loop uses it."""

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(_SMALL_AT_ONCE, thread_name_prefix="small-scenes")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-scenes")
        self._waiting = 0

    async def compute(
        self, size: int, function: Callable[P, T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Return ``function(*args, **options)``, a computation on a scene of this size.

        Raises ``Busy`` if too many wait with large scenes, and what ``function`` raises.
        """
        if size > LARGE_SCENE_ITEMS and self._waiting >= WAITING:
            raise Busy(
                f"{self._waiting} large scenes are being worked out: try again in a moment, or "
                "split the scene",
                retry_after=_RETRY_SECONDS,
            )
        return await self.submit(size, function, *args, **options)

    async def submit(
        self, size: int, function: Callable[P, T], *args: P.args, **options: P.kwargs
    ) -> T:
        """As :meth:`compute`, however many wait: for what was taken in already."""
        call = functools.partial(contextvars.copy_context().run, function, *args, **options)
        loop = asyncio.get_running_loop()
        if size <= LARGE_SCENE_ITEMS:
            return await loop.run_in_executor(self._small, call)
        self._waiting += 1
        try:
            return await loop.run_in_executor(self._large, call)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads after what they do now."""
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)

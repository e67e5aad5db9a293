"""Bounded concurrency over the objects of a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def map_bounded(work: Callable[[A], Awaitable[B]], items: Iterable[A], limit: int) -> list[B]:
    """Return ``await work(item)`` for all ``items`` in their order, ``limit`` of them at once."""
    turn = asyncio.Semaphore(max(1, limit))

    async def one(item: A) -> B:
        async with turn:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [task.result() for task in tasks]

"""Items to be handed out: a stream, and those that a dead worker left."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from typing import Generic, Protocol, TypeVar

from scenewright.evals.errors import EvalError

MOST_DEATHS = 3
"""Workers that may die with the same item at hand."""


class Named(Protocol):
    """What can be handed out."""

    @property
    def id(self) -> str:
        """What errors call it."""
        ...


T = TypeVar("T", bound=Named)


class ItemQueue(Generic[T]):
    """Hands out each item until somebody has done it; holds only those at work."""

    def __init__(self, stream: AsyncGenerator[tuple[int, T]]) -> None:
        """``stream``: all items with their positions."""
        self._stream = stream
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._left: deque[tuple[int, T]] = deque()
        self._deaths: Counter[int] = Counter()
        self._over = False
        self.under_way = 0
        """Items that are handed out and not done."""

    async def next(self) -> tuple[int, T] | None:
        """The next item, those that were left first; None when all are done.

        Waits while others may still leave theirs.
        """
        while True:
            if self._left:
                self.under_way += 1
                return self._left.popleft()
            if not self._over:
                async with self._turn:
                    if self._over or self._left:
                        continue
                    found = await anext(self._stream, None)
                    if found is not None:
                        self.under_way += 1
                        return found
                    self._over = True
                    self._changed.set()
            elif not self.under_way:
                return None
            else:
                await self._change()

    def done(self, position: int) -> None:
        """The item of that ``position`` is done."""
        self.under_way -= 1
        self._deaths.pop(position, None)
        self._changed.set()

    def back(self, position: int, item: T, why: str) -> None:
        """Its worker died: somebody else is to do ``item``.

        Raises ``EvalError`` if it is one worker too many.
        """
        self.under_way -= 1
        self._left.append((position, item))
        self._deaths[position] += 1
        self._changed.set()
        if self._deaths[position] >= MOST_DEATHS:
            raise EvalError(
                f"{MOST_DEATHS} workers died with the item {item.id!r} at hand, the last one: "
                f"{why}. Look for a want of memory (fewer workers, a smaller concurrency) and run "
                "the same again: what is done is kept"
            )

    async def finished(self) -> None:
        """Returns when all items are done."""
        while not self._over or self._left or self.under_way:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

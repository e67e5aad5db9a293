"""Many pieces of work at once, and never more in memory than are at work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from scenewright.evals.errors import AnnotationError

T = TypeVar("T")

FAILURES = 20
"""So many failures in a row, with no success before, end the work: what always fails costs."""


async def side_by_side(
    pieces: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int
) -> None:
    """``work`` of each piece, ``concurrency`` at a time; pieces are taken as there is room.

    The first error ends the others and is raised as it is.
    """
    source = iter(pieces)

    async def worker() -> None:
        for piece in source:
            await work(piece)

    tasks = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class StartupFailureLimit:
    """Stops what fails from the start, such as a wrong key, before it fails a million times."""

    most: int = FAILURES
    """Failures in a row that are borne."""
    _failed: dict[str, int] = field(default_factory=dict)
    _worked: set[str] = field(default_factory=set)

    def worked(self, voter: str) -> None:
        """A call of ``voter`` brought a reply."""
        self._worked.add(voter)

    def failed(self, voter: str, reason: str) -> None:
        """A call failed; raises ``AnnotationError`` if none has worked and it was one too many."""
        self._failed[voter] = self._failed.get(voter, 0) + 1
        if voter not in self._worked and self._failed[voter] >= self.most:
            raise AnnotationError(
                f"{voter} failed {self.most} times and never answered; the last time: {reason}. "
                "Mend that and run the same again with --retry: what was answered is kept"
            )

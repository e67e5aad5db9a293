"""Progress of an evaluation, limits on failures, and bounded concurrency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from scenewright.evals.errors import AnnotationError, EvalError
from scenewright.evals.store.journal import Unit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an evaluation."""

    doing: str = "loading the models"
    """The current activity."""
    items: int = 0
    pictures: int = 0
    """Pictures of items and arms that exist, found or drawn."""
    found: int = 0
    """Those of them that an earlier run made."""
    judged: int = 0
    """Pictures judged, once for each panel."""
    failed: int = 0
    """Drawings and judgings that failed."""
    unscored: int = 0
    """Judgings and scores with something unscored."""
    sentinels: int = 0
    """Sentinel pictures that judges were asked about."""
    tokens: int = 0
    """Tokens of this run, in and out."""
    usd: float = 0.0
    """Dollars of this run."""


OnProgress = Callable[[Progress], None]


class ProgressReporter:
    """Counts what is done and reports it at most ten times a second."""

    def __init__(self, show: OnProgress) -> None:
        """Start at zero.

        Args:
            show: called with the counts.
        """
        self._show = show
        self._now = Progress()
        self._shown = 0.0

    def __call__(self, *, doing: str = "", at_once: bool = False, **more: float) -> None:
        """Add ``more`` to the counts of those names.

        Args:
            doing: name of an activity that begins.
            at_once: report even if the last report was just now.
            more: count → increment.
        """
        now = self._now
        counts: dict[str, Any] = {name: getattr(now, name) + by for name, by in more.items()}
        self._now = replace(now, doing=doing or now.doing, **counts)
        if at_once or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._show(self._now)


class FailureLimit:
    """Ends an evaluation after too many failures in a row."""

    def __init__(self, most: int) -> None:
        """Set the number of failures in a row that ends the evaluation."""
        self._most = most
        self._in_a_row = 0

    def note(self, unit: Unit) -> None:
        """Count a new ``unit``. Raises ``EvalError`` at the limit."""
        self._in_a_row = self._in_a_row + 1 if unit.state == "failed" else 0
        if self._in_a_row >= self._most:
            raise EvalError(
                f"{self._in_a_row} failures in a row, the last one: {unit.reason}. Fix the cause "
                "and run the same with --retry; what is done is kept"
            )


@dataclass(slots=True)
class StartupFailureLimit:
    """Ends work whose model has failed from the start, for example with a wrong key."""

    most: int = 20
    """Failures of a model without any success that are tolerated."""
    _failed: dict[str, int] = field(default_factory=dict)
    _worked: set[str] = field(default_factory=set)

    def worked(self, model: str) -> None:
        """Note a successful call of ``model``."""
        self._worked.add(model)

    def failed(self, model: str, reason: str) -> None:
        """Note a failed call. Raises ``AnnotationError`` at the limit if no call has succeeded."""
        self._failed[model] = self._failed.get(model, 0) + 1
        if model not in self._worked and self._failed[model] >= self.most:
            raise AnnotationError(
                f"{model} failed {self.most} times and never answered; the last time: {reason}. "
                "Fix that and run the same again with --retry: what was answered is kept"
            )


async def side_by_side(
    pieces: Iterable[T] | AsyncIterator[T],
    work: Callable[[T], Awaitable[None]],
    concurrency: int,
) -> None:
    """Run ``work`` on each piece, ``concurrency`` at a time; pieces are taken as there is room.

    The first error cancels the others and is raised as it is.
    """
    source = pieces if isinstance(pieces, AsyncIterator) else _async(pieces)
    turn = asyncio.Lock()
    end = object()

    async def worker() -> None:
        while True:
            async with turn:
                piece: Any = await anext(source, end)
            if piece is end:
                return
            await work(piece)

    tasks = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _async(pieces: Iterable[T]) -> AsyncIterator[T]:
    for piece in pieces:
        yield piece

"""How far an evaluation is, and when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.store.journal import Unit


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an evaluation is."""

    doing: str = "loading the models"
    """What it is at."""
    items: int = 0
    """Items that are done."""
    pictures: int = 0
    """Pictures of items and arms that are there, found or drawn."""
    found: int = 0
    """Those of them that were done before."""
    judged: int = 0
    """Looks of a panel at a picture."""
    failed: int = 0
    """Drawings and judgings that failed."""
    unscored: int = 0
    """Judgings and scores with something unscored."""
    sentinels: int = 0
    """Sentinel pictures that judges were asked."""
    tokens: int = 0
    """Tokens of what was done now, in and out."""
    usd: float = 0.0
    """Dollars of what was done now."""


OnProgress = Callable[[Progress], None]


class ProgressReporter:
    """Counts what is done, and shows it no more often than a screen needs."""

    def __init__(self, show: OnProgress) -> None:
        """``show`` is told the counts."""
        self._show = show
        self._now = Progress()
        self._shown = 0.0

    def __call__(self, *, doing: str = "", at_once: bool = False, **more: float) -> None:
        """Add ``more`` to the counts of those names. ``doing``: what begins; ``at_once``: show it
        also if something was shown just now."""
        now = self._now
        counts: dict[str, Any] = {name: getattr(now, name) + by for name, by in more.items()}
        self._now = replace(now, doing=doing or now.doing, **counts)
        # A screen needs no more than ten pictures a second.
        if at_once or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._show(self._now)


class FailureLimit:
    """Ends an evaluation in which one thing fails after the other."""

    def __init__(self, most: int) -> None:
        """``most``: failures in a row that end it."""
        self._most = most
        self._in_a_row = 0

    def note(self, unit: Unit) -> None:
        """Count ``unit``, made just now; ``EvalError`` if it is one failure too many."""
        self._in_a_row = self._in_a_row + 1 if unit.state == "failed" else 0
        if self._in_a_row >= self._most:
            raise EvalError(
                f"{self._in_a_row} failures in a row, the last one: {unit.reason}. Mend the cause "
                "and run the same with --retry; what is done is kept"
            )

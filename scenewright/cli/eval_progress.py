"""What an evaluation shows while it goes: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.evals.runner.progress import Progress as Stand

_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def show_eval_progress(
    where: Console, total: int, quiet: bool
) -> Iterator[Callable[[Stand], None] | None]:
    """Gives what is to be told of the progress of ``total`` items; nothing if ``quiet``."""
    if quiet:
        yield None
        return
    if not where.is_terminal:
        yield _Lines(where, total)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[more]}"),
        console=where,
        transient=True,
    ) as bar:
        task = bar.add_task("loading the models", total=total, more="")

        def show(now: Stand) -> None:
            bar.update(task, completed=now.items, description=now.doing, more=_more(now))

        yield show


class _Lines:
    """A line at the start, every now and then, and when what is done changes."""

    def __init__(self, where: Console, total: int) -> None:
        self._where = where
        self._total = total
        self._began = time.monotonic()
        self._last = float("-inf")
        self._doing = ""
        self._before: int | None = None

    def __call__(self, now: Stand) -> None:
        if now.doing == self._doing and time.monotonic() - self._last < _EVERY:
            return
        self._last, self._doing = time.monotonic(), now.doing
        line = f"{now.doing}: {now.items} of {self._total} items; {_more(now)}"
        left = self._left(now)
        self._where.print(Text(line + (f"; about {left} left" if left else "")), soft_wrap=True)

    def _left(self, now: Stand) -> str:
        """Time to the end, by the items done in this sitting."""
        spent = time.monotonic() - self._began
        if now.items < 1 or spent < 5 or now.items >= self._total:
            return ""
        seconds = spent / now.items * (self._total - now.items)
        return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{seconds / 60:.0f} min"


def _more(now: Stand) -> str:
    said = f"{now.pictures} pictures, {now.judged} judged"
    if now.found:
        said += f", {now.found} found done"
    if now.failed:
        said += f", {now.failed} failed"
    if now.unscored:
        said += f", {now.unscored} unscored"
    if now.sentinels:
        said += f", {now.sentinels} sentinel pictures"
    if now.usd:
        said += f", ${now.usd:.4f}"
    return said

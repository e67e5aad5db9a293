"""What a study of a panel shows while it goes: a bar on a terminal, a line now and then
elsewhere."""

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
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.evals.studies.panel.running import StudyProgress

_EVERY = 15.0
"""Seconds between two lines of one step where there is no terminal."""


@contextmanager
def show_study_progress(where: Console, quiet: bool) -> Iterator[Callable[[StudyProgress], None]]:
    """Gives what is to be told of the progress of a study; it shows nothing if ``quiet``."""
    if quiet:
        yield lambda stand: None
        return
    if not where.is_terminal:
        yield _Lines(where)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[step]}"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=where,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None, step="")
        at = 0

        def show(now: StudyProgress) -> None:
            nonlocal at
            if now.step != at:
                at = now.step
                bar.reset(task)
            bar.update(
                task,
                description=now.doing,
                completed=now.done,
                total=now.total or None,
                step=f"{now.step}/{now.steps}",
            )

        yield show


class _Lines:
    """A line when a step begins, and now and then with the time that is left of it."""

    def __init__(self, where: Console) -> None:
        self._where = where
        self._step = 0
        self._began = self._last = 0.0
        self._first = 0

    def __call__(self, now: StudyProgress) -> None:
        at = time.monotonic()
        begins = now.step != self._step
        if begins:
            self._step, self._began, self._first = now.step, at, now.done
        elif at - self._last < _EVERY or not now.total:
            return
        self._last = at
        line = f"{now.step} of {now.steps}: {now.doing}"
        if now.total and not begins:
            line += f", {now.done:,} of {now.total:,}"
            fresh = now.done - self._first
            if fresh > 0 and now.done < now.total:
                from scenewright.runs.report.words import duration

                left = (at - self._began) / fresh * (now.total - now.done)
                line += f", about {duration(left)} left"
        self._where.print(Text(line), soft_wrap=True)

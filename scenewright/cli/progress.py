"""Progress of commands: a bar on a terminal, a line now and then elsewhere; and transfers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from scenewright.cli.console import Exit, console, fail

if TYPE_CHECKING:
    from scenewright.evals.runner.progress import Progress as EvalProgress
    from scenewright.evals.studies.panel.running import StudyProgress
    from scenewright.providers.hub.pull import PullCallbacks

_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


class Counter(Protocol):
    """Is told how much is done, of how much (0 or none: not known), and what is being done."""

    def __call__(self, done: int, total: int | None, doing: str = "", more: str = "") -> None:
        """Show it; ``doing`` stays the same where it is empty."""
        ...


@contextmanager
def show_progress(where: Console, title: str, quiet: bool, lines: bool = True) -> Iterator[Counter]:
    """Yield what is to be told of the progress, and show it until the block ends.

    Nothing is shown if ``quiet``, and without ``lines`` nothing where there is no terminal.
    """
    if quiet or not (lines or where.is_terminal):
        yield lambda done, total, doing="", more="": None
        return
    if not where.is_terminal:
        yield _Lines(where, title)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[more]}"),
        console=where,
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=None, more="")
        before: tuple[int, int | None] = (0, None)

        def told(done: int, total: int | None, doing: str = "", more: str = "") -> None:
            nonlocal before
            if before[1] and (done < before[0] or total != before[1]):
                # Something else is counted: its time is its own.
                bar.reset(task)
            before = done, total
            bar.update(
                task, completed=done, total=total or None, description=doing or title, more=more
            )

        yield told


class _Lines:
    """A line when something begins or is done, and now and then with the time that is left."""

    def __init__(self, where: Console, title: str) -> None:
        self._where, self._title = where, title
        self._doing: str | None = None
        self._told = self._began = 0.0
        self._done = self._first = 0
        self._total: int | None = None
        self._ended = False

    def __call__(self, done: int, total: int | None, doing: str = "", more: str = "") -> None:
        now, doing = time.monotonic(), doing or self._title
        if self._doing is None or done < self._done or total != self._total:
            self._began, self._first, self._total, self._ended = now, done, total, False
        self._done = done
        ends = bool(total) and done == total and not self._ended
        if doing == self._doing and now - self._told < _EVERY and not ends:
            return
        self._told, self._doing, self._ended = now, doing, self._ended or ends
        said = f"{doing} {done:,}/{total:,}" if total else doing
        said += f"  {more}" if more else ""
        if total and self._first < done < total:
            from scenewright.runs.report.words import duration

            left = (now - self._began) / (done - self._first) * (total - done)
            said += f", about {duration(left)} left"
        self._where.print(Text(said), soft_wrap=True)


@contextmanager
def show_pictures(total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield what is to be told the name of each of ``total`` pictures as it begins."""
    where = console(stderr=True)
    if quiet or (total == 1 and not where.is_terminal):
        yield lambda name: None
        return
    if not where.is_terminal:
        done = iter(range(1, total + 1))
        yield lambda name: where.print(Text(f"{next(done)}/{total} {name}", style="dim"))
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=where, transient=True) as bar:
        task = bar.add_task("loading the models", total=total, completed=-1)

        def step(name: str) -> None:
            bar.update(task, advance=1, description=name)

        yield step


@contextmanager
def show_eval_progress(
    where: Console, total: int, quiet: bool
) -> Iterator[Callable[[EvalProgress], None] | None]:
    """Yield what is to be told of an evaluation of ``total`` items; nothing if ``quiet``."""
    with show_progress(where, "loading the models", quiet) as told:
        yield None if quiet else lambda now: told(now.items, total, now.doing, _eval_counts(now))


@contextmanager
def show_study_progress(where: Console, quiet: bool) -> Iterator[Callable[[StudyProgress], None]]:
    """Yield what is to be told of the progress of a panel study; nothing is shown if ``quiet``."""
    with show_progress(where, "", quiet) as told:
        yield lambda now: told(now.done, now.total, f"{now.step} of {now.steps}: {now.doing}")


def _eval_counts(now: EvalProgress) -> str:
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


def confirm_transfer(rest: int, as_json: bool) -> None:
    """Ask whether ``rest`` bytes are to be fetched; a no ends the command, which is no failure.

    Where nobody can be asked the command ends as wrong input.
    """
    from scenewright.providers.hub.needs import size_words

    if as_json or not sys.stdin.isatty():
        raise fail(
            f"{size_words(rest)} would be fetched: add --yes to do so without being asked",
            Exit.USAGE,
        )
    if not typer.confirm(f"Fetch {size_words(rest)}?", default=True, err=True):
        raise typer.Exit(int(Exit.OK))


@contextmanager
def show_transfer(rest: int | None, size: int | None, where: Console) -> Iterator[PullCallbacks]:
    """What a transfer tells of itself, shown on ``where``.

    ``rest`` are the bytes that are still to come, ``size`` those that will be checked; none if
    they are not known.
    """
    from scenewright.providers.hub.needs import size_words
    from scenewright.providers.hub.pull import PullCallbacks

    def told(text: str) -> None:
        where.print(Text(text), soft_wrap=True)

    if not where.is_terminal:
        yield PullCallbacks(moved=_Tenths(rest, where).moved, told=told)
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=where,
    )
    with bars:
        title = "fetching" if rest is None else f"fetching {size_words(rest)}"
        come = bars.add_task(title, total=rest, visible=rest != 0)
        seen = bars.add_task("checking", total=size)
        yield PullCallbacks(
            moved=lambda count: bars.advance(come, count),
            checked=lambda count: bars.advance(seen, count),
            told=lambda text: bars.print(Text(text)),
        )


class _Tenths:
    """Says on a stream that is no terminal how far it is: at each tenth, or each 100 MB."""

    def __init__(self, total: int | None, where: Console) -> None:
        self._step = total / 10 if total else 1e8
        self._total, self._where = total, where
        self._moved = self._said = 0
        self._lock = threading.Lock()

    def moved(self, count: int) -> None:
        """``count`` bytes more."""
        from scenewright.providers.hub.needs import size_words

        with self._lock:
            self._moved += count
            step = int(self._moved / self._step)
            if step > self._said:
                self._said = step
                of = f" of {size_words(self._total)}" if self._total else ""
                self._where.print(size_words(self._moved) + of, soft_wrap=True)

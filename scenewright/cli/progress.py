"""Progress of commands and transfers: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer
from rich import progress as rich
from rich.console import Console
from rich.text import Text

from scenewright.cli.console import Exit, console, debugging, fail, say

if TYPE_CHECKING:
    from scenewright.evals.runner.progress import Progress as EvalProgress
    from scenewright.providers.hub.pull import PullCallbacks

T = TypeVar("T")
_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


class Counter(Protocol):
    """Callback that shows progress."""

    def __call__(self, done: int, total: int | None, doing: str = "", more: str = "") -> None:
        """Show that ``done`` of ``total`` (0 or None: not known) is done.

        ``doing`` is the step; empty: the title. ``more`` follows the numbers.
        """
        ...


@contextmanager
def show_progress(
    title: str, quiet: bool, lines: bool = True, *, tenths: bool = False
) -> Iterator[Counter]:
    """Yield a progress callback, whose calls are shown until the block ends.

    Nothing is shown if ``quiet``, and without ``lines`` nothing where there is no terminal.
    ``tenths``: where there is no terminal, also print a line for each tenth.
    """
    where = console(stderr=True)
    if quiet or not (lines or where.is_terminal):
        yield lambda done, total, doing="", more="": None
        return
    if not where.is_terminal:
        yield _Lines(where, title, tenths)
        return
    columns = (
        *(rich.SpinnerColumn(), rich.TextColumn("{task.description}"), rich.BarColumn()),
        *(rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TimeRemainingColumn()),
        rich.TextColumn("{task.fields[more]}"),
    )
    with rich.Progress(*columns, console=where, transient=True) as bar:
        task = bar.add_task(title, total=None, more="")
        before: tuple[int, int | None] = (0, None)

        def show(done: int, total: int | None, doing: str = "", more: str = "") -> None:
            nonlocal before
            if before[1] and (done < before[0] or total != before[1]):
                # Something else is counted: its time is its own.
                bar.reset(task)
            before = done, total
            bar.update(
                task, completed=done, total=total or None, description=doing or title, more=more
            )

        yield show


class _Lines:
    """Progress as lines: when a step begins or ends, and now and then with the time left."""

    def __init__(self, where: Console, title: str, tenths: bool) -> None:
        self._where, self._title, self._tenths = where, title, tenths
        self._doing: str | None = None
        self._printed = self._began = 0.0
        self._done = self._first = 0
        self._total: int | None = None
        self._ended = False

    def __call__(self, done: int, total: int | None, doing: str = "", more: str = "") -> None:
        now, doing = time.monotonic(), doing or self._title
        if self._doing is None or done < self._done or total != self._total:
            self._began, self._first, self._total, self._ended = now, done, total, False
        tenth = self._tenths and total and self._done * 10 // total < done * 10 // total
        self._done = done
        ends = bool(total) and done == total and not self._ended
        if doing == self._doing and now - self._printed < _EVERY and not ends and not tenth:
            return
        self._printed, self._doing, self._ended = now, doing, self._ended or ends
        line = f"{doing} {done:,}/{total:,}" if total else doing
        line += f"  {more}" if more else ""
        if total and self._first < done < total:
            from scenewright.runs.report.words import duration

            left = (now - self._began) / (done - self._first) * (total - done)
            line += f", about {duration(left)} left"
        say(line, "", self._where)


async def each_picture(
    paths: Sequence[Path],
    work: Callable[[Path], Awaitable[T]],
    errors: tuple[type[Exception], ...],
    quiet: bool,
) -> tuple[list[T], int]:
    """Return the results of ``work`` on each picture, and how many pictures failed.

    One of ``errors`` is printed and the other pictures go on; a single picture raises it.
    """
    where, alone = console(stderr=True), len(paths) == 1
    done: list[T] = []
    failed = 0
    with show_progress("loading the models", quiet or (alone and not where.is_terminal)) as show:
        for number, path in enumerate(paths, start=1):
            show(number, len(paths), path.name)
            try:
                done.append(await work(path))
            except errors as error:
                if alone or debugging():
                    raise
                failed += 1
                say(Text.assemble((f"{path}: ", "bold red"), str(error)), "", where)
    return done, failed


@contextmanager
def show_eval_progress(total: int, quiet: bool) -> Iterator[Callable[[EvalProgress], None] | None]:
    """Yield a progress callback for an evaluation of ``total`` items; None if ``quiet``."""
    with show_progress("loading the models", quiet) as show:
        yield None if quiet else lambda now: show(now.items, total, now.doing, _eval_counts(now))


def _eval_counts(now: EvalProgress) -> str:
    counts = [f"{now.pictures} pictures", f"{now.judged} judged"]
    names = {"found": "found done", "failed": "failed", "unscored": "unscored"}
    names["sentinels"] = "sentinel pictures"
    counts += [f"{n} {text}" for name, text in names.items() if (n := getattr(now, name))]
    return ", ".join(counts + ([f"${now.usd:.4f}"] if now.usd else []))


def confirm_transfer(rest: int, as_json: bool) -> None:
    """Ask before ``rest`` bytes are fetched; a no ends the command, which is no failure.

    Where no person can answer, the command ends as wrong input.
    """
    from scenewright.providers.hub.needs import size_words

    if as_json or not sys.stdin.isatty():
        raise fail(f"{size_words(rest)} would be fetched: add --yes to do so without being asked")
    if not typer.confirm(f"Fetch {size_words(rest)}?", default=True, err=True):
        raise typer.Exit(int(Exit.OK))


@contextmanager
def show_status(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that ``doing`` goes on; yield a callback that shows another text."""
    where = console(stderr=True)
    if not where.is_terminal:
        yield lambda text: None
        return
    with where.status(doing) as status:
        yield status.update


@contextmanager
def show_transfer(rest: int | None, size: int | None) -> Iterator[PullCallbacks]:
    """Yield callbacks that show a transfer.

    ``rest`` is the number of bytes to fetch, ``size`` of those to check; None if not known.
    """
    from scenewright.providers.hub.needs import size_words
    from scenewright.providers.hub.pull import PullCallbacks

    where = console(stderr=True)
    if not where.is_terminal:
        # A line at each tenth, or each 100 MB.
        step, of = (rest / 10, f" of {size_words(rest)}") if rest else (1e8, "")
        lock, arrived = threading.Lock(), 0

        def moved(count: int) -> None:
            nonlocal arrived
            with lock:
                before, arrived = arrived, arrived + count
                if arrived // step > before // step:
                    say(size_words(arrived) + of, "", where)

        yield PullCallbacks(moved=moved, message=lambda text: say(text, "", where))
        return
    columns = (
        *(rich.TextColumn("{task.description}"), rich.BarColumn(), rich.DownloadColumn()),
        *(rich.TransferSpeedColumn(), rich.TimeRemainingColumn()),
    )
    with rich.Progress(*columns, console=where) as bars:
        title = "fetching" if rest is None else f"fetching {size_words(rest)}"
        fetched = bars.add_task(title, total=rest, visible=rest != 0)
        checked = bars.add_task("checking", total=size)
        yield PullCallbacks(
            moved=lambda count: bars.advance(fetched, count),
            checked=lambda count: bars.advance(checked, count),
            message=lambda text: say(text, "", bars.console),
        )

"""Transfers: asked for first, then shown as bars with speed and remaining time on a terminal, as a
line for each tenth elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli.console import Exit, fail

if TYPE_CHECKING:
    from scenewright.providers.hub.pull import PullCallbacks


def confirm(rest: int, as_json: bool) -> None:
    """Ask whether ``rest`` bytes are to be fetched; a no ends the command, which is no failure.

    Where nobody can be asked the command ends as wrong input.
    """
    from scenewright.providers.hub.known import size_words

    if as_json or not sys.stdin.isatty():
        raise fail(
            f"{size_words(rest)} would be fetched: add --yes to do so without being asked",
            Exit.USAGE,
        )
    if not typer.confirm(f"Fetch {size_words(rest)}?", default=True, err=True):
        raise typer.Exit(int(Exit.OK))


@contextmanager
def showing(rest: int | None, size: int | None, where: Console) -> Iterator[PullCallbacks]:
    """What a transfer tells of itself, shown on ``where``.

    ``rest`` are the bytes that are still to come, ``size`` those that will be checked; none if
    they are not known.
    """
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from scenewright.providers.hub.known import size_words
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
        from scenewright.providers.hub.known import size_words

        with self._lock:
            self._moved += count
            step = int(self._moved / self._step)
            if step > self._said:
                self._said = step
                of = f" of {size_words(self._total)}" if self._total else ""
                self._where.print(size_words(self._moved) + of, soft_wrap=True)

"""How far work on pictures is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from scenewright.cli.console import console

OnDone = Callable[[str, int, int, str], None]
"""Is told what is done at the moment, how much of it, of how much (0: not known), and more."""
_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def show_image_progress(quiet: bool) -> Iterator[OnDone]:
    """Gives what is to be told of the progress; it shows nothing if ``quiet``."""
    where = console(stderr=True)
    if quiet:
        yield lambda doing, done, total, more: None
        return
    if not where.is_terminal:
        yield _Lines(where)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TextColumn("{task.fields[more]}"), console=where, transient=True
    ) as bar:
        task = bar.add_task("", total=None, more="")

        def show(doing: str, done: int, total: int, more: str) -> None:
            bar.update(task, description=doing, completed=done, total=total or None, more=more)

        yield show


class _Lines:
    """A line when something begins, now and then, and when it is done."""

    def __init__(self, where: Console) -> None:
        self._where = where
        self._doing = ""
        self._said = 0.0

    def __call__(self, doing: str, done: int, total: int, more: str) -> None:
        now = time.monotonic()
        ended = bool(total) and done == total
        if doing == self._doing and now - self._said < _EVERY and not ended:
            return
        self._doing, self._said = doing, now
        count = f": {done} of {total}" if total else ""
        self._where.print(Text(f"{doing}{count}  {more}".rstrip()), soft_wrap=True)

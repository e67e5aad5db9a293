"""Progress of a long benchmark, on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scenewright.evals.runner.progress import Progress

T = TypeVar("T")

_EVERY_SECONDS = 10.0


def progress(title: str, items: Iterable[T], total: int) -> Iterator[T]:
    """``items`` as they are; tells how far they are taken at the end and every few seconds."""
    started = told = time.perf_counter()
    done = 0
    for item in items:
        yield item
        done += 1
        now = time.perf_counter()
        if now - told >= _EVERY_SECONDS:
            told = now
            _tell(title, done, total, now - started)
    _tell(title, done, total, time.perf_counter() - started)


def telling(title: str) -> Callable[[Progress], None]:
    """Tells how far an evaluation is, every few seconds."""
    began = told = time.perf_counter()

    def tell(now: Progress) -> None:
        nonlocal told
        seconds = time.perf_counter()
        if seconds - told >= _EVERY_SECONDS:
            told = seconds
            print(
                f"{title}: {now.doing}, {now.items} items, {now.pictures} pictures, "
                f"{now.judged} judged, {now.failed} failed, {seconds - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    return tell


def _tell(title: str, done: int, total: int, seconds: float) -> None:
    print(f"{title}: {done}/{total}, {seconds:.0f} s", file=sys.stderr, flush=True)

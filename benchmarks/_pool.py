"""Many independent tasks in several processes, each with its own models and one torch thread."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any, TextIO, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_QUIET_SECONDS = 30.0
"""How often a line is written where the output is no terminal."""


class PoolError(RuntimeError):
    """A process ended without a result; says what to do."""


def unordered(
    work: Callable[[T], R],
    tasks: Sequence[T],
    processes: int,
    prepare: Callable[..., None],
    arguments: tuple[Any, ...] = (),
) -> Iterator[R]:
    """``work(task)`` of every task, as they are done; ``prepare(*arguments)`` runs once a process.

    Functions and arguments are pickled. The processes end with this one, however it ends.
    Raises what a task raises, and ``PoolError`` if a process was killed.
    """
    # Read when torch is imported: the processes must not take each other's cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _begin, (prepare, arguments)
    )
    try:
        waiting = {pool.submit(work, task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise PoolError(
                "a process of the benchmark was ended (out of memory?): give the same command "
                "again, with fewer --processes; what was measured is kept"
            ) from error
        raise
    pool.shutdown()


def _begin(prepare: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    import torch

    # The parent alone answers Ctrl-C: it stores what has come in and ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    torch.set_num_threads(1)
    prepare(*arguments)


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


class Progress:
    """One line that tells how far a long work is and how long it will take."""

    def __init__(
        self,
        of: int,
        out: TextIO,
        before: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``before`` of the ``of`` steps were done earlier and say nothing about the speed."""
        self._of, self._out, self._before = of, out, before
        self._clock = clock
        self._begun = self._told = clock()
        self._done = before

    def step(self, note: str = "") -> None:
        """One more step is done."""
        self._done += 1
        now = self._clock()
        shown = self._out.isatty()
        if not shown and self._done < self._of and now - self._told < _QUIET_SECONDS:
            return
        self._told = now
        pace = (now - self._begun) / (self._done - self._before)
        left = duration(pace * (self._of - self._done))
        line = f"{self._done} of {self._of}, {left} left{'  ' + note if note else ''}"
        end = "\n" if not shown or self._done == self._of else ""
        self._out.write(f"\r\x1b[K{line}{end}" if shown else f"{line}{end}")
        self._out.flush()


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``1 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"

"""Flushing to the disk in the background: files are safe from a power cut soon after writing.

A file that was written and closed survives the end of its process; only a power cut can lose it
before it is flushed. Waiting for the disk after every small file costs more than a small model's
work, so code that can detect a lost file and make it again leaves the waiting to a
:class:`Flusher`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
DELAY = 1.0


def write_text(path: Path, text: str) -> None:
    """Write ``text`` and a line end so that the file is either the old one or the whole new one."""
    draft = path.with_name(f".{path.name}.tmp")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside ``path`` that replaces it at the end of the block.

    Readers find the old file or the whole new one; after an error the old one stays.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


class Flusher:
    """Flushes files and folders in a thread of its own, at most ``delay`` seconds later."""

    def __init__(self, delay: float = DELAY) -> None:
        """Create a flusher; its thread starts with the first file.

        ``delay`` is in seconds.
        """
        self.delay = delay
        self._noted: dict[Path, None] = {}
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._waiting = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def note(self, *paths: Path) -> None:
        """Have ``paths`` flushed soon, in this order after all that were noted before.

        Raises the ``OSError`` that an earlier flush beside the work met, once.
        """
        with self._lock:
            self._raise_failure()
            if self._closed.is_set():
                raise ValueError("the flusher is closed")
            for path in paths:
                self._noted.pop(path, None)
                self._noted[path] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="flusher", daemon=True)
                self._thread.start()
        # The thread is woken for the first path only: waking it for each costs more than the rest.
        if not self._waiting.is_set():
            self._waiting.set()

    def flush(self) -> None:
        """Return when all that was noted is on the disk. Raises ``OSError`` if that fails."""
        # Wait for a running flush: it may hold paths that are no longer noted.
        with self._flushing:
            with self._lock:
                self._raise_failure()
                paths = list(self._noted)
                self._noted.clear()
            for path in paths:
                flush(path)

    def close(self) -> None:
        """Flush all and end the thread. Raises ``OSError`` if the disk refuses."""
        with self._lock:
            self._closed.set()
        self._waiting.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _work(self) -> None:
        # Checked each time: closing may wake the thread just before it clears the event.
        while not self._closed.is_set():
            self._waiting.wait()
            # What comes within the delay shares one flush.
            if self._closed.wait(self.delay):
                return
            # Before the flush: a path noted during it asks for another.
            self._waiting.clear()
            try:
                self.flush()
            except OSError as error:
                with self._lock:
                    self._failure = error


def flush(path: Path) -> None:
    """Flush one file or folder to the disk; one that is gone needs none. Raises ``OSError``."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    except PermissionError:
        # Some systems open no folder.
        if path.is_dir():
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@asynccontextmanager
async def in_thread(made: Callable[[], AbstractContextManager[T]]) -> AsyncIterator[T]:
    """Return what the context manager of ``made`` gives; made, entered and left in threads.

    All three may wait for the disk. A cancellation waits for them: nothing stays open behind it.
    """

    def entered() -> tuple[AbstractContextManager[T], T]:
        manager = made()
        return manager, manager.__enter__()

    opening = asyncio.create_task(asyncio.to_thread(entered))
    try:
        manager, found = await _uncut(opening)
    except asyncio.CancelledError:
        if opening.exception() is None:
            await _uncut(_leaving(opening.result()[0]))
        raise
    try:
        yield found
    except BaseException as error:
        if not await _uncut(_leaving(manager, error)):
            raise
    else:
        await _uncut(_leaving(manager))


def _leaving(
    manager: AbstractContextManager[Any], error: BaseException | None = None
) -> asyncio.Task[bool | None]:
    about = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    return asyncio.create_task(asyncio.to_thread(manager.__exit__, *about))


async def _uncut(task: asyncio.Task[T]) -> T:
    """Return the result of ``task``, which is done before a cancellation gets through."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()

"""The log of a run: one event a line, each key once, written before the next step.

It is the run's record and its journal: a step that runs again after a kill takes from here
what it had already done.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from scenewright.core.flushing import Flusher
from scenewright.core.validation import first_problem
from scenewright.graphs.errors import LogError
from scenewright.graphs.events import EVENT, STREAMED, Edited, Event, Finished, Paused
from scenewright.graphs.record import LoopRecord, active_seconds


def read_events(path: Path) -> list[Event]:
    """Return the whole events of the log at ``path``; a torn last line (a run at work) is left out.

    Raises ``LogError`` if the file is missing or a line before the last is not an event.
    """
    return _parse(path, _read(path))[0]


class EventLog:
    """Append-only and idempotent by key. One process writes; others may read the file."""

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float] = time.time,
        flusher: Flusher | None = None,
    ) -> None:
        """Open or make the log, cutting off a torn last line; None keeps it in memory.

        With a ``flusher`` an event is safe from a power cut soon after it is stored, and
        the run's end, a pause and a person's edit at once, after all that the flusher was told
        of; without one, each at once.
        """
        self.path = path
        self.clock = clock
        self._flusher = flusher
        self.record = LoopRecord()
        self._ends: list[int] = []
        self._file: int | None = None
        if path is None:
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            events, self._ends = _parse(path, _read(path))
            os.ftruncate(self._file, self._size)
        except OSError as error:
            self.close()
            raise _failed(path, error) from error
        except LogError:
            self.close()
            raise
        self.record = LoopRecord(events)

    def append(self, event: Event) -> bool:
        """Store ``event``; False if its key was there already (then nothing is written).

        What is stored outlives the process. Raises ``LogError`` if the disk refuses; the log
        then ends as it did before.
        """
        if isinstance(event, STREAMED):
            raise LogError(f"events of the type {event.type} are streamed, not stored")
        if event.key in self.record:
            return False
        if self._file is not None:
            self._write(
                event.model_dump_json().encode() + b"\n",
                at_once=self._flusher is None or isinstance(event, Finished | Paused | Edited),
            )
        return self.record.apply(event)

    def cut(self, count: int) -> None:
        """Forget all events after the first ``count``. Raises ``LogError`` if the disk refuses."""
        if count >= len(self.record):
            return
        if self._file is not None:
            assert self.path is not None
            try:
                os.ftruncate(self._file, self._ends[count - 1] if count else 0)
                os.fsync(self._file)
            except OSError as error:
                raise _failed(self.path, error) from error
            del self._ends[count:]
        self.record = LoopRecord(self.record.events[:count])

    def now(self) -> float:
        """Return the time that the next event should carry."""
        return self.clock()

    def seconds(self) -> float:
        """Seconds in which this run was driven, until now."""
        events = self.record.events
        last = events[-1].at if events else self.now()
        return active_seconds(events) + max(0.0, self.now() - last)

    def settle(self) -> None:
        """Have all that was told reach the disk, so that what ends or pauses the run waits little.

        May be called in a thread. Raises ``LogError`` if the disk refuses.
        """
        if self._flusher is not None and self.path is not None:
            try:
                self._flusher.flush()
            except OSError as error:
                raise _failed(self.path, error) from error

    def close(self) -> None:
        """Close the file; what was stored stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def _size(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _write(self, line: bytes, *, at_once: bool) -> None:
        assert self._file is not None
        assert self.path is not None
        try:
            if at_once and self._flusher is not None:
                # The end must not be told before what it rests on is safe.
                self._flusher.flush()
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if at_once:
                os.fsync(self._file)
            elif self._flusher is not None:
                self._flusher.note(self.path)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise _failed(self.path, error) from error
        self._ends.append(self._size + len(line))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LogError(f"there is no event log {path}: name the folder of a run") from None
    except OSError as error:
        raise _failed(path, error) from error


def _parse(path: Path, data: bytes) -> tuple[list[Event], list[int]]:
    """Return the events, and where each one's line ends, in bytes from the beginning."""
    events: list[Event] = []
    ends: list[int] = []
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("it has no end")
            event = EVENT.validate_json(line)
        except (ValidationError, ValueError) as error:
            # A kill or a power cut takes the end away; anything else is damage.
            if number == len(lines):
                break
            reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise LogError(
                f"{path}, line {number}: not an event of this version ({reason}). "
                "Restore the file, or start the run in another folder",
                number,
            ) from error
        events.append(event)
        ends.append((ends[-1] if ends else 0) + len(line))
    return events, ends


def _failed(path: Path, error: OSError) -> LogError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return LogError(
            f"no space left for {path}: free some and run the same command again; "
            "it goes on from the last finished step"
        )
    return LogError(
        f"{path} cannot be used: {error.strerror or error}. "
        "Check that the folder is writable, or choose another"
    )

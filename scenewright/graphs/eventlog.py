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
from typing import TypeVar

from pydantic import ValidationError

from scenewright.core.errors import ScenewrightError
from scenewright.core.flushing import Flusher
from scenewright.core.validation import first_problem
from scenewright.graphs.events import (
    EVENT,
    STREAMED,
    Edited,
    Event,
    Finished,
    Paused,
    RunStarted,
)
from scenewright.graphs.run_status import active_seconds, end_of, is_paused

E = TypeVar("E")


class LogError(ScenewrightError, RuntimeError):
    """An event log that cannot be read or written; says which line and what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """``line``: the damaged line, from 1."""
        super().__init__(message)
        self.line = line


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
        self._events: list[Event] = []
        self._ends: list[int] = []
        self._by_key: dict[str, Event] = {}
        self._file: int | None = None
        if path is None:
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._events, self._ends = _parse(path, _read(path))
            os.ftruncate(self._file, self._size)
        except OSError as error:
            self.close()
            raise _failed(path, error) from error
        except LogError:
            self.close()
            raise
        self._by_key = {event.key: event for event in self._events}

    @property
    def events(self) -> tuple[Event, ...]:
        """All stored events, oldest first."""
        return tuple(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def find(self, key: str) -> Event | None:
        """Return the stored event of that key; None if there is none."""
        return self._by_key.get(key)

    def get(self, key: str, kind: type[E]) -> E | None:
        """Return the stored event of that key; None if there is none.

        ``LogError`` for another type.
        """
        event = self._by_key.get(key)
        if event is None:
            return None
        if not isinstance(event, kind):
            raise LogError(f"{self.path}: event {key} is a {type(event).__name__}")
        return event

    def append(self, event: Event) -> bool:
        """Store ``event``; False if its key was there already (then nothing is written).

        What is stored outlives the process. Raises ``LogError`` if the disk refuses; the log
        then ends as it did before.
        """
        if isinstance(event, STREAMED):
            raise LogError(f"events of the type {event.type} are streamed, not stored")
        if event.key in self._by_key:
            return False
        if self._file is not None:
            self._write(
                event.model_dump_json().encode() + b"\n",
                at_once=self._flusher is None or isinstance(event, Finished | Paused | Edited),
            )
        self._events.append(event)
        self._by_key[event.key] = event
        return True

    def cut(self, count: int) -> None:
        """Forget all events after the first ``count``. Raises ``LogError`` if the disk refuses."""
        if count >= len(self._events):
            return
        if self._file is not None:
            assert self.path is not None
            try:
                os.ftruncate(self._file, self._ends[count - 1] if count else 0)
                os.fsync(self._file)
            except OSError as error:
                raise _failed(self.path, error) from error
            del self._ends[count:]
        for event in self._events[count:]:
            del self._by_key[event.key]
        del self._events[count:]

    def now(self) -> float:
        """Return the time that the next event should carry."""
        return self.clock()

    def seconds(self) -> float:
        """Seconds in which this run was driven, until now."""
        last = self._events[-1].at if self._events else self.now()
        return active_seconds(self._events) + max(0.0, self.now() - last)

    @property
    def started(self) -> RunStarted | None:
        """The first event, if the run has begun."""
        return next((e for e in self._events if isinstance(e, RunStarted)), None)

    @property
    def over(self) -> bool:
        """Whether the run has come to an end that no edit has gone on from."""
        return end_of(self._events) is not None

    @property
    def paused(self) -> bool:
        """Whether the run waits for a person before its next plan."""
        return is_paused(self._events)

    @property
    def edits(self) -> dict[str, Edited]:
        """The edits so far, oldest first, by their own keys."""
        return {event.edit_key: event for event in self._events if isinstance(event, Edited)}

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

"""Events of runs for listeners: from the event log first, then as they happen.

A stored event has a number, its place in the run's event log; whoever has heard the events up to
a number goes on after it. Denoising steps, partial images and requests that are sent again have
none: they are told to those who listen just then, and the latest of each kind to who comes before
the next stored event. A partial image of another process is read from the run folder where that is
shared, and there that process finds whether anybody looks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.runs.folder import EVENTS, PARTIAL_IMAGE, WATCHED
from scenewright.service.core.errors import DamagedRun, Unavailable
from scenewright.service.core.jobs.base import set_within

_MOST_TOLD = 256
PARTIAL = "partial_image"
_WATCHED_SECONDS = 10.0
"""Time after which nobody of another process looks any more if no mark says so again."""


@dataclass(frozen=True, slots=True)
class BroadcastEvent:
    """Something to tell."""

    kind: str
    """Type of the event, or ``status`` for where the run stands."""
    data: str
    """One line of JSON."""
    number: int | None = None
    """Place in the event log, from 0; none for what is not kept."""


@dataclass(eq=False, slots=True)
class _Ear:
    """Listeners of one run. Numbered events are never dropped: they are read from the log."""

    events: deque[BroadcastEvent] = field(default_factory=lambda: deque(maxlen=_MOST_TOLD))
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class EventBroadcaster:
    """All that is told in this process. One event loop uses it."""

    def __init__(self, look_seconds: float = 5.0, *, marks: bool = False) -> None:
        """``look_seconds``: how often who hears nothing looks up what another process has done.

        ``marks``: whether run folders are told that somebody looks, for other processes.
        """
        self.look_seconds = look_seconds
        self._marks = marks
        self._watching: Counter[str] = Counter()
        self.closed = False
        """Set at the end of the service: nobody listens any longer."""
        self._ears: dict[str, set[_Ear]] = defaultdict(set)
        self._latest: dict[str, dict[str, BroadcastEvent]] = defaultdict(dict)
        self.dropped = 0
        """Events without a number that a slow listener was not told of."""

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return sum(len(ears) for ears in self._ears.values())

    def watched(self, run: str, folder: Path) -> bool:
        """Return whether anybody looks at ``run``, here or in a process that has its ``folder``.

        May be called from any thread.
        """
        if self._watching[run]:
            return True
        try:
            return time.time() - (folder / WATCHED).stat().st_mtime < _WATCHED_SECONDS
        except OSError:
            return False

    def tell(self, run: str, told: BroadcastEvent) -> None:
        """Tell who listens to ``run``."""
        if told.number is None and told.kind != "status":
            self._latest[run][told.kind] = told
        else:
            self._latest.pop(run, None)
        for ear in self._ears.get(run, ()):
            if len(ear.events) == _MOST_TOLD:
                self.dropped += 1
            ear.events.append(told)
            ear.woken.set()

    def close(self) -> None:
        """Let all who listen go: the service ends."""
        self.closed = True
        for ears in self._ears.values():
            for ear in ears:
                ear.woken.set()

    async def follow(
        self,
        run: str,
        folder: Path | Callable[[], Awaitable[Path]],
        status: Callable[[], Awaitable[tuple[str, bool]]],
        after: int = -1,
        *,
        watching: bool = False,
    ) -> AsyncGenerator[BroadcastEvent | None, None]:
        """Yield the events of ``run`` after event number ``after``, until it ends or pauses.

        ``folder`` is the run folder, or fetches it as it is now. ``status`` gives the run's status
        as JSON and whether it has ended or paused. None is yielded when nothing has happened for a
        while. ``watching``: partial images are wanted. Raises ``DamagedRun`` for a line that is no
        event.
        """
        count, place = after + 1, None
        said, shown = "", ""
        with self._listening(run, watching) as ear:
            missed = tuple(self._latest.get(run, {}).values())
            while True:
                # Before the log is read: what comes meanwhile wakes the ear again.
                ear.woken.clear()
                state, still = await status()
                lines: list[str] = []
                if isinstance(folder, Path):
                    place, lines = await asyncio.to_thread(
                        read_lines, folder / EVENTS, place, count
                    )
                else:
                    try:
                        # What is fetched may be another file each time.
                        path = await folder() / EVENTS
                        lines = (await asyncio.to_thread(read_lines, path, None, count))[1]
                    except Unavailable:
                        # While it goes on there is another look; its end must not be left out.
                        if still:
                            raise
                for line in lines:
                    yield _stored(run, line, count)
                    count += 1
                if state != said:
                    said = state
                    yield BroadcastEvent("status", state)
                if still or self.closed:
                    return
                if watching and self._marks and isinstance(folder, Path):
                    # Before the run begins it has no folder; later its partial images are not shown
                    # here.
                    with suppress(OSError):
                        await asyncio.to_thread((folder / WATCHED).touch)
                for told in missed:
                    if self._latest.get(run, {}).get(told.kind) is told:
                        yield told
                        shown = told.data if told.kind == PARTIAL else shown
                missed = ()
                # What this process draws is told as it comes.
                if isinstance(folder, Path) and PARTIAL not in self._latest.get(run, {}):
                    drawn = await asyncio.to_thread(read_partial, folder)
                    if drawn not in ("", shown):
                        yield BroadcastEvent(PARTIAL, shown := drawn)
                async for live in self._heard(ear, count):
                    if live is None:
                        yield None
                        break
                    if live.number is not None:
                        count = live.number + 1
                        # Its place in the file is known only to who reads the file.
                        place = None
                    if live.kind == "status":
                        break
                    shown = live.data if live.kind == PARTIAL else shown
                    yield live

    async def _heard(self, ear: _Ear, count: int) -> AsyncGenerator[BroadcastEvent | None, None]:
        """Yield live events; None at the end, when the log and the status must be read."""
        while True:
            while ear.events:
                told = ear.events.popleft()
                if told.number is None or told.number == count:
                    yield told
                    if told.kind == "status":
                        return
                    count += told.number is not None
                elif told.number > count:
                    # Some were dropped: the log has them.
                    return
            if not await set_within(ear.woken, self.look_seconds):
                yield None
                return
            if not ear.events:
                return
            ear.woken.clear()

    @contextmanager
    def _listening(self, run: str, watching: bool) -> Iterator[_Ear]:
        ear = _Ear()
        self._ears[run].add(ear)
        self._watching[run] += watching
        try:
            yield ear
        finally:
            self._watching[run] -= watching
            if not self._watching[run]:
                del self._watching[run]
            self._ears[run].discard(ear)
            if not self._ears[run]:
                del self._ears[run]


def _stored(run: str, line: str, number: int) -> BroadcastEvent:
    """Return the event of a line of the log; ``DamagedRun`` if it is none."""
    try:
        return BroadcastEvent(str(json.loads(line)["type"]), line, number)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DamagedRun(run, number + 1) from error


def read_partial(folder: Path) -> str:
    """Return the newest partial image in a run folder as its event's JSON; empty: there is none."""
    try:
        return (folder / PARTIAL_IMAGE).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def count_lines(path: Path) -> int:
    """Return how many whole lines the event log has; no log yet: none."""
    place, _ = read_lines(path, None, 2**62)
    return 0 if place is None else place[0]


def read_lines(
    path: Path, place: tuple[int, int] | None, count: int
) -> tuple[tuple[int, int] | None, list[str]]:
    """Return the whole lines of the event log from line ``count`` on, and a place to read on from.

    ``place`` is (line, byte) of an earlier read. No log yet: no lines.
    """
    line, offset = place if place is not None and place[0] <= count else (0, 0)
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return None, []
    found: list[str] = []
    for raw in data.splitlines(keepends=True):
        if not raw.endswith(b"\n"):
            break
        if line >= count:
            found.append(raw[:-1].decode(errors="replace"))
        line += 1
        offset += len(raw)
    return (line, offset), found

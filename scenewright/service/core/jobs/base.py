"""The port of the service's jobs: what brings waiting runs to workers.

The rows of runs as their own queue: one process, or a few on one SQLite file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from scenewright.core.errors import ScenewrightError

Note = Callable[[BaseException], bool]
"""Notes what an error says of the storage; whether the log has it by that."""


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait until ``event`` is set, or for so many seconds; whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class JobError(ScenewrightError, OSError):
    """The jobs cannot be brought or kept now: their database is away. It is tried again."""


class Taker(Protocol):
    """A worker, as those see it who bring it runs."""

    @property
    def running(self) -> int:
        """Runs that it drives at once."""

    @property
    def has_room(self) -> bool:
        """Whether it may begin a further run."""

    @property
    def draining(self) -> bool:
        """Whether it takes no further runs."""

    async def begin(self, run: str | None = None) -> asyncio.Task[bool] | None:
        """Claim a run and drive it: ``run``, or the one that has waited longest.

        None if it does not wait (or none does); the task tells whether the run is in line again,
        and cancelling it stops the run. Raises what a database raises that is away.
        """

    def note(self, error: BaseException) -> bool:
        """Note an error of the database; whether the log has it by that."""

    async def room(self) -> None:
        """Return once there is room for a further run, or none is taken any more."""


class Jobs(Protocol):
    """Brings waiting runs to the workers of all processes."""

    async def waits(self, run: str) -> None:
        """Have a worker take ``run`` up, whose row says that it waits.

        A failure is only logged: a run that waits is found by the next look all the same.
        """

    async def bring(self, worker: Taker) -> None:
        """Have ``worker`` take runs up, until it drains and :meth:`stop` is called."""

    async def look(self, freed: Sequence[str]) -> None:
        """Mend what a process that died has left, now and then.

        ``freed`` are runs that wait again because their worker is gone. Raises ``JobError``.
        """

    def wake(self) -> None:
        """Something has changed: there may be room, or a run that waits."""

    def stop(self) -> None:
        """Bring nothing any more."""


log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""Between two looks for runs that another process has put in line."""
_RETRY_SECONDS = 1.0


class RowJobs:
    """Brings the run that has waited longest, claimed in its row."""

    def __init__(self) -> None:
        """Of one process."""
        self._woken = asyncio.Event()

    async def waits(self, run: str) -> None:
        """See ``Jobs``."""
        self._woken.set()

    def wake(self) -> None:
        """See ``Jobs``."""
        self._woken.set()

    def stop(self) -> None:
        """See ``Jobs``."""
        self._woken.set()

    async def look(self, freed: Sequence[str]) -> None:
        """See ``Jobs``."""
        if freed:
            self._woken.set()

    async def bring(self, worker: Taker) -> None:
        """See ``Jobs``."""
        while not worker.draining:
            # Before the rows are looked at: a run that comes meanwhile wakes it again.
            self._woken.clear()
            wait = _LOOK_SECONDS
            try:
                while worker.has_room and not worker.draining and await worker.begin() is not None:
                    pass
            except (SQLAlchemyError, OSError) as error:
                if not worker.note(error):
                    log.exception("the database cannot be used; the worker tries again")
                wait = _RETRY_SECONDS
            await set_within(self._woken, wait)

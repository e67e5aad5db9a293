"""The port of the service's jobs: what brings waiting runs to workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol


class JobError(OSError):
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

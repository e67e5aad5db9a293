"""The rows of runs as their own queue: one process, or a few on one SQLite file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from scenewright.service.core.jobs.base import Taker

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
            except (SQLAlchemyError, OSError):
                log.exception("the database cannot be used; the worker tries again")
                wait = _RETRY_SECONDS
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                continue

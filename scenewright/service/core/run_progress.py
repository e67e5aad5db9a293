"""How far a run has come, kept in the database beside the driving of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scenewright.service.core.run_row import Run
from scenewright.service.core.store import RunStore

log = logging.getLogger(__name__)


@asynccontextmanager
async def save_run_progress(
    store: RunStore, run: Run, summary: Callable[[], Mapping[str, Any]]
) -> AsyncIterator[Callable[[], None]]:
    """A function that says that ``run`` has come further; ``summary`` is kept soon after.

    What comes while the database is at work is kept together. The run does not wait for it, nor
    does it end with it: its folder knows more, and the next to be kept holds all of it.
    """
    changed = asyncio.Event()
    ending = False

    async def work() -> None:
        while True:
            await changed.wait()
            changed.clear()
            if ending:
                return
            try:
                await store.told(run, summary())
            except (SQLAlchemyError, OSError) as error:
                log.warning("how far run %s has come cannot be kept now: %s", run.id, error)

    task = asyncio.create_task(work(), name=f"keeping {run.id}")
    try:
        yield changed.set
    finally:
        ending = True
        changed.set()
        # What is being written is written to its end: nothing older may come after the run's end.
        await asyncio.shield(task)

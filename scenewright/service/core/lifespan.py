"""The service opened: its database, its checkpoints and its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.config.settings import Settings
from scenewright.core.error_text import library_texts_withheld
from scenewright.service.core import database
from scenewright.service.core.artifacts.stored import files_of
from scenewright.service.core.jobs.base import Jobs, RowJobs
from scenewright.service.core.observing.observers import Observability
from scenewright.service.core.parts import Models
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings, check
from scenewright.service.core.storage import Storage


@asynccontextmanager
async def running(
    settings: ServiceSettings,
    *,
    base: Settings | None = None,
    models: Models | None = None,
    observing: Observability | None = None,
) -> AsyncIterator[Service]:
    """Return the service with its database open and its worker at work; drained at the end.

    Without a worker where ``settings.work`` is false; raises ``SettingsError`` if no other process
    could have one. ``observing`` is told what happens, by default as the settings
    say, and closed at the end.
    """
    check(settings)
    observing = observing or Observability.of(settings)
    async with (
        aclosing(observing),
        database.open_database(settings) as engine,
        _watched(settings, engine) as storage,
        _checkpoints(settings) as checkpoints,
        _jobs(settings, engine, storage) as jobs,
        files_of(settings) as (artifacts, uploads),
    ):
        service = Service(
            settings, engine, base=base, models=models, checkpoints=checkpoints,
            observing=observing, jobs=jobs, artifacts=artifacts, uploads=uploads, storage=storage,
        )  # fmt: skip
        worker = service.worker
        # Reasons of answers and of repeated calls are shown to clients.
        with library_texts_withheld(service.disclosure.text):
            if settings.work:
                working = asyncio.create_task(worker.run(), name="worker")
            else:
                working = None
                worker.ready.set()
            try:
                yield service
            finally:
                service.broadcaster.close()
                await worker.drain(settings.drain_seconds)
                if working is not None:
                    await working
                service.worker_thread.close()


@asynccontextmanager
async def _watched(settings: ServiceSettings, engine: AsyncEngine) -> AsyncIterator[Storage]:
    """Return the storage, watched until the end."""
    storage = Storage(settings, engine)
    watching = asyncio.create_task(storage.watch(), name="storage")
    try:
        yield storage
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


@asynccontextmanager
async def _checkpoints(settings: ServiceSettings) -> AsyncIterator[Any]:
    """LangGraph's checkpoints where the runs' rows are: in PostgreSQL, or in the run folders.

    With working copies in place of shared folders they stay in those: a server that has lost a run
    without knowing it must not write where the next one looks, and the event log leads there, too.
    """
    if not settings.shared or settings.artifacts is not None:
        yield None
        return
    from scenewright.service.core.database import checkpoints_of

    async with checkpoints_of(settings) as found:
        yield found


@asynccontextmanager
async def _jobs(
    settings: ServiceSettings, engine: AsyncEngine, storage: Storage
) -> AsyncIterator[Jobs]:
    """Return the job queue: Procrastinate in PostgreSQL, or the rows themselves."""
    if not settings.shared:
        yield RowJobs()
        return
    from scenewright.service.core.jobs.procrastinating import procrastinate_jobs

    async with procrastinate_jobs(settings, engine, storage.note) as found:
        yield found

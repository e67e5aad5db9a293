"""The service opened: its database, its checkpoints and its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.config.settings import Settings
from scenewright.core.error_text import library_texts_withheld
from scenewright.service.core import database
from scenewright.service.core.artifacts.stored import files_of
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
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        observing = await enter(aclosing(observing or Observability.of(settings)))
        engine = await enter(database.open_database(settings))
        storage = await enter(_watched(settings, engine))
        # With working copies in place of shared folders checkpoints stay in those: a server that
        # has lost a run without knowing it must not write where the next one looks, and the event
        # log leads there, too.
        checkpoints = None
        if settings.shared and settings.artifacts is None:
            checkpoints = await enter(database.checkpoints_of(settings))
        jobs = None
        if settings.shared:
            from scenewright.service.core.jobs.procrastinating import procrastinate_jobs

            jobs = await enter(procrastinate_jobs(settings, engine, storage.note))
        artifacts, uploads = await enter(files_of(settings))
        service = Service(
            settings, engine, base=base, models=models, checkpoints=checkpoints,
            observing=observing, jobs=jobs, artifacts=artifacts, uploads=uploads, storage=storage,
        )  # fmt: skip
        worker = service.worker
        # Reasons of answers and of repeated calls are shown to clients.
        stack.enter_context(library_texts_withheld(service.disclosure.text))
        working = None
        if settings.work:
            working = asyncio.create_task(worker.run(), name="worker")
        else:
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

"""The files of a service where its settings say that they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scenewright.service.core.artifacts.base import Artifacts
from scenewright.service.core.artifacts.objects import objects_at
from scenewright.service.core.artifacts.stored import StoredArtifacts
from scenewright.service.core.artifacts.upload_store import UPLOADS_FOLDER, UploadStore
from scenewright.service.core.settings import ServiceSettings


@asynccontextmanager
async def files_of(
    settings: ServiceSettings,
) -> AsyncIterator[tuple[Artifacts | None, UploadStore | None]]:
    """The files of runs and the sent pictures in the store; none where run folders are shared.

    Raises ``SettingsError`` as ``objects_at`` does.
    """
    if settings.artifacts is None:
        yield None, None
        return
    objects = await asyncio.to_thread(objects_at, settings.artifacts)
    stored = StoredArtifacts(objects, settings.runs)
    try:
        yield stored, UploadStore(settings.data / UPLOADS_FOLDER, objects)
    finally:
        await asyncio.to_thread(stored.close)

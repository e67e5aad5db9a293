"""A run taken away for good: its row, its folder, its checkpoints, the pictures sent for it."""

from __future__ import annotations

import asyncio

from sqlalchemy import and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from scenewright.runs.folder import RunError, RunFolder
from scenewright.service.core.errors import Conflict
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run
from scenewright.service.core.tables import RUNS

_AT_WORK = ("queued", "running")


async def remove(service: Service, identity: Identity, run: str) -> None:
    """Take a run of the tenant away. What it has cost stays charged to its key.

    Raises ``NotFound`` for any other run, ``Conflict`` for one that waits or is at work. Cut off
    in the middle, the run is still listed, and can be taken away again.
    """
    found = await service.store.get(run, identity.tenant)
    # One writer at a time: while the folder goes, nobody puts the run back in line.
    async with service.engine.begin() as connection:
        status = (
            await connection.execute(
                select(RUNS.c.status).where(RUNS.c.id == run).with_for_update()
            )
        ).scalar_one_or_none()
        if status in _AT_WORK:
            raise Conflict(f"the run is {status}: cancel it first, then take it away")
        await _forget_checkpoints(service, run)
        await service.artifacts.remove(run)
        for digest in await _only_for(connection, found):
            await asyncio.to_thread(service.uploads.forget, found.tenant, digest)
        await connection.execute(RUNS.delete().where(RUNS.c.id == run))


async def _forget_checkpoints(service: Service, run: str) -> None:
    """Where they lie beside the rows; those of a run folder go with it."""
    folder = RunFolder(service.folder(run))
    if service.checkpoints is None:
        return
    try:
        if folder.manifest() is None:
            return
    except RunError:
        return
    async with service.checkpoints(folder, lambda: 0) as saver:
        await saver.adelete_thread(saver.thread)


async def _only_for(connection: AsyncConnection, run: Run) -> list[str]:
    """The sent pictures that no other run of the tenant begins with."""
    given = {run.request.get("start"), run.request.get("mask")} - {None}
    alone = []
    for digest in sorted(map(str, given)):
        asked = RUNS.c.request
        others = and_(
            RUNS.c.tenant == run.tenant,
            RUNS.c.id != run.id,
            or_(asked["start"].as_string() == digest, asked["mask"].as_string() == digest),
        )
        counted = await connection.execute(select(func.count()).where(others))
        if not counted.scalar_one():
            alone.append(digest)
    return alone

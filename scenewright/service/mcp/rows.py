"""The rows of runs that agents direct: who has one open, and that it is open still."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import update

from scenewright.service.core.errors import Conflict
from scenewright.service.core.requests import AGENT
from scenewright.service.core.store import Run, RunStore
from scenewright.service.core.tables import RUNS

FREE = ("paused", "queued", "failed")
"""Where such a run waits for its next tool: ``queued`` is on its way to ``paused``."""
_PATIENCE = 5.0
_LOOK = 0.1


def is_agents(run: Run) -> bool:
    """Whether an agent directs the run with the director's tools."""
    return run.request.get("strategy") == AGENT


async def take(store: RunStore, run: str, tenant: str, owner: str, lease: float) -> Run:
    """The run as ``owner``'s, at work for ``lease`` seconds.

    Raises ``NotFound``, and ``Conflict`` for a run that no agent directs, that has ended, or that
    another server has open.
    """
    waited = 0.0
    while True:
        found = await store.get(run, tenant)
        _demand(found)
        if found.status in FREE and await _took(store, found, owner, lease):
            return await store.get(run, tenant)
        # A server that was killed held it: its lease runs out, or it is seen to be gone.
        if waited >= _PATIENCE:
            raise Conflict(
                "another server has this run open: send the call there, or try again when it "
                "has let go of it"
            )
        await asyncio.sleep(_LOOK)
        waited += _LOOK


def _demand(run: Run) -> None:
    if not is_agents(run):
        raise Conflict(
            "no agent directs this run, its strategy does: use edit_run for it, or begin a run of "
            "your own with open_scene"
        )
    if run.status == "finished":
        raise Conflict(
            "the run is over: look at it with get_run, or begin another one with open_scene"
        )
    if run.status == "cancelled":
        raise Conflict("the run was cancelled: call resume_run first to go on with it")


async def _took(store: RunStore, run: Run, owner: str, lease: float) -> bool:
    now = time.time()
    statement = (
        update(RUNS)
        .where(RUNS.c.id == run.id, RUNS.c.status.in_(FREE))
        .values(
            status="running", owner=owner, lease=now + lease, error=None, ended=None, wants="",
            updated=now,
        )
    )  # fmt: skip
    async with store.engine.begin() as connection:
        done = await connection.execute(statement)
        return bool(done.rowcount)

"""LangGraph's checkpoints in PostgreSQL, beside the runs' rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scenewright.providers.connection_worker import driver_url
from scenewright.service.core.settings import ServiceSettings

_AWAY_SECONDS = 120.0


@asynccontextmanager
async def checkpoints_of(settings: ServiceSettings) -> AsyncIterator[Any]:
    """The argument ``checkpoints`` of ``refine`` for runs whose rows are in PostgreSQL."""
    from psycopg_pool import AsyncConnectionPool

    from scenewright.graphs.postgres_checkpoints import postgres_checkpoints

    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        driver_url(settings.url),
        min_size=1,
        max_size=max(4, settings.running),
        open=False,
        # A run waits for a database that is started anew, and does not fail for it.
        check=AsyncConnectionPool.check_connection,
        timeout=_AWAY_SECONDS,
        kwargs={"autocommit": True, "prepare_threshold": 0},
    )
    await pool.open(wait=True)
    try:
        yield postgres_checkpoints(pool)
    finally:
        await pool.close()

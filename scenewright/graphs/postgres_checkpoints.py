"""Checkpoints of many runs in one PostgreSQL database, for a service on several machines.

They are LangGraph's own tables, so that its tools can read them. Needs the extra ``postgres``;
this module is imported only by who asks for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from scenewright.graphs.checkpoints import CheckpointFactory, LoopCheckpoints, RunPlace
from scenewright.graphs.errors import RunError, RunInterrupted

try:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg import AsyncConnection
    from psycopg import Error as PostgresError
    from psycopg.rows import DictRow, tuple_row
    from psycopg_pool import AsyncConnectionPool
except ImportError as error:
    raise RunError(
        f"checkpoints in PostgreSQL need the extra `postgres` ({error}): "
        "pip install 'scenewright[postgres]'"
    ) from error

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]
_SETUP_LOCK = 0x5CE2E317
"""Number of the advisory lock that one process holds while it makes the tables."""
_SETUP_PAUSE = 0.05
"""Seconds between two tries to get it."""


@dataclass
class _Tables:
    """Whether the tables behind a pool are known to be there."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    ready: bool = False


_TABLES: WeakKeyDictionary[Pool, _Tables] = WeakKeyDictionary()


def postgres_checkpoints(pool: Pool) -> CheckpointFactory:
    """Checkpoints in the database behind ``pool``, for ``refine(..., checkpoints=...)``.

    Every connection of the pool commits by itself (``kwargs={"autocommit": True}``). The tables
    are made at the first run. A run is known by the nonce of its manifest and by its place, so
    that a copied folder does not share the checkpoints of the original: without any it comes to
    its place again through its log. Raises ``RunError`` if the database cannot be used.
    """

    @asynccontextmanager
    async def opened(
        folder: RunPlace, event_count: Callable[[], int]
    ) -> AsyncIterator[LoopCheckpoints]:
        try:
            await _prepare(pool)
        except PostgresError as error:
            raise RunInterrupted(
                f"the checkpoints in PostgreSQL cannot be used: {error}. Check that the database "
                "is up and reached, then run the same again: it goes on"
            ) from error
        place = hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:16]
        thread = f"{folder.nonce()}:{place}"
        yield LoopCheckpoints(AsyncPostgresSaver(pool), event_count, thread, PostgresError)

    return opened


async def _prepare(pool: Pool) -> None:
    """Make the tables, once a pool and one process at a time."""
    tables = _TABLES.setdefault(pool, _Tables())
    async with tables.lock:
        if tables.ready:
            return
        async with pool.connection() as conn:
            if not conn.autocommit:
                # LangGraph writes without a transaction: nothing would be kept.
                raise RunError(
                    "the pool of the checkpoints must commit by itself: make it with "
                    "AsyncConnectionPool(..., kwargs={'autocommit': True})"
                )
            # Two processes that make the same table at once would fail.
            await _lock(conn)
            try:
                await AsyncPostgresSaver(conn).setup()
            finally:
                await conn.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))
        tables.ready = True


async def _lock(conn: AsyncConnection[DictRow]) -> None:
    """Hold the lock.

    A statement that waited for it would have a snapshot, for whose end the building of an index
    waits; so it is asked for again and again.
    """
    async with conn.cursor(row_factory=tuple_row) as cursor:
        while True:
            await cursor.execute("SELECT pg_try_advisory_lock(%s)", (_SETUP_LOCK,))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                return
            await asyncio.sleep(_SETUP_PAUSE)

"""Checkpoints of many runs in one PostgreSQL database, for a service on several machines.

They are LangGraph's own tables, so that its tools can read them. Needs the extra ``postgres``;
this module is imported only by who asks for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from scenewright.graphs.checkpoints import (
    CheckpointFactory,
    RunPlace,
    ahead,
    nested,
    place_of,
    waiting,
    with_event_count,
)
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
        folder: RunPlace, told: Callable[[], int]
    ) -> AsyncIterator[PostgresCheckpoints]:
        with _clear_errors():
            await _prepare(pool)
        place = hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:16]
        yield PostgresCheckpoints(pool, f"{folder.nonce()}:{place}", told)

    return opened


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except PostgresError as error:
        raise RunInterrupted(
            f"the checkpoints in PostgreSQL cannot be used: {error}. Check that the database is "
            "up and reached, then run the same again: it goes on"
        ) from error


class PostgresCheckpoints(AsyncPostgresSaver):
    """The checkpoints of one run among all that the database keeps.

    A database that fails raises ``RunError``.
    """

    def __init__(self, pool: Pool, thread: str, told: Callable[[], int]) -> None:
        """Store the checkpoints of the run that is called ``thread`` among all runs.

        ``told`` gives the number of events that the run's log holds. The tables are there: see
        :func:`postgres_checkpoints`.
        """
        super().__init__(pool)
        self.thread = thread
        self.told = told

    async def begun(self, config: RunnableConfig) -> bool:
        """Whether there is a checkpoint to go on from: see ``LoopCheckpoints``."""
        newest = await self.aget_tuple(config)
        if newest is None:
            return False
        if not ahead(newest.metadata, self.told()):
            return True
        with _clear_errors():
            await self.adelete_thread(config["configurable"]["thread_id"])
        return False

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint, or the one that ``config`` names; none if there is none."""
        with _clear_errors():
            return await super().aget_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint of the loop itself, with the number of events told so far."""
        if nested(config):
            return place_of(config, checkpoint)
        known = with_event_count(metadata, self.told())
        with _clear_errors():
            return await super().aput(config, checkpoint, known, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what the loop waits for; a task is repeated from the event log."""
        kept = waiting(writes)
        if kept and not nested(config):
            with _clear_errors():
                await super().aput_writes(config, kept, task_id, task_path)


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

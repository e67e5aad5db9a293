"""Where a loop stands: LangGraph's SQLite checkpoints, written without waiting.

LangGraph's own asynchronous store sends each statement to a thread and waits for the disk at
each commit. Here a checkpoint is one commit to the write-ahead log, made at once: less
work than waking a thread. It outlives the process, not always a power cut; a checkpoint that
was written survives whole or not at all, and :meth:`Checkpoints.begun` finds out one that
tells of more than the event log does.

The steps of nested graphs and the results of single tasks are not kept: a step that is run
again takes all it had done from the event log and the stores.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite import SqliteSaver

_TOLD = "events"


class Checkpoints(SqliteSaver):
    """The checkpoints of one run's loop; for the event loop of one process."""

    def __init__(self, conn: sqlite3.Connection, told: Callable[[], int]) -> None:
        """``told`` gives the number of events that the run's log holds."""
        super().__init__(conn)
        self.told = told

    @classmethod
    @contextmanager
    def opened(cls, path: Path, told: Callable[[], int]) -> Iterator[Checkpoints]:
        """The checkpoints in the database at ``path``, made if needed; closed at the end.

        Raises ``sqlite3.Error`` if it is no database or cannot be written.
        """
        conn = sqlite3.connect(path, check_same_thread=False)
        try:
            found = cls(conn, told)
            found.setup()
            # In a write-ahead log NORMAL waits for the disk only when the log is folded in.
            conn.execute("PRAGMA synchronous=NORMAL")
            yield found
        finally:
            conn.close()

    def begun(self, config: RunnableConfig) -> bool:
        """Whether there is a checkpoint to go on from.

        Checkpoints that know more events than the log are dropped: a power cut has taken the
        log's end, and the loop must come to that place again through what the log still has.
        """
        newest = self.get_tuple(config)
        if newest is None:
            return False
        known: Any = newest.metadata.get(_TOLD, 0)
        if known <= self.told():
            return True
        self.delete_thread(config["configurable"]["thread_id"])
        return False

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """:meth:`get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """:meth:`list`."""
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint of the loop itself, with the number of events told so far."""
        place = config["configurable"]
        if place.get("checkpoint_ns", ""):
            return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}
        counted: Any = {**metadata, _TOLD: self.told()}
        return self.put(config, checkpoint, counted, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep nothing: a task is repeated from the event log."""

    async def adelete_thread(self, thread_id: str) -> None:
        """:meth:`delete_thread`."""
        self.delete_thread(thread_id)

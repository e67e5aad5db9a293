"""Where a loop stands: LangGraph's checkpoints, never ahead of the event log.

The port is :class:`LoopCheckpoints`; here is the one that keeps them in an SQLite file, written
without waiting. LangGraph's own asynchronous store sends each statement to a thread and waits for
the disk at each commit. Here a checkpoint is one commit to the write-ahead log, made at once: less
work than waking a thread. It outlives the process, not always a power cut; a checkpoint that
was written survives whole or not at all, and :meth:`Checkpoints.begun` finds out one that
tells of more than the event log does.

The steps of nested graphs and the results of single tasks are not kept: a step that is run
again takes all it had done from the event log and the stores. Of the writes of a task only an
interrupt is kept, so that whoever reads the checkpoint sees what the loop waits for; what it was
resumed with is not, because the event log has it or it did not happen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite import SqliteSaver

INTERRUPT = "__interrupt__"
"""The channel in which LangGraph writes what a task waits for."""
_TOLD = "events"


@runtime_checkable
class LoopCheckpoints(Protocol):
    """What keeps the checkpoints of one run; besides this a ``BaseCheckpointSaver``.

    It keeps those of the loop itself, each with the number of events that the log held, and of
    the writes of tasks only interrupts.
    """

    @property
    def thread(self) -> str:
        """The LangGraph thread of the run, its own among all that the store keeps."""
        ...

    async def begun(self, config: RunnableConfig) -> bool:
        """Whether there is a checkpoint to go on from.

        Checkpoints that know more events than the log are dropped: a power cut has taken the
        log's end, and the loop must come to that place again through what the log still has.
        """
        ...


class RunPlace(Protocol):
    """What names a run: its folder, as ``scenewright.runs.folder.RunFolder`` has it."""

    @property
    def path(self) -> Path:
        """The folder."""
        ...

    def nonce(self) -> str:
        """Names the run among all runs."""
        ...


CheckpointFactory = Callable[[RunPlace, Callable[[], int]], AbstractAsyncContextManager[Any]]
"""Opens the checkpoints of the run in a folder, whose log holds as many events as the function
says: a context manager that gives a saver with the members of :class:`LoopCheckpoints`."""


def nested(config: RunnableConfig) -> bool:
    """Whether a checkpoint is one of a graph inside the loop."""
    return bool(config["configurable"].get("checkpoint_ns", ""))


def place_of(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    """Return the config that LangGraph goes on with after ``checkpoint``, kept or not."""
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}


def with_event_count(metadata: CheckpointMetadata, told: int) -> CheckpointMetadata:
    """``metadata`` with the number of events that the log holds."""
    return cast(CheckpointMetadata, {**metadata, _TOLD: told})


def ahead(metadata: Mapping[str, Any], told: int) -> bool:
    """Whether a checkpoint knows more events than ``told``."""
    return bool(metadata.get(_TOLD, 0) > told)


def waiting(writes: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Those of a task's writes that are kept: what it waits for."""
    return [write for write in writes if write[0] == INTERRUPT]


class Checkpoints(SqliteSaver):
    """The checkpoints of one run's loop; for the event loop of one process."""

    thread = "run"
    """The file holds one run."""

    def __init__(self, conn: sqlite3.Connection, told: Callable[[], int]) -> None:
        """``told`` gives the number of events that the run's log holds."""
        super().__init__(conn)
        self.told = told

    @classmethod
    @contextmanager
    def opened(cls, path: Path, told: Callable[[], int]) -> Iterator[Checkpoints]:
        """Return the checkpoints in the database at ``path``, made if needed; closed at the end.

        Raises ``sqlite3.Error`` if it is not a database or cannot be written.
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

    async def begun(self, config: RunnableConfig) -> bool:
        """Whether there is a checkpoint to go on from, as :class:`LoopCheckpoints` says."""
        newest = self.get_tuple(config)
        if newest is None:
            return False
        if not ahead(newest.metadata, self.told()):
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
        if nested(config):
            return place_of(config, checkpoint)
        return self.put(config, checkpoint, with_event_count(metadata, self.told()), new_versions)

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
            self.put_writes(config, kept, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """:meth:`delete_thread`."""
        self.delete_thread(thread_id)

"""Checkpoints of a loop: LangGraph's own, never ahead of the event log.

:class:`LoopCheckpoints` is the checkpointer of one run over any store of LangGraph's. It keeps each
checkpoint with the number of events that the log held, so that one that knows more of them than the
log has is found and dropped. Results of single tasks are not kept: a step that is run again takes
all it had done from the event log and the stores. Of the writes of a task only an interrupt is
kept, so that a reader of the checkpoint sees what the loop waits for; the resume value is not,
because the event log has it or it did not happen.

:class:`SqliteCheckpoints` is the store in a run folder, written without waiting. LangGraph's own
asynchronous store sends each statement to a thread and waits for the disk at each commit. Here a
checkpoint is one commit to the write-ahead log, made at once: less work than waking a thread. It
outlives the process, not always a power cut; a checkpoint that was written survives whole or not at
all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from scenewright.graphs.errors import RunInterrupted

INTERRUPT = "__interrupt__"
"""The channel in which LangGraph writes what a task waits for."""
GRAPH = 2
"""Version of the graph: checkpoints of another one are dropped, and its run replays its log."""
_EVENTS, _GRAPH = "events", "graph"


class RunPlace(Protocol):
    """Name of a run: its folder, as ``scenewright.runs.folder.RunFolder`` has it."""

    @property
    def path(self) -> Path:
        """The folder."""
        ...

    def nonce(self) -> str:
        """Names the run among all runs."""
        ...


class LoopCheckpoints(BaseCheckpointSaver[Any]):
    """The checkpointer of one run, over a store that may keep many.

    A store that fails with ``failure`` raises ``RunInterrupted``.
    """

    def __init__(
        self,
        store: BaseCheckpointSaver[Any],
        event_count: Callable[[], int],
        thread: str = "run",
        failure: type[Exception] | None = None,
    ) -> None:
        """``thread`` is the run's LangGraph thread, its own among all in the store."""
        super().__init__(serde=store.serde)
        self.store = store
        self.thread = thread
        self._event_count = event_count
        self._failure = failure or RunInterrupted

    async def begun(self, config: RunnableConfig) -> bool:
        """Return whether there is a checkpoint to go on from.

        Checkpoints that know more events than the log are dropped: a power cut has taken the
        log's end, and the loop must come to that place again through what the log still has. So
        are those of another version of the graph.
        """
        newest = await self.aget_tuple(config)
        if newest is None:
            return False
        known = cast(dict[str, Any], newest.metadata)
        if known.get(_GRAPH) == GRAPH and known.get(_EVENTS, 0) <= self._event_count():
            return True
        await self.adelete_thread(config["configurable"]["thread_id"])
        return False

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint, or the one that ``config`` names; None without one."""
        with self._clear_errors():
            return await self.store.aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints, newest first."""
        with self._clear_errors():
            async for one in self.store.alist(config, filter=filter, before=before, limit=limit):
                yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint of the loop itself with the number of events so far.

        Of a graph within it, which a part of a host may have, none is kept: the log has its work.
        """
        if config["configurable"].get("checkpoint_ns"):
            return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        marks = {_EVENTS: self._event_count(), _GRAPH: GRAPH}
        marked = cast(CheckpointMetadata, {**metadata, **marks})
        with self._clear_errors():
            return await self.store.aput(config, checkpoint, marked, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what the loop waits for; a task is repeated from the event log."""
        interrupts = [write for write in writes if write[0] == INTERRUPT]
        if interrupts and not config["configurable"].get("checkpoint_ns"):
            with self._clear_errors():
                await self.store.aput_writes(config, interrupts, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        with self._clear_errors():
            await self.store.adelete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version of a channel after ``current``."""
        return self.store.get_next_version(current, channel)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            if isinstance(error, RunInterrupted):
                raise
            raise RunInterrupted(
                f"the checkpoints cannot be used: {error}. Check that the database is up and "
                "reached, then run the same again: it goes on"
            ) from error


CheckpointFactory = Callable[[RunPlace, Callable[[], int]], AbstractAsyncContextManager[Any]]
"""Opens the checkpoints of the run in a folder, whose log holds as many events as the function
says: a context manager that gives a saver with the members of :class:`LoopCheckpoints`."""


class SqliteCheckpoints(SqliteSaver):
    """LangGraph's store in an SQLite file, for the event loop of one process."""

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[SqliteCheckpoints]:
        """Open the database at ``path``, made if needed; closed at the end.

        Raises ``sqlite3.Error`` if it is not a database or cannot be written.
        """
        conn = sqlite3.connect(path, check_same_thread=False)
        try:
            store = cls(conn)
            store.setup()
            # In a write-ahead log NORMAL waits for the disk only when the log is folded in.
            conn.execute("PRAGMA synchronous=NORMAL")
            yield store
        finally:
            conn.close()

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
        for one in self.list(config, filter=filter, before=before, limit=limit):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """:meth:`put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """:meth:`put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """:meth:`delete_thread`."""
        self.delete_thread(thread_id)

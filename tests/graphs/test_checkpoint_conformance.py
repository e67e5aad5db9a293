"""LangGraph's own conformance tests for the checkpointers of a loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from scenewright.graphs.checkpoints import LoopCheckpoints, SqliteCheckpoints
from tests.graphs.test_checkpoint_stores import database, pool_on

NOT_KEPT = {
    "test_put_child_namespace",
    "test_put_writes_basic",
    "test_put_writes_multiple_writes_same_task",
    "test_put_writes_multiple_tasks",
    "test_put_writes_preserves_task_id",
    "test_put_writes_preserves_channel_and_value",
    "test_put_writes_task_path",
    "test_put_writes_idempotent",
    "test_put_writes_special_channels",
    "test_put_writes_across_namespaces",
    "test_get_tuple_pending_writes",
    "test_get_tuple_respects_namespace",
    "test_list_by_namespace",
    "test_list_includes_pending_writes",
    "test_delete_thread_removes_writes",
    "test_delete_thread_removes_all_namespaces",
}
"""Tests of what the checkpointer of a loop leaves to the event log: results of tasks, and
checkpoints of graphs within the loop."""


async def failing(make: Any) -> set[str]:
    """Names of the tests that fail."""
    report = await validate(make)
    assert sum(found.tests_passed for found in report.results.values()) > 20
    failures = (one for found in report.results.values() for one in found.failures)
    return {failure.partition(":")[0] for failure in failures}


async def test_the_store_in_a_run_folder_conforms(tmp_path: Path) -> None:
    @checkpointer_test(name="SqliteCheckpoints")
    async def make() -> AsyncIterator[SqliteCheckpoints]:
        with SqliteCheckpoints.opened(tmp_path / "checkpoints.sqlite") as store:
            yield store

    assert await failing(make) == set()


async def test_the_checkpointer_of_a_loop_conforms_in_what_it_declares(tmp_path: Path) -> None:
    @checkpointer_test(name="LoopCheckpoints")
    async def make() -> AsyncIterator[LoopCheckpoints]:
        with SqliteCheckpoints.opened(tmp_path / "checkpoints.sqlite") as store:
            yield LoopCheckpoints(store, lambda: 0)

    assert await failing(make) == NOT_KEPT


async def test_the_loop_conforms_over_postgresql_too() -> None:
    postgres = pytest.importorskip("langgraph.checkpoint.postgres.aio")

    @checkpointer_test(name="LoopCheckpoints over PostgreSQL")
    async def make() -> AsyncIterator[LoopCheckpoints]:
        async with database() as where, pool_on(where, autocommit=True) as pool:
            store = postgres.AsyncPostgresSaver(pool)
            await store.setup()
            yield LoopCheckpoints(store, lambda: 0)

    assert await failing(make) == NOT_KEPT

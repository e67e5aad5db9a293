"""The checkpoints of a run: at once, of the loop alone, never ahead of the event log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from scenewright.graphs.checkpoints import LoopCheckpoints, SqliteCheckpoints

CONFIG: Any = {"configurable": {"thread_id": "run"}}


class State(TypedDict, total=False):
    done: list[str]


@contextmanager
def opened(path: Path, events: int) -> Iterator[LoopCheckpoints]:
    """The checkpoints of a run whose log has so many events."""
    with SqliteCheckpoints.opened(path) as store:
        yield LoopCheckpoints(store, lambda: events)


def graph(saver: LoopCheckpoints, failing: bool) -> Any:
    """Three steps, one with steps of its own; the last fails if wanted."""
    ran: list[str] = []

    async def step(name: str, state: State) -> State:
        ran.append(name)
        if failing and name == "three":
            raise RuntimeError("killed")
        return {"done": [*state.get("done", []), name]}

    inner = StateGraph(State)
    inner.add_node("inner", lambda state: {"done": [*state.get("done", []), "inner"]})
    inner.add_edge(START, "inner")
    nested = inner.compile()

    async def one(state: State) -> State:
        return await step("one", state)

    async def two(state: State) -> State:
        found: Any = await nested.ainvoke(state)
        return await step("two", found)

    async def three(state: State) -> State:
        return await step("three", state)

    outer = StateGraph(State)
    for node in (one, two, three):
        outer.add_node(node.__name__, node)
    outer.add_edge(START, "one")
    outer.add_edge("one", "two")
    outer.add_edge("two", "three")
    outer.add_edge("three", END)
    return outer.compile(checkpointer=saver), ran


async def broken(path: Path, events: int) -> None:
    with opened(path, events) as saver:
        assert not await saver.begun(CONFIG)
        loop, _ = graph(saver, failing=True)
        with pytest.raises(RuntimeError, match="killed"):
            await loop.ainvoke({"done": []}, CONFIG, durability="async")


async def test_a_loop_goes_on_at_its_last_step(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    await broken(path, events=3)
    with opened(path, 3) as saver:
        assert await saver.begun(CONFIG)
        loop, ran = graph(saver, failing=False)
        found = await loop.ainvoke(None, CONFIG, durability="async")
    assert ran == ["three"]
    assert found == {"done": ["one", "inner", "two", "three"]}
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints").fetchall() == [("",)]


async def test_checkpoints_that_know_more_than_the_log_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    await broken(path, events=3)
    with opened(path, 2) as saver:
        assert not await saver.begun(CONFIG)
        loop, ran = graph(saver, failing=False)
        await loop.ainvoke({"done": []}, CONFIG, durability="async")
    assert ran == ["one", "two", "three"]


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    path.write_text("this is no database, but a text file\n" * 50)
    with pytest.raises(sqlite3.Error), SqliteCheckpoints.opened(path):
        pass

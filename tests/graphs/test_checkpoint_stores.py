"""What every store of checkpoints must do: the SQLite file of a run folder, and PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from scenewright.graphs.checkpoints import CheckpointFactory, LoopCheckpoints
from scenewright.graphs.events import Edit, Edited, Paused
from scenewright.runs.folder import RunError
from scenewright.runs.plan import folder_checkpoints
from tests.graphs.editing import Person

SERVER = "host=127.0.0.1 port=5432 user=postgres connect_timeout=3"


@dataclass
class Place:
    """A run folder, as far as a store of checkpoints looks at it."""

    path: Path
    name: str

    def nonce(self) -> str:
        return self.name


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """A database of its own, dropped at the end; skips where no server is reached."""
    psycopg = pytest.importorskip("psycopg")
    try:
        conn = await psycopg.AsyncConnection.connect(f"{SERVER} dbname=postgres", autocommit=True)
    except psycopg.Error as error:
        if os.environ.get("SCENEWRIGHT_TEST_POSTGRES") == "required":
            raise
        pytest.skip(f"no PostgreSQL on 127.0.0.1:5432: {error}")
    name = f"savers_{secrets.token_hex(8)}"
    async with conn:
        await conn.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER} dbname={name}"
        finally:
            await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def pool_on(where: str, **kwargs: Any) -> AsyncIterator[Any]:
    """A pool of connections."""
    from psycopg_pool import AsyncConnectionPool

    pool = AsyncConnectionPool(where, min_size=1, max_size=4, open=False, kwargs=kwargs)
    await pool.open(wait=True)
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def kept_in(kind: str) -> AsyncIterator[CheckpointFactory]:
    if kind == "sqlite":
        yield folder_checkpoints
        return
    from scenewright.graphs.postgres_checkpoints import postgres_checkpoints

    async with database() as where, pool_on(where, autocommit=True) as pool:
        yield postgres_checkpoints(pool)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class State(TypedDict, total=False):
    done: list[str]


def asking(saver: Any) -> tuple[Any, list[str]]:
    """A graph of three steps; the second has steps of its own and waits for a person."""
    ran: list[str] = []

    def step(name: str) -> Callable[[State], Any]:
        async def work(state: State) -> State:
            ran.append(name)
            return {"done": [*state.get("done", []), name]}

        return work

    inner = StateGraph(State)
    inner.add_node("inner", step("inner"))
    inner.add_edge(START, "inner")
    nested = inner.compile()

    async def two(state: State) -> State:
        found: Any = await nested.ainvoke(state)
        said = interrupt({"what": "two"})
        ran.append("two")
        return {"done": [*found["done"], said]}

    outer = StateGraph(State)
    outer.add_node("one", step("one"))
    outer.add_node("two", two)
    outer.add_node("three", step("three"))
    outer.add_edge(START, "one")
    outer.add_edge("one", "two")
    outer.add_edge("two", "three")
    outer.add_edge("three", END)
    return outer.compile(checkpointer=saver), ran


def config_of(saver: Any) -> Any:
    return {"configurable": {"thread_id": saver.thread}}


async def test_a_loop_waits_and_is_resumed_by_another_process(kind: str, tmp_path: Path) -> None:
    place = Place(tmp_path, "nonce")
    async with kept_in(kind) as factory:
        async with factory(place, lambda: 1) as saver:
            assert isinstance(saver, LoopCheckpoints)
            assert not await saver.begun(config_of(saver))
            graph, ran = asking(saver)
            await graph.ainvoke({"done": []}, config_of(saver), durability="async")
            assert ran == ["one", "inner"]
        async with factory(place, lambda: 1) as saver:
            assert await saver.begun(config_of(saver))
            graph, ran = asking(saver)
            state = await graph.aget_state(config_of(saver))
            assert state.next == ("two",)
            assert [found.value for found in state.interrupts] == [{"what": "two"}]
            # Asked again it waits again: what it was resumed with is not remembered.
            await graph.ainvoke(None, config_of(saver), durability="async")
            assert "two" not in ran
            found = await graph.ainvoke(
                Command(resume="said"), config_of(saver), durability="async"
            )
            assert found["done"] == ["one", "inner", "said", "three"]
        async with factory(place, lambda: 1) as saver:
            kept = [found async for found in saver.alist(config_of(saver))]
            assert {found.config["configurable"]["checkpoint_ns"] for found in kept} == {""}


async def test_checkpoints_that_know_more_than_the_log_are_dropped(
    kind: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, "nonce")
    async with kept_in(kind) as factory:
        async with factory(place, lambda: 3) as saver:
            graph, _ = asking(saver)
            await graph.ainvoke({"done": []}, config_of(saver), durability="async")
        async with factory(place, lambda: 2) as saver:
            assert not await saver.begun(config_of(saver))
            assert [found async for found in saver.alist(config_of(saver))] == []


async def test_a_run_is_paused_edited_and_finished(kind: str, tmp_path: Path) -> None:
    edit = Edit(key="one", verdicts={"o:dog.1": "yes"}, rounds=1)
    results = {}
    async with kept_in(kind) as factory:
        for name, options in (("it", {"checkpoints": factory}), ("plain", {})):
            person = Person(tmp_path / name, 90, 130)
            paused = await person(pause=lambda: True, **options)
            assert paused.paused
            result = await person(edit, **options)
            assert len(person.of(Paused)) == len(person.of(Edited)) == 1
            results[name] = [(record.image, record.loop_card) for record in result.rounds]
        assert (tmp_path / "plain" / "checkpoints.sqlite").exists()
        assert (tmp_path / "it" / "checkpoints.sqlite").exists() == (kind == "sqlite")
    assert results["it"] == results["plain"]


async def test_runs_and_copies_of_runs_do_not_share_checkpoints(tmp_path: Path) -> None:
    async with kept_in("postgres") as factory:
        threads = []
        for path, name in ((tmp_path / "a", "x"), (tmp_path / "b", "x"), (tmp_path / "a", "y")):
            async with factory(Place(path, name), lambda: 0) as saver:
                threads.append(saver.thread)
        assert len(set(threads)) == 3


async def test_processes_make_the_tables_one_after_the_other(tmp_path: Path) -> None:
    from scenewright.graphs.postgres_checkpoints import postgres_checkpoints

    async def made(where: str) -> None:
        async with (
            pool_on(where, autocommit=True) as pool,
            postgres_checkpoints(pool)(Place(tmp_path, "x"), lambda: 0) as saver,
        ):
            assert not await saver.begun(config_of(saver))

    async with database() as where:
        await asyncio.gather(*(made(where) for _ in range(4)))


async def test_a_database_that_fails_is_a_clear_error(tmp_path: Path) -> None:
    from scenewright.graphs.postgres_checkpoints import postgres_checkpoints

    async with database() as where:
        async with pool_on(where) as pool:
            with pytest.raises(RunError, match="must commit by itself"):
                async with postgres_checkpoints(pool)(Place(tmp_path, "x"), lambda: 0):
                    pass
        async with (
            pool_on(where, autocommit=True) as pool,
            postgres_checkpoints(pool)(Place(tmp_path, "x"), lambda: 0) as saver,
        ):
            async with pool.connection() as conn:
                await conn.execute("DROP TABLE checkpoints")
            with pytest.raises(RunError, match="Check that the database is up"):
                await saver.begun(config_of(saver))


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from scenewright.graphs.errors import RunError\n"
        "try:\n"
        "    import scenewright.graphs.postgres_checkpoints\n"
        "except RunError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "pip install 'scenewright[postgres]'" in done.stdout

"""The table of runs, on both databases: a conformance suite."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from scenewright.service.core import database as databases
from scenewright.service.core.database import METADATA
from scenewright.service.core.errors import Busy, Conflict, NotFound
from scenewright.service.core.keys import KeyStore
from scenewright.service.core.store import Run, RunStore
from tests.service.databases import KINDS, kept

REQUEST: dict[str, Any] = {"scene": {"objects": []}, "rounds": 3}


class Clock:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunStore]:
    async with (
        kept(request.param, tmp_path) as settings,
        databases.open_database(settings) as engine,
    ):
        yield RunStore(engine, queue=3, clock=Clock())


async def made(store: RunStore, title: str = "red ball", tenant: str = "local", **more: Any) -> Run:
    return (await store.create(tenant, {**REQUEST, "title": title}, title=title, **more))[0]


async def claimed(store: RunStore, owner: str = "me") -> Run:
    found = await store.claim(owner, 10.0)
    assert found is not None
    return found


async def test_a_run_is_taken_in_claimed_and_ended(store: RunStore) -> None:
    run = await made(store)
    assert (run.status, run.attempts, run.owner) == ("queued", 0, None)
    mine = await claimed(store)
    assert (mine.id, mine.status, mine.owner, mine.attempts) == (run.id, "running", "me", 1)
    assert await store.claim("me", 10.0) is None
    assert await store.end(mine, "finished", summary={"usd": 0.5, "images": 3})
    done = await store.get(run.id)
    assert (done.status, done.owner, done.summary) == (
        "finished", None, {"usd": 0.5, "images": 3},
    )  # fmt: skip
    assert done.ended is not None


async def test_ids_are_not_to_be_guessed(store: RunStore) -> None:
    first, second = await made(store), await made(store)
    assert first.id != second.id
    assert len(first.id) >= 32


async def test_the_oldest_waiting_run_comes_first(store: RunStore) -> None:
    first, second, third = [await made(store, name) for name in ("a", "b", "c")]
    assert await store.position(third) == 2
    assert (await claimed(store)).id == first.id
    assert (await claimed(store)).id == second.id
    assert await store.position(third) == 0
    assert await store.position(await store.get(first.id)) is None


async def test_many_who_claim_at_once_get_each_run_once(store: RunStore) -> None:
    runs = {(await made(store, name)).id for name in "abc"}
    found = await asyncio.gather(*(store.claim(f"worker {n}", 10.0) for n in range(8)))
    assert sorted(run.id for run in found if run is not None) == sorted(runs)


async def test_the_same_key_is_the_same_run(store: RunStore) -> None:
    first, new = await store.create("local", REQUEST, title="x", idempotency_key="k")
    again, twice = await store.create("local", REQUEST, title="x", idempotency_key="k")
    assert (new, twice) == (True, False)
    assert first.id == again.id
    with pytest.raises(Conflict, match="another request"):
        await store.create("local", {**REQUEST, "rounds": 4}, title="x", idempotency_key="k")
    other, new = await store.create("somebody", REQUEST, title="x", idempotency_key="k")
    assert new
    assert other.id != first.id


async def test_the_same_key_at_the_same_moment_is_one_run(store: RunStore) -> None:
    made = await asyncio.gather(
        *(store.create("local", REQUEST, title="x", idempotency_key="k") for _ in range(6))
    )
    assert len({run.id for run, _ in made}) == 1
    assert sum(new for _, new in made) == 1


async def test_a_full_queue_says_when_to_come_again(store: RunStore) -> None:
    for name in "abc":
        await made(store, name, idempotency_key=name)
    with pytest.raises(Busy) as refused:
        await made(store, "d")
    assert int(refused.value.headers["Retry-After"]) >= 1
    # One that is there already needs no room.
    await store.create("local", {**REQUEST, "title": "a"}, title="a", idempotency_key="a")


async def test_one_tenant_does_not_see_anothers_runs(store: RunStore) -> None:
    run = await made(store, tenant="alice")
    for call in (
        store.get(run.id, "bob"),
        store.want(run.id, "bob", "cancel"),
        store.requeue(run.id, "bob", None),
        store.list("bob", before=run.id),
    ):
        with pytest.raises(NotFound):
            await call
    assert await store.list("bob") == ([], None)
    assert [found.id for found in (await store.list("alice"))[0]] == [run.id]


async def test_lists_are_paged_newest_first_and_filtered(store: RunStore) -> None:
    store.queue = 100
    runs = [await made(store, f"{color} ball 100%") for color in ("red", "green", "blue", "pink")]
    newest = [run.id for run in reversed(runs)]
    page, following = await store.list("local", limit=3)
    assert ([run.id for run in page], following) == (newest[:3], newest[2])
    page, following = await store.list("local", limit=3, before=following)
    assert ([run.id for run in page], following) == (newest[3:], None)
    assert [run.id for run in (await store.list("local", words="BALL green"))[0]] == [runs[1].id]
    assert len((await store.list("local", words="100%"))[0]) == 4
    assert (await store.list("local", words="10_%"))[0] == []
    await store.want(runs[0].id, "local", "cancel")
    assert [r.id for r in (await store.list("local", status=("cancelled",)))[0]] == [runs[0].id]


async def test_runs_of_a_server_that_is_gone_wait_again(store: RunStore) -> None:
    run = await made(store)
    await claimed(store, "gone")
    assert await store.recover(lambda owner: False) == []
    assert await store.recover(lambda owner: owner == "gone") == [run.id]
    mine = await claimed(store, "me")
    assert (mine.id, mine.attempts) == (run.id, 2)
    # What the other one says now counts for nothing.
    assert not await store.end(Run(**{**vars_of(mine), "owner": "gone"}), "failed", error="late")
    assert (await store.get(run.id)).status == "running"


def vars_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


async def test_a_lease_that_ran_out_frees_the_run_and_a_sign_of_life_holds_it(
    store: RunStore,
) -> None:
    clock = store._clock
    assert isinstance(clock, Clock)
    await made(store)
    await claimed(store)
    clock.now += 8
    assert await store.hold("me", 10.0) == {(await store.list("local"))[0][0].id: ""}
    clock.now += 8
    assert await store.recover(lambda owner: False) == []
    clock.now += 8
    assert await store.recover(lambda owner: False, math.inf) == []
    assert await store.recover(lambda owner: False) == [(await store.list("local"))[0][0].id]


async def test_a_run_that_comes_further_begins_its_tries_anew(store: RunStore) -> None:
    await made(store)
    mine = await claimed(store)
    await store.told(mine, {"usd": 0.25, "images": 2})
    found = await store.get(mine.id)
    assert (found.attempts, found.summary) == (0, {"usd": 0.25, "images": 2})


async def test_what_is_wanted_of_a_run_reaches_its_server(store: RunStore) -> None:
    run = await made(store)
    with pytest.raises(Conflict, match="only a running one"):
        await store.want(run.id, "local", "pause")
    await claimed(store)
    await store.want(run.id, "local", "pause")
    assert await store.hold("me", 10.0) == {run.id: "pause"}
    await store.want(run.id, "local", "cancel")
    assert await store.hold("me", 10.0) == {run.id: "cancel"}


async def test_a_waiting_run_is_cancelled_at_once_and_can_be_resumed(store: RunStore) -> None:
    run = await made(store)
    assert (await store.want(run.id, "local", "cancel")).status == "cancelled"
    assert (await store.want(run.id, "local", "cancel")).status == "cancelled"
    assert await store.claim("me", 10.0) is None
    assert (await store.requeue(run.id, "local", None)).status == "queued"
    assert (await claimed(store)).id == run.id


async def test_an_edit_puts_an_ended_run_back_in_line(store: RunStore) -> None:
    run = await made(store)
    mine = await claimed(store)
    edit = {"key": "e", "rounds": 2}
    with pytest.raises(Conflict, match="pause it first"):
        await store.requeue(run.id, "local", edit)
    await store.end(mine, "finished")
    with pytest.raises(Conflict, match="post an edit"):
        await store.requeue(run.id, "local", None)
    assert (await store.requeue(run.id, "local", edit)).edit == edit
    # The same edit again is the same edit, whatever the run does by then.
    assert (await store.requeue(run.id, "local", edit)).status == "queued"
    assert (await claimed(store)).edit == edit
    assert (await store.requeue(run.id, "local", edit)).status == "running"


async def test_a_key_belongs_to_one_edit(store: RunStore) -> None:
    run = await made(store)
    await store.end(await claimed(store), "finished")
    for key in ("e", "f"):
        edit = {"key": key, "rounds": 2}
        taken = await store.requeue(run.id, "local", edit, digest=f"of {key}")
        assert (taken.status, taken.edit) == ("queued", edit)
        await store.end(await claimed(store), "finished")
    for key in ("e", "f"):
        edit = {"key": key, "rounds": 2}
        known = await store.requeue(run.id, "local", edit, digest=f"of {key}")
        assert (known.status, known.edit) == ("finished", {"key": "f", "rounds": 2})
        with pytest.raises(Conflict, match=f"'{key}' was used for another edit"):
            await store.requeue(run.id, "local", edit, digest="of another")


async def test_spending_is_counted_once_a_run(store: RunStore) -> None:
    await made(store, key_id="key")
    mine = await claimed(store)
    for usd, images in ((0.5, 2), (0.75, 3)):
        await store.told(mine, {"usd": usd, "images": images})
    await store.end(mine, "finished", summary={"usd": 1.0, "images": 4})
    await store.charge("local", "key", 0.25)
    assert await KeyStore(store.engine).spent() == {"key": (1.25, 4)}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_migrations_make_the_tables_that_the_code_names(
    kind: str, tmp_path: Path
) -> None:
    async with kept(kind, tmp_path) as settings, databases.open_database(settings) as engine:
        await databases.migrate(engine)
        async with engine.connect() as connection:
            found = await connection.run_sync(
                lambda c: {
                    name: (
                        {column["name"] for column in inspect(c).get_columns(name)},
                        {index["name"] for index in inspect(c).get_indexes(name)}
                        - {u["name"] for u in inspect(c).get_unique_constraints(name)},
                    )
                    for name in inspect(c).get_table_names()
                }
            )
    found.pop("alembic_version")
    assert found == {
        table.name: (
            {column.name for column in table.columns},
            {str(index.name) for index in table.indexes},
        )
        for table in METADATA.tables.values()
    }


async def test_a_database_that_is_not_there_is_told_with_its_remedy(tmp_path: Path) -> None:
    async with kept("sqlite", tmp_path) as settings:
        settings = settings.model_copy(update={"database": "postgresql://nobody@127.0.0.1:1/x"})
        with pytest.raises(databases.DatabaseError, match="Check"):
            async with databases.open_database(settings):
                pass


async def test_a_brief_list_has_no_more_of_the_requests_than_their_profile(store: RunStore) -> None:
    await store.create("local", {**REQUEST, "profile": "miniature"}, title="a")
    await store.create("local", REQUEST, title="b")
    whole, _ = await store.list("local")
    brief, following = await store.list("local", brief=True, limit=1)
    more, end = await store.list("local", brief=True, before=following)
    assert [run.id for run in (*brief, *more)] == [run.id for run in whole]
    assert [run.request for run in (*brief, *more)] == [{"profile": None}, {"profile": "miniature"}]
    assert end is None
    assert whole[0].request["rounds"] == 3

"""API keys: how they are kept, what they open, how much they may spend; on both databases."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.config.profiles import SettingsError
from scenewright.service.core import database as databases
from scenewright.service.core.errors import Busy, Forbidden, NotFound, ServiceError, Unprocessable
from scenewright.service.core.keys import (
    KNOWN_SECONDS,
    LASTS_SECONDS,
    KeyStore,
    demand_some,
    holds_key,
)
from scenewright.service.core.limits import RateLimits
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run, RunStore
from tests.service.databases import KINDS, kept

DAY = 86_400.0


class Clock:
    """A clock that goes when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=KINDS)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    async with (
        kept(request.param, tmp_path) as settings,
        databases.open_database(settings) as found,
    ):
        yield found


async def test_a_key_opens_and_a_wrong_one_does_not(engine: AsyncEngine) -> None:
    keys = KeyStore(engine)
    key, text = await keys.create("studio", label="plug-in", scopes=("read", "score"))
    assert re.fullmatch(r"sw_[0-9a-f]{16}_[0-9a-f]{48}", text)
    found = await keys.check(text)
    assert found == key
    assert found is not None
    assert (found.identity.tenant, found.identity.key_id) == ("studio", key.id)
    assert found.identity.scopes == ("read", "score")
    last = "0" if text[-1] != "0" else "1"
    for wrong in (
        text[:-1] + last,
        text[:-1],
        f"{text}0",
        f"sw_{'0' * 16}_{text[-48:]}",
        "",
        "sw__",
        text.upper(),
        f"{text}\n",
        "ключ",
    ):
        assert await keys.check(wrong) is None


async def test_only_the_hash_is_kept(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path)
    async with databases.open_database(settings) as engine:
        keys = KeyStore(engine)
        key, text = await keys.create("studio")
        token = await keys.begin_session(key)
    with sqlite3.connect(tmp_path / "service.sqlite") as connection:
        kept_text = "\n".join(connection.iterdump())
    assert key.id in kept_text
    assert text.rpartition("_")[2] not in kept_text
    assert token not in kept_text


async def test_no_two_keys_are_alike(engine: AsyncEngine) -> None:
    keys = KeyStore(engine)
    texts = [(await keys.create("studio"))[1] for _ in range(5)]
    assert len({text.rpartition("_")[2] for text in texts}) == 5


async def test_a_revoked_key_opens_nothing_after_a_moment_anywhere(engine: AsyncEngine) -> None:
    clock = Clock()
    here, elsewhere = KeyStore(engine, clock=clock), KeyStore(engine, clock=clock)
    key, text = await here.create("studio")
    assert await elsewhere.check(text) is not None
    assert (await here.revoke(key.id)).revoked == clock.now
    assert await here.check(text) is None
    clock.now += KNOWN_SECONDS
    assert await elsewhere.check(text) is None
    assert KNOWN_SECONDS <= 5
    with pytest.raises(NotFound, match="keys list"):
        await here.revoke("unknown")


async def test_a_key_expires(engine: AsyncEngine) -> None:
    clock = Clock()
    keys = KeyStore(engine, clock=clock)
    _, text = await keys.create("studio", days=2)
    clock.now += 2 * DAY - 1
    assert await keys.check(text) is not None
    clock.now += 1
    assert await keys.check(text) is None
    assert not await keys.any()


async def test_a_browser_stays_signed_in_until_it_leaves_or_its_key_ends(
    engine: AsyncEngine,
) -> None:
    clock = Clock()
    keys = KeyStore(engine, clock=clock)
    key, _ = await keys.create("studio")
    first, second, third = [await keys.begin_session(key) for _ in range(3)]
    assert await keys.session_key(first) == key
    await keys.end_session(first)
    assert await keys.session_key(first) is None
    assert await keys.session_key(second) == key
    assert await keys.session_key("0" * 64) is None
    assert await keys.session_key("not a token") is None
    clock.now += LASTS_SECONDS
    assert await keys.session_key(third) is None
    fourth = await keys.begin_session(key)
    await keys.revoke(key.id)
    assert await keys.session_key(fourth) is None


@pytest.mark.parametrize("tenant", ["", " ", "../x", "a b", "-a", "a" * 81, "é", "a\n"])
async def test_a_tenant_has_a_plain_name(tmp_path: Path, tenant: str) -> None:
    async with databases.open_database(ServiceSettings(data=tmp_path)) as engine:
        with pytest.raises(Unprocessable, match="letters, digits"):
            await KeyStore(engine).create(tenant)


async def test_another_address_needs_a_key_that_may_be_used(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path, host="0.0.0.0")
    assert settings.demands_keys
    with pytest.raises(SettingsError, match="scenewright keys create"):
        await demand_some(settings)
    async with databases.open_database(settings) as engine:
        key, _ = await KeyStore(engine).create("studio")
    await demand_some(settings)
    async with databases.open_database(settings) as engine:
        await KeyStore(engine).revoke(key.id)
    with pytest.raises(SettingsError, match="no usable key exists"):
        await demand_some(settings)


def test_a_key_is_known_wherever_it_stands() -> None:
    assert holds_key(f"/runs?key=sw_{'a' * 16}_{'0' * 48}&x=1")
    assert not holds_key("/runs?words=sw_boat")


def test_requests_a_minute_are_counted_by_key() -> None:
    clock = Clock()
    rates = RateLimits(clock)
    for _ in range(3):
        rates.take("a", 3)
        clock.now += 10
    with pytest.raises(Busy) as caught:
        rates.take("a", 3)
    assert caught.value.headers == {"Retry-After": "30"}
    rates.take("b", 3)
    rates.take("c", None)
    clock.now += 30
    rates.take("a", 3)
    with pytest.raises(Busy):
        rates.take("a", 3)


class Desk:
    """A store of runs with one key, whose runs spend what they are told to."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.store = RunStore(engine)
        self.keys = KeyStore(engine)
        self.key = ""

    async def give(self, **limits: Any) -> None:
        self.key = (await self.keys.create("studio", **limits))[0].id

    async def ask(self, name: str | None = None, **budget: Any) -> Run:
        request = {"budget": budget, "name": name}
        run, _ = await self.store.create(
            "studio", request, title="ball", key_id=self.key, idempotency_key=name
        )
        return run

    async def work(self, usd: float, images: int, status: Any = "finished") -> Run:
        run = await self.store.claim("me", 10.0)
        assert run is not None
        spent = {"usd": usd, "images": images}
        if status is None:
            await self.store.told(run, spent)
        else:
            await self.store.end(run, status, summary=spent)
        return run


@pytest.fixture
def desk(engine: AsyncEngine) -> Desk:
    return Desk(engine)


async def test_a_runs_budget_is_capped_by_what_its_key_has_left(desk: Desk) -> None:
    await desk.give(usd=1.0, images=10)
    run = await desk.ask(usd=5.0, images=4, tokens=100)
    assert run.request["budget"] == {"usd": 1.0, "images": 4, "tokens": 100}
    await desk.work(0.25, 4)
    assert (await desk.ask()).request["budget"] == {"usd": 0.75, "images": 6}


async def test_what_runs_under_way_may_still_spend_is_not_given_twice(desk: Desk) -> None:
    await desk.give(usd=1.0)
    await desk.ask(usd=0.6)
    assert (await desk.ask()).request["budget"] == {"usd": pytest.approx(0.4)}
    with pytest.raises(Busy, match=r"may take 1\.0000 US dollars") as caught:
        await desk.ask(usd=0.1)
    assert caught.value.retry_after is not None
    await desk.work(0.5, 1, None)
    with pytest.raises(Busy, match=r"spent 0\.5000 .* may take 0\.5000"):
        await desk.ask(usd=0.1)
    await desk.work(0.1, 1)
    assert (await desk.ask()).request["budget"] == {"usd": pytest.approx(0.3)}


async def test_a_spent_key_is_told_the_figures(desk: Desk) -> None:
    await desk.give(usd=1.0)
    await desk.ask("first")
    await desk.work(1.2, 3)
    with pytest.raises(Forbidden, match=r"1\.0000 US dollars in all and has spent 1\.2000"):
        await desk.ask("second")
    with pytest.raises(Forbidden, match=r"has spent 1\.2000"):
        await desk.store.check_spendable(desk.key)
    assert (await desk.keys.spent())[desk.key] == (1.2, 3)


async def test_images_are_a_budget_too(desk: Desk) -> None:
    await desk.give(images=3)
    await desk.ask()
    await desk.work(0.0, 3)
    with pytest.raises(Forbidden, match="3 images in all and has spent 3 images"):
        await desk.ask()
    await desk.store.check_spendable(desk.key)


async def test_the_same_idempotency_key_gives_the_same_run_whatever_is_left(desk: Desk) -> None:
    await desk.give(usd=1.0, running=1)
    run = await desk.ask("once", usd=3.0)
    assert (await desk.ask("once", usd=3.0)).id == run.id
    await desk.work(1.0, 1)
    assert (await desk.ask("once", usd=3.0)).id == run.id


async def test_calls_outside_runs_count(desk: Desk) -> None:
    await desk.give(usd=1.0)
    await desk.store.check_spendable(desk.key)
    await desk.store.charge("studio", desk.key, 0.75)
    assert (await desk.ask()).request["budget"] == {"usd": 0.25}


async def test_a_key_has_so_many_runs_at_once(desk: Desk) -> None:
    await desk.give(running=2)
    await desk.ask()
    await desk.ask()
    with pytest.raises(Busy, match="may have 2 runs wait or run at once"):
        await desk.ask()
    await desk.work(0.0, 0)
    await desk.ask()


async def test_a_run_goes_on_only_within_what_its_key_has_left(desk: Desk) -> None:
    await desk.give(usd=1.0, running=1)
    await desk.ask(usd=0.8)
    first = await desk.work(0.2, 1, "paused")
    await desk.ask(usd=0.5)
    with pytest.raises(Busy, match="at once"):
        await desk.store.requeue(first.id, "studio", None)
    await desk.work(0.5, 1)
    with pytest.raises(Forbidden, match=r"may still spend 0\.6000 .* has 0\.3000"):
        await desk.store.requeue(first.id, "studio", None)
    assert (await desk.store.get(first.id)).status == "paused"


async def test_a_run_that_stood_still_goes_on(desk: Desk) -> None:
    await desk.give(usd=1.0, images=5, running=1)
    await desk.ask()
    run = await desk.work(0.9, 4, "paused")
    assert (await desk.store.requeue(run.id, "studio", None)).status == "queued"


async def test_many_who_ask_at_once_get_no_more_than_there_is(desk: Desk) -> None:
    await desk.give(usd=1.0)
    found = await asyncio.gather(
        *(desk.ask(str(number), usd=0.3) for number in range(8)), return_exceptions=True
    )
    given = [run.request["budget"]["usd"] for run in found if isinstance(run, Run)]
    assert sum(given) == pytest.approx(1.0)
    refused = [error for error in found if isinstance(error, BaseException)]
    assert len(given) == 4
    assert all(isinstance(error, ServiceError) for error in refused)


async def test_a_key_without_limits_changes_nothing(desk: Desk) -> None:
    await desk.give()
    assert (await desk.ask(usd=7.0)).request["budget"] == {"usd": 7.0}

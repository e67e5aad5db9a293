"""Limits that processes share: kept by all together, in the server's time, freed by the dead."""

from __future__ import annotations

import asyncio
import bisect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import load_settings
from scenewright.providers import shared_limits
from scenewright.providers.limits import OPEN_AFTER, AccountLimits, Limits, Ticket
from scenewright.providers.retry import AccountPaused, Backoff
from scenewright.providers.shared_limits import LimitsError, SharedLimits, gate_at
from scenewright.runs.model_factory.local_models import Registry
from scenewright.runs.model_factory.profiles import get_caller
from tests.providers.postgres import clients, cut_off, database

# Limits are about time: on a machine that stands still for a moment they are as they should be, and
# what these tests expect of the clock is not.
pytestmark = pytest.mark.skipif(
    "SCENEWRIGHT_TEST_CLOCK" not in os.environ,
    reason="expects a machine that keeps time: set SCENEWRIGHT_TEST_CLOCK=1",
)
STEADY = Backoff(initial=0.2, maximum=0.8, jitter=0.0)

Made = Callable[..., SharedLimits]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with database() as url:
        yield url


@pytest.fixture
def made(url: str, request: pytest.FixtureRequest) -> Iterator[Made]:
    """Makes limits of one account of the test's own, as another process would."""
    with ExitStack() as stack:

        def make(limits: Limits, account: str = request.node.name) -> SharedLimits:
            found = SharedLimits(url, account, limits, STEADY)
            stack.callback(found.close)
            return found

        yield make


async def enter(limits: SharedLimits, tokens: int = 0, max_wait: float = 5.0) -> Ticket:
    return await asyncio.wait_for(limits.enter(tokens, ahead=False, max_wait=max_wait), 60)


async def went(each: list[SharedLimits], calls: int) -> None:
    async def one(number: int) -> None:
        limits = each[number % len(each)]
        limits.leave(await enter(limits))

    await asyncio.gather(*(one(number) for number in range(calls)))


def sent_at(url: str, account: str) -> list[float]:
    """Server times at which the account's requests were let go."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT extract(epoch FROM at)::float8 FROM scenewright_account_sent_1 "
            "WHERE account = %s ORDER BY n",
            (account,),
        ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("window", [0.25, 0.02])
async def test_all_together_keep_the_plan_of_one(
    url: str, made: Made, request: pytest.FixtureRequest, window: float
) -> None:
    bounds = Limits(requests_per_minute=2400, window=window)
    plan = bounds.rate_plan()
    assert plan is not None
    await went([made(bounds) for _ in range(3)], 40)
    times = sent_at(url, request.node.name)
    assert len(times) == 40
    assert times == sorted(times)
    for n, at in enumerate(times):
        inside = bisect.bisect_left(times, at + plan.period - 1e-5) - n
        assert inside <= plan.count
    # 40 a second are allowed; machines that test are slow.
    assert times[-1] - times[0] < 10


def busy_until_let_go(url: str, account: str) -> float:
    """Keeps the event loop busy until the database let a request go, and a while longer."""
    while not sent_at(url, account):
        time.sleep(0.01)
    time.sleep(0.3)
    return sent_at(url, account)[0]


async def test_what_a_busy_process_sends_late_counts_from_then(
    url: str, made: Made, request: pytest.FixtureRequest
) -> None:
    other = made(Limits(), "another account")
    other.leave(await enter(other))
    limits = made(Limits(requests_per_minute=120, window=0.5))
    entering = asyncio.create_task(enter(limits))
    # So often that the database is asked, too quickly for its answer.
    for _ in range(4):
        await asyncio.sleep(0)
    let_go = busy_until_let_go(url, request.node.name)
    limits.leave(await entering)
    started = time.monotonic()
    limits.leave(await enter(limits))
    assert time.monotonic() - started > 0.4
    first, second = sent_at(url, request.node.name)
    assert first - let_go >= 0.29
    assert second - first >= 0.5


async def test_who_states_less_keeps_less_and_counts_the_requests_of_all(
    url: str, made: Made, request: pytest.FixtureRequest
) -> None:
    little = made(Limits(requests_per_minute=300, window=1.0))
    much = made(Limits(requests_per_minute=6000, window=1.0))
    await went([much], 20)
    started = time.monotonic()
    await went([little], 1)
    assert time.monotonic() - started > 0.5
    assert len(sent_at(url, request.node.name)) == 21


async def test_tokens_of_all_come_from_one_bucket(made: Made) -> None:
    bounds = Limits(tokens_per_minute=60_000)
    each = [made(bounds), made(bounds)]
    started = time.monotonic()

    async def one(number: int) -> None:
        limits = each[number % 2]
        limits.leave(await enter(limits, 500))

    await asyncio.gather(*(one(number) for number in range(8)))
    # 1,000 at once, 3,000 more at 983 a second.
    assert 3000 / 983.4 - 0.05 <= time.monotonic() - started < 6


async def test_what_replies_used_corrects_what_was_taken(made: Made) -> None:
    limits = made(Limits(tokens_per_minute=60_000))
    first = await enter(limits, 1000)
    limits.leave(first)
    limits.answered(first, 100)
    started = time.monotonic()
    limits.leave(await enter(limits, 900))
    assert time.monotonic() - started < 0.5
    second = await enter(limits, 10)
    limits.leave(second)
    limits.answered(second, 2000)
    started = time.monotonic()
    limits.leave(await enter(limits, 10))
    assert time.monotonic() - started > 0.8


async def test_places_are_those_of_all(made: Made) -> None:
    bounds = Limits(concurrent=3)
    each = [made(bounds), made(bounds)]
    under_way = most = 0

    async def one(number: int) -> None:
        nonlocal under_way, most
        limits = each[number % 2]
        ticket = await enter(limits)
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        limits.leave(ticket)

    await asyncio.gather(*(one(number) for number in range(16)))
    assert 2 <= most <= 3


HOLDS = """
import asyncio, sys
from scenewright.providers import connection_worker, shared_limits
from scenewright.providers.limits import Limits
from scenewright.providers.retry import Backoff

connection_worker.BEAT_SECONDS, shared_limits.LEASE_SECONDS = 0.2, 0.8

async def main():
    limits = shared_limits.SharedLimits(sys.argv[1], sys.argv[2], Limits(concurrent=1), Backoff())
    await limits.enter(0, ahead=False, max_wait=1)
    print("holds", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def holder(url: str, account: str) -> subprocess.Popen[str]:
    """A process that holds the one place of an account until it is killed."""
    found = subprocess.Popen(
        [sys.executable, "-c", HOLDS, url, account],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert found.stdout is not None
    assert found.stdout.readline() == "holds\n"
    return found


async def test_a_process_holds_its_places_while_it_lives_and_no_longer(
    url: str, made: Made, request: pytest.FixtureRequest
) -> None:
    process = await asyncio.to_thread(holder, url, request.node.name)
    limits = made(Limits(concurrent=1))
    waiting = asyncio.create_task(enter(limits))
    # Far longer than the lease without a beat.
    await asyncio.sleep(2.0)
    assert not waiting.done()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    limits.leave(await waiting)


async def test_a_pause_holds_everybody_up(made: Made) -> None:
    one, two = made(Limits()), made(Limits())
    ticket = await enter(one)
    one.leave(ticket)
    one.refused(ticket, 0.6)
    assert one.paused() == pytest.approx(0.6, abs=0.1)
    started = time.monotonic()
    two.leave(await enter(two))
    assert time.monotonic() - started > 0.4
    one.refused(await enter(one), 3600)
    with pytest.raises(AccountPaused) as error:
        await enter(two, max_wait=60)
    assert error.value.seconds == pytest.approx(3600, abs=10)
    assert two.paused() > 3000


@pytest.mark.parametrize("hint", [0.0, 0.05])
async def test_a_hint_shorter_than_the_backoff_does_not_count(made: Made, hint: float) -> None:
    limits = made(Limits())
    for _ in range(2):
        ticket = await enter(limits)
        limits.leave(ticket)
        limits.refused(ticket, hint)
    started = time.monotonic()
    limits.leave(await enter(limits))
    # The second backoff in a row, twice the first one.
    assert time.monotonic() - started > 0.3


async def test_one_request_tests_a_server_that_failed(made: Made) -> None:
    limits = made(Limits())
    for _ in range(OPEN_AFTER):
        ticket = await enter(limits)
        limits.leave(ticket)
        limits.failed(ticket, "connection refused")
    testing = await enter(limits)
    assert testing.test
    waiting = asyncio.create_task(enter(limits))
    limits.leave(testing)
    limits.answered(testing, 0)
    assert not (await waiting).test


async def test_refusals_of_one_burst_count_once_and_pauses_grow(made: Made) -> None:
    one, two = made(Limits(concurrent=8)), made(Limits(concurrent=8))
    most = [8, 4, 2]
    pauses = []
    for allowed in most:
        taken = [one, two, *[one] * (allowed - 2)]
        tickets = [await enter(limits) for limits in taken]
        started = time.monotonic()
        for limits, ticket in zip(taken, tickets, strict=True):
            limits.leave(ticket)
            limits.refused(ticket, None)
        two.leave(await enter(two))
        pauses.append(time.monotonic() - started)
    assert all(p >= least - 0.01 for p, least in zip(pauses, (0.2, 0.4, 0.8), strict=True))
    # 8 places, halved three times: one.
    first = await enter(one)
    second = asyncio.create_task(enter(two))
    await asyncio.sleep(0.3)
    assert not second.done()
    one.leave(first)
    one.answered(first, 0)
    # One success at one place brings a second place.
    third = await second
    two.leave(await enter(two))
    two.leave(third)


@pytest.mark.parametrize("held_up_by", ["tokens", "slots", "pause", "rate"])
async def test_cancelled_waiters_take_nothing_with_them(made: Made, held_up_by: str) -> None:
    bounds = {
        "tokens": Limits(tokens_per_minute=6000),
        "slots": Limits(concurrent=1, tokens_per_minute=10**9),
        "rate": Limits(requests_per_minute=60, window=1, tokens_per_minute=10**9),
    }.get(held_up_by, Limits(tokens_per_minute=10**9))
    limits = made(bounds)
    ticket = await enter(limits, 10)
    if held_up_by == "pause":
        limits.refused(ticket, 1.0)
    waiting = [asyncio.create_task(enter(limits, 10_000)) for _ in range(3)]
    await asyncio.sleep(0.2)
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    limits.leave(ticket)
    started = time.monotonic()
    limits.leave(await enter(limits, 10))
    # 10,000 tokens of a cancelled call would take more than a minute.
    assert time.monotonic() - started <= 3


async def test_who_is_cancelled_at_once_leaves_no_place_taken(made: Made) -> None:
    limits = made(Limits(concurrent=1))
    for turns in range(6):
        task = asyncio.create_task(enter(limits))
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001 * turns)
        task.cancel()
        done = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(done, Ticket):
            limits.leave(done)
    limits.leave(await enter(limits))


async def test_a_connection_that_breaks_is_opened_anew_and_places_are_kept(
    url: str, made: Made
) -> None:
    limits, other = made(Limits(concurrent=2)), made(Limits(concurrent=2))
    tickets = [await enter(limits), await enter(limits)]
    assert cut_off(url) == 1
    waiting = asyncio.create_task(enter(other))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    limits.leave(tickets[0])
    other.leave(await waiting)
    limits.leave(tickets[1])


async def test_no_request_is_sent_where_the_limits_cannot_be_asked() -> None:
    limits = SharedLimits("postgresql://postgres:hidden-word@127.0.0.1:1/x", "a", Limits(), STEADY)
    with pytest.raises(LimitsError, match="Check that the database is up") as error:
        await enter(limits)
    assert "hidden-word" not in str(error.value)
    limits.close()


async def test_accounts_of_a_process_share_one_connection(url: str, made: Made) -> None:
    before = clients(url)
    each = [made(Limits(), f"account {n}") for n in range(10)]
    for limits in each:
        limits.leave(await enter(limits))
    assert clients(url) == before + 1
    for limits in each:
        limits.close()
        limits.close()
    assert clients(url) == before


def spec(**more: Any) -> AccountSpec:
    return AccountSpec(provider="openai", base_url="http://127.0.0.1:1/v1", **more)


def test_the_setting_decides_who_keeps_the_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scenewright.runs.model_factory.profiles.SHARED", Registry())
    accounts = {"lab": spec(key_variable="")}
    alone = get_caller("lab", load_settings(accounts=accounts))
    assert isinstance(alone.limits, AccountLimits)
    url = "postgresql://127.0.0.1:1/x"
    monkeypatch.setenv("SCENEWRIGHT_SHARED_LIMITS", url)
    shared = get_caller("lab", load_settings(accounts=accounts))
    assert isinstance(shared.limits, SharedLimits)
    monkeypatch.setenv("SCENEWRIGHT_SHARED_LIMITS", "redis://localhost")
    with pytest.raises(SettingsError, match=r"shared_limits.*postgresql://USER"):
        load_settings(accounts=accounts)


def test_two_keys_are_two_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for key, name in (("a", "lab"), ("b", "lab"), ("a", "lab"), ("a", "other")):
        monkeypatch.setenv("OF_TEST_KEY", key)
        found = gate_at("postgresql://x/y", name, spec(key_variable="OF_TEST_KEY"), Limits())
        assert found is not None
        names.append(found._account)
    assert names[0] == names[2]
    assert len(set(names)) == 3
    assert gate_at(None, "lab", spec(), Limits()) is None


def test_the_lease_outlives_missed_beats() -> None:
    assert shared_limits.LEASE_SECONDS >= 3 * shared_limits.BEAT_SECONDS

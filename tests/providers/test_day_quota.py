"""Requests of a day: counted over processes and kills, until midnight where the provider is."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.evals.runner.engines.cluster import RateLimitClient
from scenewright.providers import day_quota
from scenewright.providers.caller import Caller
from scenewright.providers.day_quota import DayQuota, RequestCounter, sent_file, sent_requests
from scenewright.providers.limits import AccountLimits, Limits
from scenewright.providers.retry import AccountPaused, CallError
from scenewright.runs.model_factory.profiles import limits_of
from tests.evals.runner.engines.test_rate_limit_actor import Actor
from tests.providers.virtual import STEADY, Provider, get_caller, now, put, run

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; the file in which requests are counted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sent_requests.cache_clear()
    found = sent_file()
    assert found is not None
    return found


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the clock; it goes on with the loop's virtual time."""

    def set_to(begin: datetime) -> None:
        def clock() -> float:
            try:
                return begin.timestamp() + now()
            except RuntimeError:
                return begin.timestamp()

        clocks = SimpleNamespace(time=clock, monotonic=lambda: clock() - 1.7e9)
        monkeypatch.setattr(day_quota, "time", clocks)

    return set_to


def counted(file: Path) -> list[tuple[str, str, int]]:
    with sqlite3.connect(file) as db:
        return db.execute("SELECT account, day, requests FROM sent ORDER BY day").fetchall()


def test_who_cannot_wait_for_midnight_hears_when_it_goes_on(
    at: Callable[[datetime], None],
) -> None:
    at(NOON)

    async def main() -> float:
        limits = AccountLimits(Limits(requests_per_day=2), STEADY)
        for _ in range(2):
            limits.leave(await limits.enter(1, ahead=False, max_wait=9))
        told = r"requests_per_day .*\(2\) is used up: .* at 2026-11-24 00:00 UTC, in 12.0 h"
        with pytest.raises(AccountPaused, match=told) as error:
            await limits.enter(1, ahead=False, max_wait=9)
        assert error.value.seconds == pytest.approx(12 * 3600)
        begun = now()
        limits.leave(await limits.enter(1, ahead=False, max_wait=100_000))
        return now() - begun

    assert run(main()) == pytest.approx(12 * 3600, abs=0.1)


def test_a_call_is_lost_with_the_time_when_it_goes_on(at: Callable[[datetime], None]) -> None:
    at(NOON)

    async def main() -> tuple[str, int]:
        provider = Provider()
        caller = get_caller(Limits(requests_per_day=1), max_wait=60.0)
        await put(caller, provider)
        with pytest.raises(CallError) as error:
            await put(caller, provider)
        return str(error.value), len(provider.times)

    told, sent = run(main())
    assert "goes on at 2026-11-24 00:00 UTC, in 12.0 h" in told
    assert "the retry budget (max_wait = 60 s) has 60 s left" in told
    assert sent == 1


@pytest.mark.parametrize(
    ("zone", "begin", "hours"),
    [
        ("UTC", datetime(2026, 11, 23, 22, tzinfo=UTC), 2),
        ("America/Los_Angeles", datetime(2026, 11, 23, 22, tzinfo=UTC), 10),
        ("Asia/Tokyo", datetime(2026, 11, 23, 14, tzinfo=UTC), 1),
        # The day on which the clocks are set back has 25 hours.
        ("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
        # There is no midnight on the day on which the clocks are set forward: it begins at one.
        ("America/Asuncion", datetime(2023, 10, 1, 3, tzinfo=UTC), 1),
    ],
)
def test_a_day_ends_at_midnight_of_the_zone(
    at: Callable[[datetime], None], zone: str, begin: datetime, hours: int
) -> None:
    at(begin)

    async def main() -> float:
        quota = DayQuota(1, zone)
        await quota.take(0)
        with pytest.raises(AccountPaused) as error:
            await quota.take(0)
        await quota.take(1e6)
        assert now() == pytest.approx(error.value.seconds, abs=0.1)
        return error.value.seconds

    assert run(main()) == pytest.approx(hours * 3600, abs=0.1)


def test_a_waiter_that_is_cancelled_gives_its_request_of_the_day_back() -> None:
    async def main() -> None:
        limits = AccountLimits(Limits(requests_per_day=2, concurrent=1), STEADY)
        ticket = await limits.enter(1, ahead=False, max_wait=9)
        waiting = asyncio.create_task(limits.enter(1, ahead=False, max_wait=9))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        limits.leave(ticket)
        limits.leave(await limits.enter(1, ahead=False, max_wait=9))

    run(main())


async def test_a_cancelled_request_of_the_file_is_counted_no_longer(own_cache: Path) -> None:
    quota = DayQuota(5, counted_as="mine")
    await quota.take(0)
    with sqlite3.connect(own_cache, isolation_level=None) as other:
        # Another process writes: the request stays in its thread.
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(quota.take(0))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        other.execute("COMMIT")
    other.close()
    # The next one goes through the same thread, after it.
    quota.give_back(await quota.take(0))
    assert await asyncio.to_thread(quota.left) in (3, 4)
    await quota.take(0)
    assert [row[2] for row in counted(own_cache)] == [2]


SENDER = """
import asyncio, sys
from scenewright.providers.day_quota import DayQuota
from scenewright.providers.retry import AccountPaused

async def main():
    quota = DayQuota(60, "UTC", "mine")
    print("ready", flush=True)
    sys.stdin.readline()
    sent = 0
    try:
        while True:
            await quota.take(0)
            sent += 1
            print("sent", flush=True)
    except AccountPaused:
        print("used up", flush=True)

asyncio.run(main())
"""


def sender() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SENDER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_share_a_day_and_a_kill_takes_nothing_back(own_cache: Path) -> None:
    killed = sender()
    assert killed.stdin is not None
    assert killed.stdout is not None
    killed.stdin.write("go\n")
    killed.stdin.flush()
    for _ in range(10):
        assert killed.stdout.readline() == "sent\n"
    killed.send_signal(signal.SIGSTOP)
    killed.kill()
    sent = 10 + killed.stdout.read().count("sent\n")
    killed.wait()
    pair = [sender(), sender()]
    for process in pair:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in pair]
    assert all(text.endswith("used up\n") for text in said)
    more = sum(text.count("sent\n") for text in said)
    # What was counted when the kill came may not have been sent: one request.
    assert sent + more in (59, 60)
    assert [row[2] for row in counted(own_cache)] == [60]


async def test_accounts_and_days_are_counted_apart(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = DayQuota(3, counted_as="mine"), DayQuota(3, counted_as="other")
    for _ in range(2):
        await mine.take(0)
    await other.take(0)
    assert (mine.left(), other.left()) == (1, 2)
    # Another object, such as the account in another panel, goes on with the count.
    assert DayQuota(10, counted_as="mine").left() == 8
    tomorrow = SimpleNamespace(
        time=lambda: day_quota.datetime.now(UTC).timestamp() + 86_400, monotonic=lambda: 0.0
    )
    monkeypatch.setattr(day_quota, "time", tomorrow)
    assert mine.left() == 3
    await mine.take(0)
    assert sorted(row[2] for row in counted(own_cache)) == [1, 1, 2]


def test_days_of_long_ago_are_dropped(own_cache: Path) -> None:
    sent = RequestCounter(own_cache)
    sent.take(("mine", "2020-01-01"), 5)
    assert RequestCounter(own_cache).sent(("mine", "2020-01-01")) == 0


@pytest.mark.parametrize("trouble", ["damaged", "folder", "homeless"])
async def test_counting_goes_on_in_memory_and_says_so_once(
    own_cache: Path,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if trouble == "damaged":
        own_cache.parent.mkdir(parents=True)
        own_cache.write_bytes(b"no database" * 1000)
    elif trouble == "folder":
        own_cache.parent.parent.mkdir(parents=True)
        own_cache.parent.write_text("a file where the folder should be")
    elif trouble == "homeless":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", _homeless)
    quota = DayQuota(4, counted_as="mine")
    with caplog.at_level(logging.WARNING, "scenewright.providers"):
        for _ in range(4):
            await quota.take(0)
        with pytest.raises(AccountPaused, match="is used up"):
            await quota.take(0)
    told = [record.message for record in caplog.records]
    assert len(told) == (trouble != "homeless")
    assert all("counted in memory" in text and str(own_cache) in text for text in told)


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


FULL = """
import asyncio, resource, sys
# A file of bytecode must not be cut off.
sys.dont_write_bytecode = True
from scenewright.providers.day_quota import DayQuota
from scenewright.providers.retry import AccountPaused

async def main():
    quota = DayQuota(4, "UTC", "mine")
    await quota.take(0)
    # No file may grow from here on.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    for sent in range(2, 9):
        try:
            await quota.take(0)
        except AccountPaused as error:
            print(sent, error)
            return

asyncio.run(main())
"""


def test_on_a_full_disk_the_count_goes_on_from_what_the_file_said(own_cache: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL], capture_output=True, text=True, env={**os.environ}, check=True
    )
    assert done.stdout.startswith("5 requests_per_day of the account (4) is used up")
    assert done.stderr.count("cannot be used") == 1


async def test_what_was_counted_in_memory_is_written_when_the_file_can_be_used(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.parent.parent.mkdir(parents=True, exist_ok=True)
    own_cache.parent.write_text("a file where the folder should be")
    quota = DayQuota(10, counted_as="mine")
    for _ in range(3):
        await quota.take(0)
    own_cache.parent.unlink()
    assert quota.left() == 7
    assert not own_cache.exists()
    monkeypatch.setattr(day_quota, "RETRY_SECONDS", 0.0)
    sent_requests(own_cache)._rests_until = 0.0
    await quota.take(0)
    assert [row[2] for row in counted(own_cache)] == [4]


def test_threads_of_one_process_lose_no_count(own_cache: Path) -> None:
    sent = sent_requests(own_cache)
    granted: list[bool] = []

    def ask() -> None:
        for _ in range(50):
            granted.append(sent.take(("mine", "2026-11-23"), 120))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 120
    assert [row[2] for row in counted(own_cache)] == [120]


async def test_an_account_counts_by_its_name_address_and_key(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one")
    spec = AccountSpec(provider="openai", requests_per_day=5)
    for _ in range(2):
        limits = AccountLimits(limits_of("openai", spec), STEADY)
        limits.leave(await limits.enter(1, ahead=False, max_wait=0))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-two")
    limits = AccountLimits(limits_of("openai", spec), STEADY)
    limits.leave(await limits.enter(1, ahead=False, max_wait=0))
    rows = counted(own_cache)
    assert sorted(row[2] for row in rows) == [1, 2]
    assert all(row[0].startswith("openai ") and "sk-" not in row[0] for row in rows)


def test_providers_begin_a_day_at_their_own_midnight() -> None:
    def zone(**given: object) -> str:
        return AccountSpec.model_validate(given).zone_of_day

    assert zone(provider="openai") == "UTC"
    assert zone(provider="gemini") == "America/Los_Angeles"
    assert zone(provider="gemini", day_zone="Europe/Berlin") == "Europe/Berlin"
    with pytest.raises(ValueError, match="no time zone 'Mars/Olympus'"):
        zone(provider="openai", day_zone="Mars/Olympus")


async def test_workers_of_a_cluster_hear_why_they_cannot_go_on() -> None:
    actor = Actor()
    gate = RateLimitClient(actor, "a", "mine", Limits(requests_per_day=1), STEADY)
    caller = Caller("mine", gate=gate, max_wait=1.0)
    gate.leave(await gate.enter(1, ahead=False, max_wait=0))
    with pytest.raises(CallError, match="is used up: it goes on at"):
        await put(caller, Provider())

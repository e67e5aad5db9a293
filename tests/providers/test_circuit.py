"""An account whose server fails in a row: one request at a time tests it, the others wait."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from scenewright.providers.limits import OPEN_AFTER, UNKNOWN_SECONDS, AccountLimits, Limits
from scenewright.providers.retry import CallError, PermanentError, RateLimited, Transient
from scenewright.providers.usage import Reply, Usage
from tests.providers.virtual import STEADY, Said, get_caller, nothing_is_held, now, put, run


class Server:
    """Answers outside of its ``outages``, pairs of times; counts requests."""

    def __init__(self, *outages: tuple[float, float], error: Exception | None = None) -> None:
        self.outages = outages
        self.error = error or Said(Transient("no connection to h: connection refused"))
        self.times: list[float] = []
        self.under_way = self.most = 0

    async def send(self) -> Reply[str]:
        self.times.append(now())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.1)
        self.under_way -= 1
        if any(begin <= now() < end for begin, end in self.outages):
            raise self.error
        return Reply("ok", Usage())


async def calls(caller, server: Server, count: int) -> list[str]:
    done = await asyncio.gather(
        *(put(caller, server) for _ in range(count)), return_exceptions=True
    )
    assert nothing_is_held(caller)
    return ["ok" if not isinstance(one, BaseException) else str(one) for one in done]


def test_a_server_that_never_answers_is_given_up_soon_by_all() -> None:
    async def main() -> None:
        caller, server = get_caller(), Server((0, 1e9))
        lost = await calls(caller, server, 500)
        assert all("connection refused" in one for one in lost)
        assert "requests in a row failed, the last one because: no connection to h" in lost[-1]
        assert now() < UNKNOWN_SECONDS + 1
        # Those that were under way together, and one test after each wait.
        assert len(server.times) <= Limits().concurrent + 8
        before, begun = len(server.times), now()
        with pytest.raises(CallError, match=r"asked again in \d s \(after 0 attempts\)"):
            await put(caller, server)
        assert (len(server.times), now()) == (before, begun)

    run(main())


def test_one_request_alone_behaves_as_without_it() -> None:
    async def main() -> None:
        caller, server = get_caller(), Server((0, 1e9))
        (lost,) = await calls(caller, server, 1)
        assert lost == "no connection to h: connection refused (after 6 attempts)"
        assert len(server.times) == 6 < OPEN_AFTER

    run(main())


def test_an_outage_of_a_known_server_is_waited_for() -> None:
    async def main() -> None:
        caller, server = get_caller(), Server((10, 310))
        assert await calls(caller, server, 1) == ["ok"]
        await asyncio.sleep(20)
        done = await calls(caller, server, 300)
        # A call that tests uses up its attempts.
        assert done.count("ok") >= 290
        assert now() > 310
        in_outage = [time for time in server.times if 20 <= time < 310]
        assert len(in_outage) <= Limits().concurrent + 300 / STEADY.maximum + 10
        assert (await calls(caller, server, 1)) == ["ok"]

    run(main())


def test_an_outage_beyond_the_patience_loses_the_calls() -> None:
    async def main() -> None:
        caller, server = get_caller(max_wait=60), Server((10, 1e9))
        await calls(caller, server, 1)
        await asyncio.sleep(20)
        lost = await calls(caller, server, 100)
        assert "ok" not in lost
        assert now() < 20 + 60 + 2 * STEADY.maximum

    run(main())


def test_one_test_at_a_time_and_all_at_once_when_it_is_back() -> None:
    async def main() -> None:
        caller, server = get_caller(Limits(concurrent=16)), Server((0, 6))
        assert await calls(caller, server, 100) == ["ok"] * 100
        tests = [time for time in server.times[16:] if time < 6]
        assert all(later - earlier > 0.1 for earlier, later in pairwise(tests))
        assert server.most == 16
        assert now() < 12

    run(main())


@pytest.mark.parametrize(
    "alive",
    [PermanentError("400"), RateLimited("429", 0.1), Transient("not JSON", replied=True)],
    ids=["wrong", "limited", "unreadable"],
)
def test_a_server_that_says_anything_is_there(alive) -> None:
    async def main() -> None:
        caller, server = get_caller(attempts=1, max_wait=0.3), Server((0, 1e9))
        for _ in range(OPEN_AFTER - 1):
            await calls(caller, server, 1)
        server.error = Said(alive)
        await calls(caller, server, 1)
        # A refusal pauses the account.
        await asyncio.sleep(2)
        server.error = Said(Transient("503"))
        begun = now()
        for _ in range(OPEN_AFTER - 1):
            await calls(caller, server, 1)
        # Each took the time of its request: none waited for a test.
        assert now() - begun == pytest.approx(0.1 * (OPEN_AFTER - 1), abs=0.01)
        await calls(caller, server, 1)
        (lost,) = await calls(caller, server, 1)
        assert lost.startswith(f"{OPEN_AFTER} requests in a row failed, the last one because: 503")

    run(main())


def test_a_cancelled_test_leaves_the_place_to_the_next() -> None:
    async def main() -> None:
        limits = AccountLimits(Limits(concurrent=64), STEADY)
        tickets = [await limits.enter(0, ahead=False, max_wait=9) for _ in range(OPEN_AFTER)]
        for ticket in tickets:
            limits.leave(ticket)
            limits.failed(ticket, "down")
        testing = await limits.enter(0, ahead=False, max_wait=9)
        waiting = [
            asyncio.ensure_future(limits.enter(0, ahead=False, max_wait=9)) for _ in range(3)
        ]
        await asyncio.sleep(1)
        assert testing.test
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()
        limits.leave(testing)
        second = await waiting[1]
        assert second.test
        await asyncio.sleep(1)
        assert not waiting[2].done()
        limits.leave(second)
        limits.answered(second, 0)
        assert not (await waiting[2]).test

    run(main())

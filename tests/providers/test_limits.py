"""The limits of an account: rates that are kept and reached, fair turns, nothing lost."""

from __future__ import annotations

import asyncio
import bisect
from typing import Any

import pytest
from asyncio_throttle.throttler import Throttler
from hypothesis import given
from hypothesis import strategies as st

from scenewright.providers.limits import (
    AccountLimits,
    FifoLock,
    Limits,
    RatePlan,
    Slots,
    TokenBudget,
)
from scenewright.providers.retry import AccountPaused
from tests.providers.virtual import REPEATABLE, STEADY, now, run, throttle_in_virtual_time


def rate_plan(limit: int, window: float = 60.0) -> RatePlan:
    plan = Limits(requests_per_minute=limit, window=window).rate_plan()
    assert plan is not None
    return plan


@REPEATABLE
@given(st.integers(1, 100_000), st.floats(0.5, 60.0))
def test_a_plan_never_exceeds_the_limit_and_hardly_falls_short(limit: int, window: float) -> None:
    plan = rate_plan(limit, window)
    # Half a second of jitter on the way to the server, on top of the minute.
    assert plan.count * (int(60.5 / plan.period) + 1) <= limit
    assert 60 * plan.count / plan.period >= 0.985 * limit
    assert plan.count == 1 or plan.count <= limit * window / 60 + 1e-6


@pytest.mark.parametrize(
    ("limit", "window", "count", "period"),
    [
        (1, 60, 1, 60.6),
        (500, 60, 500, 60.6),
        (60, 1, 1, 1.01),
        (500, 1, 6, 0.7301),
        (3000, 1, 50, 1.01),
    ],
)
def test_plans_of_usual_limits(limit: int, window: float, count: int, period: float) -> None:
    plan = rate_plan(limit, window)
    assert plan.count == count
    assert plan.period == pytest.approx(period, rel=1e-3)


@pytest.mark.parametrize("window", [0.0, -1.0, 61.0, float("nan")])
def test_a_window_is_at_most_a_minute(window: float) -> None:
    with pytest.raises(ValueError, match="window"):
        Limits(window=window)


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "concurrent"])
def test_limits_that_let_nothing_pass_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})


def most_in(times: list[float], seconds: float) -> int:
    """Most of the sorted ``times`` within any ``seconds``."""
    return max(bisect.bisect_right(times, t + seconds) - i for i, t in enumerate(times))


@pytest.mark.parametrize(("limit", "window"), [(20, 60), (97, 60), (97, 3), (600, 1)])
def test_the_rate_is_kept_in_every_minute_and_reached(
    monkeypatch: pytest.MonkeyPatch, limit: int, window: float
) -> None:
    throttle_in_virtual_time(monkeypatch)

    async def main() -> list[float]:
        limits = AccountLimits(Limits(requests_per_minute=limit, window=window), STEADY)
        times: list[float] = []

        async def one() -> None:
            limits.leave(await limits.enter(0, ahead=False, max_wait=9))
            times.append(now())

        async with asyncio.TaskGroup() as group:
            for _ in range(limit * 2):
                group.create_task(one())
        return times

    times = run(main())
    assert len(times) == limit * 2
    assert most_in(times, 60.0) <= limit
    plan = rate_plan(limit, window)
    # The last burst needs no period after it.
    assert (limit * 2 - plan.count) / (times[-1] - times[0]) * 60 >= 0.98 * limit


def test_of_a_thousand_waiting_calls_one_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle_in_virtual_time(monkeypatch)
    polling, most = 0, 0
    acquire = Throttler.acquire

    async def counted(self: Throttler) -> None:
        nonlocal polling, most
        polling += 1
        most = max(most, polling)
        try:
            await acquire(self)
        finally:
            polling -= 1

    monkeypatch.setattr(Throttler, "acquire", counted)

    async def main() -> int:
        limits = AccountLimits(Limits(requests_per_minute=60, window=1), STEADY)
        went = 0

        async def one() -> None:
            nonlocal went
            await limits.enter(0, ahead=False, max_wait=9)
            went += 1

        tasks = [asyncio.create_task(one()) for _ in range(1000)]
        await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return went

    assert 4 <= run(main()) <= 6
    assert most == 1
    assert polling == 0


def test_turns_go_in_order_but_some_go_ahead() -> None:
    async def main() -> list[str]:
        line = FifoLock()
        order: list[str] = []

        async def one(name: str, ahead: bool) -> None:
            await line.take(ahead=ahead)
            order.append(name)
            await asyncio.sleep(1)
            line.leave()

        async with asyncio.TaskGroup() as group:
            for name in ("a", "b", "c", "D", "E"):
                group.create_task(one(name, name.isupper()))
        return order

    assert run(main()) == ["a", "D", "E", "b", "c"]


@pytest.mark.parametrize("at", ["waiting", "just given the turn"])
def test_a_cancelled_turn_goes_to_the_next(at: str) -> None:
    async def main() -> bool:
        line = FifoLock()
        await line.take()
        first = asyncio.create_task(line.take())
        second = asyncio.create_task(line.take())
        await asyncio.sleep(0)
        if at == "waiting":
            first.cancel()
            line.leave()
        else:
            line.leave()
            first.cancel()
        await asyncio.wait({second}, timeout=1)
        return first.cancelled() and second.done()

    assert run(main())


def test_places_halve_and_grow_back_slowly_within_their_bounds() -> None:
    slots = Slots(10)
    for _ in range(100):
        slots.succeeded()
    assert slots.allowed == 10
    seen = []
    for _ in range(5):
        slots.halve()
        seen.append(slots.allowed)
    assert seen == [5, 2, 1, 1, 1]
    needed = []
    while slots.allowed < 10:
        before, count = slots.allowed, 0
        while slots.allowed == before:
            slots.succeeded()
            count += 1
        needed.append(count)
    assert needed == list(range(1, 10))


def test_a_place_is_waited_for_when_there_are_fewer_than_under_way() -> None:
    async def main() -> list[bool]:
        slots = Slots(4)
        for _ in range(4):
            await slots.take()
        slots.halve()
        waiting = asyncio.create_task(slots.take())
        seen = []
        for _ in range(3):
            slots.leave()
            await asyncio.sleep(0.1)
            seen.append(waiting.done())
        return seen

    assert run(main()) == [False, False, True]


def tokens_at(per_minute: int, amounts: list[int]) -> list[float]:
    """When calls that take ``amounts`` of tokens one after another may go."""

    async def main() -> list[float]:
        budget = TokenBudget(per_minute)
        times = []
        for amount in amounts:
            await budget.take(amount)
            times.append(now())
        return times

    return run(main())


@REPEATABLE
@given(st.integers(100, 10_000), st.lists(st.integers(1, 400), min_size=1, max_size=60))
def test_tokens_of_a_minute_stay_within_the_limit(per_minute: int, amounts: list[int]) -> None:
    times = tokens_at(per_minute, amounts)
    for i, start in enumerate(times):
        inside = [a for t, a in zip(times[i:], amounts[i:], strict=True) if t <= start + 60]
        assert sum(inside) <= per_minute + max(inside) + 1e-6


def test_tokens_of_a_minute_are_used() -> None:
    times = tokens_at(60_000, [1000] * 300)
    assert 300_000 / times[-1] * 60 >= 0.98 * 60_000


def test_a_call_larger_than_a_minute_goes_after_its_time() -> None:
    (time,) = tokens_at(1000, [3000])
    assert time == pytest.approx(3 * 60 * 60 / 59, abs=2)


@pytest.mark.parametrize(
    ("used", "seconds"), [(600, 10.0), (1200, 20.0), (0, 0.0)], ids=["as taken", "more", "none"]
)
def test_what_a_reply_used_corrects_what_was_taken(used: int, seconds: float) -> None:
    async def main() -> float:
        budget = TokenBudget(3600)
        await budget.take(600)
        budget.correct(used - 600)
        start = now()
        await budget.take(600)
        return now() - start

    # 59 tokens a second, of which the first call's last second is still in the bucket.
    assert run(main()) == pytest.approx(seconds, abs=1.1)


def test_tokens_given_back_long_ago_are_not_saved_up() -> None:
    async def main() -> float:
        budget = TokenBudget(3600)
        await budget.take(600)
        budget.correct(-600)
        await asyncio.sleep(600)
        start = now()
        await budget.take(600)
        return now() - start

    assert run(main()) > 8


async def entered(limits: AccountLimits, *, tokens: int = 0, max_wait: float = 100) -> Any:
    return await limits.enter(tokens, ahead=False, max_wait=max_wait)


def test_refusals_of_one_burst_halve_once_and_pause_all() -> None:
    async def main() -> tuple[list[int], list[float]]:
        limits = AccountLimits(Limits(concurrent=16), STEADY)
        allowed, paused = [], []
        for retry_after in (20.0, 5.0):
            tickets = [await entered(limits) for _ in range(4)]
            for ticket in tickets:
                limits.leave(ticket)
                limits.refused(ticket, retry_after)
            allowed.append(limits.slots.allowed)
            paused.append(limits.paused())
        return allowed, paused

    allowed, paused = run(main())
    assert allowed == [8, 4]
    assert paused == pytest.approx([20, 5])


def test_refusals_that_do_not_say_how_long_pause_ever_longer_until_a_success() -> None:
    async def main() -> list[float]:
        limits = AccountLimits(Limits(), STEADY)
        pauses = []
        for refused in (True, True, True, False, True):
            ticket = await entered(limits)
            limits.leave(ticket)
            if refused:
                limits.refused(ticket, None)
                pauses.append(limits.paused())
            else:
                limits.answered(ticket, 10)
        return pauses

    assert run(main()) == pytest.approx([1, 2, 4, 1])


def test_nobody_waits_for_a_pause_beyond_its_patience() -> None:
    async def main() -> float:
        limits = AccountLimits(Limits(), STEADY)
        ticket = await entered(limits)
        limits.leave(ticket)
        limits.refused(ticket, 3600)
        with pytest.raises(AccountPaused):
            await entered(limits, max_wait=600)
        started = now()
        limits.leave(await entered(limits, max_wait=3600))
        return now() - started

    assert run(main()) == pytest.approx(3600)


def test_a_pause_holds_even_those_who_wait_for_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle_in_virtual_time(monkeypatch)

    async def main() -> float:
        limits = AccountLimits(Limits(requests_per_minute=6, window=1), STEADY)
        ticket = await entered(limits)
        waiting = asyncio.create_task(entered(limits))
        await asyncio.sleep(1)
        limits.refused(ticket, 50)
        limits.leave(ticket)
        await waiting
        return now()

    assert run(main()) >= 51


@pytest.mark.parametrize("held_up_by", ["line", "tokens", "slots", "pause", "rate"])
def test_cancelled_waiters_take_nothing_with_them(
    monkeypatch: pytest.MonkeyPatch, held_up_by: str
) -> None:
    throttle_in_virtual_time(monkeypatch)
    bounds = {
        "tokens": Limits(tokens_per_minute=600),
        "slots": Limits(concurrent=1),
        "rate": Limits(requests_per_minute=6, window=1),
    }.get(held_up_by, Limits())

    async def main() -> None:
        limits = AccountLimits(bounds, STEADY)
        ticket = await entered(limits, tokens=10)
        if held_up_by == "pause":
            limits.refused(ticket, 50)
        if held_up_by == "line":
            await limits._line.take()
        waiting = [asyncio.create_task(entered(limits, tokens=10_000)) for _ in range(3)]
        await asyncio.sleep(2)
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if held_up_by == "line":
            limits._line.leave()
        limits.leave(ticket)
        assert limits.slots.under_way == 0
        started = now()
        limits.leave(await entered(limits, tokens=10))
        # 10,000 tokens of a cancelled call would take a thousand seconds.
        assert now() - started <= 60

    run(main())


def test_an_account_serves_one_event_loop_after_another(recwarn: pytest.WarningsRecorder) -> None:
    limits = AccountLimits(Limits(600, 60_000, concurrent=2), STEADY)

    async def main() -> int:
        async def one() -> None:
            limits.leave(await limits.enter(10, ahead=False, max_wait=9))

        await asyncio.gather(*(one() for _ in range(5)))
        return limits.slots.under_way

    assert [asyncio.run(main()) for _ in range(3)] == [0, 0, 0]
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]

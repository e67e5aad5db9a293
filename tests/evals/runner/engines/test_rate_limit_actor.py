"""The office of tickets: one limit for all who ask, and what becomes of those who leave or die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scenewright.evals.runner.engines.cluster import RateLimitActor, RateLimitClient
from scenewright.providers.caller import Caller
from scenewright.providers.limits import OPEN_AFTER, AccountLimits, Limits, share_gates
from scenewright.providers.retry import AccountPaused, Backoff

STEADY = Backoff(jitter=0.0)


class Method:
    """A method of an actor: its calls run in the order in which they are sent."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def remote(self, *args: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._method(*args))


class Actor:
    """An office that is asked as an actor is, in this event loop."""

    def __init__(self) -> None:
        self.rate_limits = RateLimitActor()

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self.rate_limits, name))


def gate(actor: Actor, worker: str, limits: Limits) -> RateLimitClient:
    return RateLimitClient(actor, worker, "mine", limits, STEADY)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def entered(gates: list[RateLimitClient], n: int) -> list[asyncio.Task[Any]]:
    tasks = [
        asyncio.create_task(gates[at % len(gates)].enter(10, ahead=False, max_wait=60.0))
        for at in range(n)
    ]
    await settle()
    return tasks


async def ended(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await settle()


async def test_workers_share_the_places_of_an_account() -> None:
    actor = Actor()
    gates = [gate(actor, name, Limits(concurrent=3)) for name in "ab"]
    tasks = await entered(gates, 8)
    assert [task.done() for task in tasks] == [True] * 3 + [False] * 5
    gates[0].leave(tasks[0].result())
    await settle()
    assert sum(task.done() for task in tasks) == 4
    assert await actor.rate_limits.under_way() == 3
    await ended(tasks)


async def test_workers_share_the_requests_a_minute() -> None:
    actor = Actor()
    gates = [gate(actor, name, Limits(requests_per_minute=5)) for name in "ab"]
    tasks = await entered(gates, 12)
    await asyncio.sleep(0.1)
    assert sum(task.done() for task in tasks) == 5
    await ended(tasks)


async def test_accounts_have_limits_of_their_own() -> None:
    actor = Actor()
    one = RateLimitClient(actor, "a", "one", Limits(concurrent=1), STEADY)
    two = RateLimitClient(actor, "a", "two", Limits(concurrent=1), STEADY)
    tasks = [await entered([g], 1) for g in (one, two)]
    assert all(task.done() for [task] in tasks)


async def test_a_dead_worker_holds_no_place_and_gets_none() -> None:
    actor = Actor()
    dead, alive = (gate(actor, name, Limits(concurrent=2)) for name in ("dead", "alive"))
    held = await entered([dead], 4)
    waiting = await entered([alive], 2)
    assert not any(task.done() for task in waiting)
    await actor.rate_limits.forget("dead")
    await settle()
    assert all(task.done() for task in waiting)
    assert await actor.rate_limits.under_way() == 2
    late = await entered([dead], 1)
    assert late[0].cancelled()
    assert await actor.rate_limits.under_way() == 2
    await ended(held)


async def test_who_leaves_the_line_takes_nothing_with_it() -> None:
    actor = Actor()
    mine = gate(actor, "a", Limits(concurrent=1))
    first, second, third = await entered([mine], 3)
    await ended([second])
    mine.leave(first.result())
    await settle()
    assert third.done()
    assert await actor.rate_limits.under_way() == 1
    # Cancelled before the actor has even begun with it.
    early = asyncio.create_task(mine.enter(10, ahead=False, max_wait=1.0))
    await asyncio.sleep(0)
    await ended([early])
    mine.leave(third.result())
    await settle()
    assert await actor.rate_limits.under_way() == 0
    assert (await mine.enter(10, ahead=False, max_wait=1.0)) is not None


async def test_one_workers_refusal_pauses_all() -> None:
    actor = Actor()
    one, two = (gate(actor, name, Limits(concurrent=8)) for name in "ab")
    [first] = await entered([one], 1)
    one.leave(first.result())
    one.refused(first.result(), 30.0)
    await settle()
    assert 29 < one.paused() <= 30
    with pytest.raises(AccountPaused) as paused:
        await two.enter(10, ahead=False, max_wait=5.0)
    assert 29 < paused.value.seconds <= 30
    assert await actor.rate_limits.under_way() == 0


async def test_failures_of_all_workers_open_one_circuit() -> None:
    actor = Actor()
    one, two = (gate(actor, name, Limits(concurrent=32)) for name in "ab")
    for at, task in enumerate(await entered([one, two], OPEN_AFTER)):
        client = (one, two)[at % 2]
        client.leave(task.result())
        client.failed(task.result(), "connection refused")
    await settle()
    waiting = await entered([one, two], 4)
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await settle()
    (testing,) = [task for task in waiting if task.done()]
    assert testing.result().test
    client = (one, two)[waiting.index(testing) % 2]
    client.leave(testing.result())
    client.answered(testing.result(), 0)
    await asyncio.wait(waiting)
    assert sum(task.result().test for task in waiting) == 1


@pytest.fixture
async def shared() -> AsyncIterator[Actor]:
    actor = Actor()
    share_gates(lambda *args: RateLimitClient(actor, "a", *args))
    yield actor
    share_gates(None)


async def test_callers_of_a_worker_pass_the_office(shared: Actor) -> None:
    assert isinstance(Caller("mine").limits, RateLimitClient)
    share_gates(None)
    assert isinstance(Caller("mine").limits, AccountLimits)


async def test_a_caller_that_is_there_already_passes_the_office_for_a_while() -> None:
    actor = Actor()
    caller = Caller("mine", Limits(concurrent=3))
    before = caller.limits
    with caller.sharing(lambda *args: RateLimitClient(actor, "driver", *args)):
        ticket = await caller.limits.enter(10, ahead=False, max_wait=1.0)
        [(account, limits)] = actor.rate_limits._accounts
        assert (account, limits.concurrent) == ("mine", 3)
        caller.limits.leave(ticket)
        await settle()
    assert caller.limits is before
    elsewhere = RateLimitClient(actor, "other", "mine", Limits(), STEADY)
    kept = Caller("mine", gate=elsewhere)
    with kept.sharing(lambda *args: RateLimitClient(actor, "driver", *args)):
        assert kept.limits is elsewhere

"""Many calls with faults and cancellations: each ends once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from scenewright.providers.limits import Limits
from scenewright.providers.retry import (
    CallError,
    PermanentError,
    RateLimited,
    Transient,
    UnusableReply,
)
from scenewright.providers.usage import CallResult, Reply, Usage
from tests.providers.virtual import (
    Said,
    classify,
    get_caller,
    nothing_is_held,
    run,
    throttle_in_virtual_time,
)

CALLS = 120
LIMITS = {
    "none": Limits(concurrent=7),
    "requests": Limits(requests_per_minute=600, concurrent=7),
    "tokens": Limits(tokens_per_minute=60_000, concurrent=7),
    "all": Limits(requests_per_minute=900, tokens_per_minute=90_000, concurrent=3),
}


class Chaos:
    """A provider with every kind of fault, and what it was paid."""

    def __init__(self, dice: random.Random, most: int) -> None:
        self.dice = dice
        self.bound = most
        self.under_way = 0
        self.sent = 0
        self.paid = 0

    async def send(self) -> Reply[int]:
        dice = self.dice
        self.sent += 1
        self.under_way += 1
        assert self.under_way <= self.bound
        try:
            await asyncio.sleep(dice.choice([0.0, 0.1, 0.5, 40.0 if dice.random() < 0.1 else 0.2]))
            fault = dice.random()
            if fault < 0.1:
                raise Said(RateLimited("429", dice.choice([None, 0.0, 3.0])))
            if fault < 0.2:
                raise Said(Transient("503", dice.choice([None, 2.0])))
            if fault < 0.23:
                raise Said(PermanentError("400"))
            tokens = dice.randrange(50, 200)
            self.paid += tokens
            if fault < 0.3:
                raise UnusableReply("no JSON", Usage(tokens), retry=dice.random() < 0.5)
            return Reply(tokens, Usage(tokens))
        finally:
            self.under_way -= 1


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("seed", range(5))
def test_every_call_ends_once_and_every_place_comes_back(
    monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    throttle_in_virtual_time(monkeypatch)
    dice = random.Random(f"{kind} {seed}")

    async def main() -> None:
        caller = get_caller(LIMITS[kind], timeout=10, attempts=4, max_wait=60)
        chaos = Chaos(dice, LIMITS[kind].concurrent)
        ended: Counter[str] = Counter()

        async def one() -> None:
            try:
                done = await caller.call(
                    chaos.send, classify=classify, provider="p", model="m", tokens=100
                )
            except CallError:
                ended["lost"] += 1
            except asyncio.CancelledError:
                ended["cancelled"] += 1
                raise
            else:
                assert isinstance(done, CallResult)
                ended["answered"] += 1

        async def cancel_later(task: asyncio.Task[None]) -> None:
            await asyncio.sleep(dice.uniform(0, 20))
            task.cancel()

        tasks = [asyncio.create_task(one()) for _ in range(CALLS)]
        await asyncio.sleep(0)
        cancelling = [cancel_later(task) for task in dice.sample(tasks, CALLS // 4)]
        await asyncio.gather(*cancelling, *tasks, return_exceptions=True)
        totals = caller.totals
        assert ended == {
            "lost": totals.lost,
            "cancelled": totals.cancelled,
            "answered": totals.answered,
        }
        assert sum(ended.values()) == totals.calls == CALLS
        assert min(ended.values()) > 0
        assert totals.attempts == chaos.sent
        assert totals.usage.tokens_in == chaos.paid
        assert chaos.under_way == 0
        assert nothing_is_held(caller)

    run(main())

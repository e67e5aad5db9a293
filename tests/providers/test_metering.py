"""Who asks a model can count what it took, whoever else counts."""

from __future__ import annotations

import asyncio

import pytest

from scenewright.providers.retry import CallError, PermanentError
from scenewright.providers.usage import Usage, metered
from tests.providers.test_caller import USD
from tests.providers.virtual import Provider, Said, get_caller, put, run


def test_calls_inside_are_counted_and_others_are_not() -> None:
    async def main() -> None:
        caller = get_caller()
        await put(caller, Provider())
        with metered() as spent:
            await put(caller, Provider())
            with metered() as inner:
                await asyncio.gather(put(caller, Provider()), put(caller, Provider()))
        await put(caller, Provider())
        assert (spent.calls, inner.calls, caller.totals.calls) == (3, 2, 5)
        assert spent.usage == Usage(3000, 300, 600)
        assert inner.usd == pytest.approx(2 * USD)
        assert inner.seconds == pytest.approx(0.4, abs=0.02)

    run(main())


def test_tasks_side_by_side_count_their_own() -> None:
    async def main() -> None:
        caller = get_caller()

        async def task(count: int) -> int:
            with metered() as spent:
                for _ in range(count):
                    await put(caller, Provider())
            return spent.calls

        assert await asyncio.gather(task(1), task(3), task(2)) == [1, 3, 2]

    run(main())


def test_a_lost_call_counts_what_was_paid() -> None:
    async def main() -> None:
        with metered() as spent, pytest.raises(CallError):
            await put(get_caller(), Provider(Said(PermanentError("HTTP 400"))))
        assert (spent.calls, spent.usage, spent.usd) == (1, Usage(), 0.0)

    run(main())

"""The thread that owns a model."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial

import pytest

from scenewright.providers.device_gate import DeviceGate, ModelThread, Stop, Stopped


async def test_work_is_done_in_one_thread_in_the_order_in_which_it_came() -> None:
    thread = ModelThread("painter")
    order: list[int] = []

    def work(number: int, stop: Stop) -> str:
        order.append(number)
        return threading.current_thread().name

    names = await asyncio.gather(*(thread.run(partial(work, number)) for number in range(5)))
    await thread.aclose()
    assert order == list(range(5))
    assert set(names) == {"painter_0"}


async def test_what_the_work_raises_is_raised() -> None:
    thread = ModelThread("painter")

    def work(stop: Stop) -> None:
        raise ValueError("no paint")

    with pytest.raises(ValueError, match="no paint"):
        await thread.run(work)
    await thread.aclose()


async def test_cancelling_sets_the_stop_of_that_work_alone() -> None:
    thread = ModelThread("painter")
    begun, stopped = threading.Event(), threading.Event()
    gate = DeviceGate()

    def work(stop: Stop) -> None:
        begun.set()
        with suppress(Stopped), gate.turn(stop):
            pytest.fail("another one is at work")
        stopped.set()

    with gate.turn(Stop()):
        cancelled = asyncio.create_task(thread.run(work))
        await asyncio.to_thread(begun.wait, 10)
        other = asyncio.create_task(thread.run(Stop.is_set))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await other is False
    assert stopped.is_set()
    await thread.aclose()


async def test_closing_waits_for_the_running_work_and_takes_no_more() -> None:
    thread = ModelThread("painter")
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work(stop: Stop) -> None:
        begun.set()
        assert go_on.wait(10)
        done.set()

    running = asyncio.create_task(thread.run(work))
    await asyncio.to_thread(begun.wait, 10)
    closing = asyncio.create_task(thread.aclose())
    await asyncio.sleep(0)
    assert thread.closed
    assert not closing.done()
    go_on.set()
    await closing
    assert done.is_set()
    await running
    with pytest.raises(RuntimeError):
        await thread.run(lambda _: None)

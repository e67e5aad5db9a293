"""Events of a piece of work as a stream: all of them, in order, and its error after them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scenewright.evals.runner.engines.cluster import stream_events


async def test_all_that_is_told_comes_in_order_and_the_result_last() -> None:
    go = asyncio.Event()

    async def work(tell: Callable[[str], None]) -> str:
        tell("a")
        tell("b")
        await go.wait()
        tell("c")
        return "done"

    found = []
    async for events in stream_events(work):
        found.append(events)
        go.set()
    assert found == [["a", "b"], ["c"], ["done"]]


async def test_an_error_comes_after_what_was_told_before_it() -> None:
    async def work(tell: Callable[[str], None]) -> str:
        tell("a")
        raise KeyError("b")

    stream = stream_events(work)
    assert await anext(stream) == ["a"]
    with pytest.raises(KeyError):
        await anext(stream)


async def test_who_leaves_early_ends_the_work() -> None:
    ended = asyncio.Event()

    async def work(tell: Callable[[str], None]) -> str:
        tell("a")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    stream = stream_events(work)
    assert await anext(stream) == ["a"]
    await stream.aclose()
    assert ended.is_set()

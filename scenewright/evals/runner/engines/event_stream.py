"""What a worker's piece of work tells while it goes on, as a stream that the driver reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

E = TypeVar("E")


async def stream_events(
    work: Callable[[Callable[[E], None]], Awaitable[E]],
) -> AsyncGenerator[list[E]]:
    """The events that ``work`` tells by what it is given, as they come, several at once where they
    came together; the last one is what it returns.

    Raises what ``work`` raises, after what it told before. Left early, it cancels ``work``.
    """
    events: asyncio.Queue[tuple[E] | None] = asyncio.Queue()
    doing = asyncio.ensure_future(work(lambda event: events.put_nowait((event,))))
    doing.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while True:
            some = [await events.get()]
            while not events.empty():
                some.append(events.get_nowait())
            if told := [event[0] for event in some if event is not None]:
                yield told
            if some[-1] is None:
                yield [await doing]
                return
    finally:
        doing.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await doing

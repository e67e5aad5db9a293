"""Processes that share limits and answers, and a database of their own for the time."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from PIL import Image

from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import load_settings
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.providers import ask, open_answers
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import judge_of

MODEL = "instant"
SCENE = "red dog left of blue ball; cat on table"


@dataclass(frozen=True, slots=True)
class Work:
    """What one process is to do."""

    lab: str
    """URL of the lab."""
    key: str
    """Account and API key."""
    first: int
    """Number of its first image."""
    images: int
    """Images that it asks of."""
    per_minute: int
    """Requests a minute of the account."""
    window: float
    """Seconds over which the provider counts them."""
    concurrent: int
    """Calls of the account under way at once."""
    limits: str | None
    """Database of the limits; none: each process keeps its own."""
    answers: str | None = None
    """Database of the answers; none: each process its own."""


@dataclass(frozen=True, slots=True)
class Did:
    """What one process did."""

    answered: int
    """Images with answers."""
    paid: int
    """Images whose answers it paid for."""
    seconds: float
    """From the first call to the last answer."""


@contextmanager
def database(server: str) -> Iterator[str]:
    """The URL of an empty database on ``server`` (a URL without a database's name)."""
    import psycopg

    name = f"bench_{secrets.token_hex(6)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield f"{server}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def picture(number: int) -> Image.Image:
    """A small picture that no other number has."""
    image = Image.new("RGB", (64, 64), (number % 251, number // 251 % 251, 90))
    image.paste((20, 60, 220), (8, 8, 30 + number % 20, 40))
    return image


async def _asked(work: Work, pipe: Any, start: Any) -> Did:
    os.environ["BENCH_SHARED_KEY"] = work.key
    spec = AccountSpec(
        provider="openai",
        base_url=f"{work.lab}/v1",
        key_variable="BENCH_SHARED_KEY",
        requests_per_minute=work.per_minute,
        window=work.window,
        concurrent=work.concurrent,
        timeout=10.0,
    )
    settings = load_settings(accounts={work.key: spec}, shared_limits=work.limits)
    judge = judge_of(f"{work.key}:{MODEL}", settings=settings)
    facts = facts_of(load_scene(SCENE))
    with closing(open_answers(work.answers, None)) as store:

        async def one(number: int) -> tuple[bool, bool]:
            origin = f"{os.getpid()}"
            asked = await ask(
                judge, f"{number:064x}", picture(number), facts, store=store, origin=origin
            )
            return all(a.state in ("yes", "no") for a in asked.answers), not asked.cached

        # The first call imports the provider's library and opens the connection: it arrives late.
        await judge.answer(picture(2 * 10**6 + os.getpid()), facts)
        pipe.send("ready")
        await asyncio.to_thread(start.wait)
        begun = time.perf_counter()
        numbers = range(work.first, work.first + work.images)
        found = await asyncio.gather(*(one(number) for number in numbers))
        seconds = time.perf_counter() - begun
    await SHARED.aclose()
    return Did(sum(good for good, _ in found), sum(paid for _, paid in found), seconds)


def _process(work: Work, pipe: Any, start: Any) -> None:
    pipe.send(asyncio.run(_asked(work, pipe, start)))


def together(works: Sequence[Work]) -> list[Did]:
    """What processes that begin together do, one for each of ``works``."""
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    running = []
    for work in works:
        ours, theirs = context.Pipe()
        process = context.Process(target=_process, args=(work, theirs, start), daemon=True)
        process.start()
        theirs.close()
        running.append((process, ours))
    for _, pipe in running:
        pipe.recv()
    start.set()
    did: list[Did] = [pipe.recv() for _, pipe in running]
    for process, _ in running:
        process.join(30)
    return did


def _hold(url: str, pipe: Any) -> None:
    from scenewright.providers.limits import Limits
    from scenewright.providers.retry import Backoff
    from scenewright.providers.shared_limits import SharedLimits

    async def main() -> None:
        limits = SharedLimits(url, "held", Limits(concurrent=1), Backoff())
        await limits.enter(0, ahead=False, max_wait=1)
        pipe.send("holds")
        await asyncio.sleep(600)

    asyncio.run(main())


def slot_of_the_dead(url: str) -> float:
    """Seconds from the kill of a process until another gets the one place that it held."""
    from scenewright.providers.limits import Limits
    from scenewright.providers.retry import Backoff
    from scenewright.providers.shared_limits import SharedLimits

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(url, theirs), daemon=True)
    process.start()
    ours.recv()

    async def main() -> float:
        limits = SharedLimits(url, "held", Limits(concurrent=1), Backoff())
        waiting = asyncio.create_task(limits.enter(0, ahead=False, max_wait=1))
        await asyncio.sleep(6.0)
        if waiting.done():
            raise RuntimeError("the place of a process that lives was given away")
        process.kill()
        begun = time.perf_counter()
        limits.leave(await waiting)
        seconds = time.perf_counter() - begun
        await asyncio.to_thread(limits.close)
        return seconds

    return asyncio.run(main())

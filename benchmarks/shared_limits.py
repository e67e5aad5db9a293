"""Processes that share an account's limits and the answers of judges through PostgreSQL.

``python -m benchmarks.shared_limits [--quick] [--server postgresql://USER@HOST:PORT]``. A mock in
another process stands for the provider: answers take 200 ms, requests over the limit get a 429. Two
processes, each of which has made one call before, begin together:

- ``shared``: each asks of its half of the images, with the setting ``shared_limits``;
- ``separate``: the same without it, each as if the account were its own;
- ``answers``: both ask of the same images, with the setting ``answers`` as well.

``reached_over_allowed``: the limit lets request n go when request n − limit is a minute old; the
minute divided by the mean age that it had. ``over_limit``: requests that the provider refused.
``lost``: images without answers. ``paid_twice``: images of ``answers`` that were paid for more than
once, ``requests_over_images`` what the mock saw of them. ``slot_after_kill``: seconds until the one
place of a killed process is another's. With ``--quick`` the provider counts over 4 s instead of a
minute, so that one late request weighs 15 times as much.
"""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from benchmarks._harness import SERVER, benchmark
from benchmarks._mock import MockServer, account, database, picture, spawned
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import load_settings
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.mock_providers.settings import MockSettings
from scenewright.providers import ask, open_answers
from scenewright.providers.limits import Limits
from scenewright.providers.retry import Backoff
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import build_judge

LATENCY = 0.2
PROCESSES = 2
SCENE = "red dog left of blue ball; cat on table"


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a measurement."""

    images: int
    """Images of all processes together."""
    same: int
    """Images that all processes ask of."""
    per_minute: int
    """Requests a minute that the account allows."""
    window: float
    """Seconds over which the provider counts them."""


FULL = Plan(images=600, same=200, per_minute=240, window=60.0)
QUICK = Plan(images=100, same=20, per_minute=300, window=4.0)


@dataclass(frozen=True, slots=True)
class Work:
    """What one process does."""

    key: str
    """Account and API key."""
    settings: dict[str, Any]
    """Of the account."""
    images: int
    """Images that it asks of."""
    limits: str | None
    """Database of the limits; None: each process keeps its own."""
    answers: str | None = None
    """Database of the answers; None: each process keeps its own."""
    first: int = 0
    """Number of its first image."""


@dataclass(frozen=True, slots=True)
class Did:
    """What one process did."""

    answered: int
    """Images with answers."""
    paid: int
    """Images whose answers it paid for."""
    seconds: float
    """From the first call to the last answer."""


async def _asked(work: Work, pipe: Any, start: Any) -> Did:
    os.environ["BENCH_SHARED_KEY"] = work.key
    accounts = {work.key: AccountSpec(**work.settings)}
    settings = load_settings(accounts=accounts, shared_limits=work.limits)
    judge = build_judge(f"{work.key}:instant", settings=settings)
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
        found = await asyncio.gather(*map(one, range(work.first, work.first + work.images)))
        seconds = time.perf_counter() - begun
    await SHARED.aclose()
    return Did(sum(good for good, _ in found), sum(paid for _, paid in found), seconds)


def _process(pipe: Any, work: Work, start: Any) -> None:
    pipe.send(asyncio.run(_asked(work, pipe, start)))


def together(work: Work, firsts: list[int]) -> list[Did]:
    """Return what processes that begin together do, each from another first image on."""
    start = get_context("spawn").Event()
    running = [spawned(_process, replace(work, first=first), start) for first in firsts]
    for _, pipe in running:
        pipe.recv()
    start.set()
    did: list[Did] = [pipe.recv() for _, pipe in running]
    for process, _ in running:
        process.join(30)
    return did


def _limits(url: str) -> Any:
    from scenewright.providers.shared_limits import SharedLimits

    return SharedLimits(url, "held", Limits(concurrent=1), Backoff())


def _hold(pipe: Any, url: str) -> None:
    async def main() -> None:
        await _limits(url).enter(0, ahead=False, max_wait=1)
        pipe.send("holds")
        await asyncio.sleep(600)

    asyncio.run(main())


def slot_of_the_dead(url: str) -> float:
    """Return the seconds from the kill of a process until another gets the one place it held."""
    process, ours = spawned(_hold, url)
    ours.recv()

    async def main() -> float:
        limits = _limits(url)
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


def measure(plan: Plan, server: str) -> dict[str, Any]:
    """Return all figures."""
    figures: dict[str, Any] = {}
    limits: dict[str, Any] = {"requests_per_minute": plan.per_minute, "window": plan.window}
    share = plan.images // PROCESSES
    with database(server) as url, MockServer(MockSettings(latency=LATENCY, **limits)) as lab:
        spec = account(lab.url, "BENCH_SHARED_KEY", concurrent=64, timeout=10.0, **limits)

        def done(work: Work, firsts: list[int]) -> tuple[list[Did], dict[str, Any]]:
            did, seen = together(work, firsts), lab.account(work.key)
            print(f"{work.key}: {did}, {seen}", flush=True)
            figures[f"{work.key}.lost"] = PROCESSES * work.images - sum(one.answered for one in did)
            figures[f"{work.key}.seconds"] = max(one.seconds for one in did)
            return did, seen

        for way, shared in (("shared", url), ("separate", None)):
            firsts = [share * n for n in range(PROCESSES)]
            _, seen = done(Work(way, spec, share, shared), firsts)
            if seen["limit_used"] is None:
                raise RuntimeError(f"{way} sent no more requests than the limit: none was held up")
            figures |= {
                f"{way}.reached_over_allowed": seen["limit_used"],
                f"{way}.over_limit": seen["over_limit"],
                f"{way}.most_at_once": seen["most_at_once"],
            }
        did, seen = done(Work("answers", spec, plan.same, url, url), [10**6] * PROCESSES)
        figures |= {
            "answers.paid_twice": sum(one.paid for one in did) - plan.same,
            "answers.requests_over_images": (seen["executed"] - PROCESSES) / plan.same,
        }
        figures["slot_after_kill"] = slot_of_the_dead(url)
    return figures


@benchmark("few images", measures=("scenewright.providers.shared_limits",), server=SERVER)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all ways."""
    plan = QUICK if options.quick else FULL
    return plan.images, measure(plan, options.server)


if __name__ == "__main__":
    main()

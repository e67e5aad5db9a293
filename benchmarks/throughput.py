"""How fast a judge behind an API answers when its account allows so many requests a minute.

``python -m benchmarks.throughput [--quick]``. A mock in another process stands for the provider:
answers take 200 ms, requests over the limit get a 429. Every image has a dozen facts, asked in one
call. Four ways take the same images:

- ours, as ``scenewright`` asks: all images at once, into a store on disk;
- the same while 5% of the requests meet a fault (500, 503, 529, no answer within 5 s, dropped
  connection, truncated or invalid JSON, empty content);
- ``sequential``: the plain SDK, one image after the other (a part of the images);
- ``gather``: the plain SDK with its own retries, all images in one ``asyncio.gather``; what it
  loses is gathered again until nothing is missing, as one would by hand.

``reached_over_allowed``: the limit lets request n go when request n − limit is a minute old; the
minute divided by the mean age that it had. ``lost``: images without answers, of ``gather`` after
the first go. ``over_limit``: requests that the provider refused for the limit. ``speedup_*``:
answered images a second, against the same of the other way. ``waiting.*``: what 1,000 calls that
stand in line take of one processor and of memory. With ``--quick`` the provider counts over 4 s
instead of a minute, so that one late request weighs 15 times as much.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import psutil

from benchmarks._harness import benchmark, prefixed, work_folder
from benchmarks._mock import MockServer, account, picture, plain_answers
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.images import png_bytes
from scenewright.core.questions import facts_of
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.settings import MockSettings
from scenewright.providers import AnswerStore, ask
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import build_judge, get_caller

MODEL = "instant"
LATENCY = 0.2
FAULTS = (
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
    Fault.OVERLOADED,
    Fault.TIMEOUT,
    Fault.DROP,
    Fault.TRUNCATED_JSON,
    Fault.INVALID_JSON,
    Fault.EMPTY,
)
FAULT_SHARE = 0.05
SCENE = "red dog left of blue ball; cat on table; green tree right of table; person near house"


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a measurement."""

    images: int
    """Images of each way but the sequential one."""
    per_minute: int
    """Requests a minute that the account allows."""
    window: float
    """Seconds over which the provider counts them."""
    sequential: int
    """Images of the sequential way."""
    watched: float
    """Seconds for which waiting calls are watched."""

    def limits(self, **more: Any) -> MockSettings:
        """Return the settings of the provider."""
        limits = {"requests_per_minute": self.per_minute, "window": self.window}
        return MockSettings(latency=LATENCY, **{**limits, **more})


FULL = Plan(images=5000, per_minute=3000, window=60.0, sequential=100, watched=20.0)
QUICK = Plan(images=150, per_minute=1500, window=4.0, sequential=10, watched=3.0)
WAITING = 1000
"""Calls that wait in line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way did."""

    answered: int
    lost: int
    """Images without answers."""
    seconds: float
    """From the first call to the last answer."""
    goes: int = 1
    """How often images were gathered until none was missing."""

    @property
    def rate(self) -> float:
        """Answered images a second."""
        return self.answered / self.seconds


async def timed(images: Awaitable[Sequence[bool]]) -> Outcome:
    """Return the outcome of asking about images: whether each was answered."""
    begun = time.perf_counter()
    good = await images
    return Outcome(sum(good), len(good) - sum(good), time.perf_counter() - begun)


def settings_of(url: str, plan: Plan, key: str, **more: Any) -> Settings:
    """Return settings with one account at the mock providers; its API key is ``key``."""
    variable = f"BENCH_{key.upper().replace('-', '_')}_KEY"
    os.environ[variable] = key
    limits = {"requests_per_minute": plan.per_minute, "window": plan.window}
    spec = account(url, variable, **{"concurrent": 64, "timeout": 5.0, **limits, **more})
    return load_settings(accounts={key: AccountSpec(**spec)})


async def ours(url: str, plan: Plan, key: str, facts: Sequence[Fact], folder: Path) -> Outcome:
    """Ask about all images through ``ask``."""
    asked_of = build_judge(f"{key}:{MODEL}", settings=settings_of(url, plan, key))
    with closing(AnswerStore(folder / f"{key}.sqlite")) as store:

        async def one(number: int) -> bool:
            asked = await ask(asked_of, f"{number:064x}", picture(number), facts, store=store)
            return all(answer.state in ("yes", "no") for answer in asked.answers)

        found = await timed(asyncio.gather(*map(one, range(plan.images))))
    await SHARED.aclose()
    return found


def plain(
    client: openai.AsyncOpenAI, facts: Sequence[Fact]
) -> Callable[[int], Coroutine[Any, Any, bool]]:
    """Return what a plain script does for one image: the same questions by the SDK alone."""

    async def one(number: int) -> bool:
        data = base64.b64encode(png_bytes(picture(number))).decode()
        try:
            return len(await plain_answers(client, MODEL, data, facts)) == len(facts)
        except (openai.OpenAIError, ValueError, KeyError, IndexError):
            return False

    return one


async def sequential(url: str, plan: Plan, facts: Sequence[Fact]) -> Outcome:
    """Ask by the plain SDK, one image after the other."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sequential") as client:
        one = plain(client, facts)

        async def all_of() -> list[bool]:
            return [await one(number) for number in range(plan.sequential)]

        return await timed(all_of())


async def gathered(url: str, plan: Plan, facts: Sequence[Fact]) -> Outcome:
    """Ask by the plain SDK, all at once; ``lost`` after the first go, ``seconds`` of all."""
    async with openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key="gather", timeout=openai.Timeout(None, read=5.0)
    ) as client:
        one = plain(client, facts)
        missing, lost, goes = list(range(plan.images)), 0, 0
        begun = time.perf_counter()
        while missing:
            good = await asyncio.gather(*map(one, missing))
            missing = [number for number, well in zip(missing, good, strict=True) if not well]
            goes += 1
            lost = lost or len(missing)
            if goes == 20:
                raise RuntimeError(f"{len(missing)} images are missing after {goes} goes")
        return Outcome(plan.images, lost, time.perf_counter() - begun, goes)


def resident() -> int:
    """Return the bytes of this process in memory."""
    gc.collect()
    found: int = psutil.Process().memory_info().rss
    return found


async def waiting(url: str, plan: Plan, facts: Sequence[Fact]) -> dict[str, float]:
    """Measure the processor time and memory of calls in line."""
    settings = settings_of(url, plan, "waiting", requests_per_minute=1, window=60.0)
    judge = build_judge(f"waiting:{MODEL}", settings=settings)
    caller = get_caller("waiting", settings)
    pictures = [picture(number) for number in range(WAITING)]
    await judge.answer(picture(WAITING), facts)
    before = resident()
    tasks = [asyncio.ensure_future(judge.answer(image, facts)) for image in pictures]
    await asyncio.sleep(3.0)
    if caller.open_calls < WAITING:
        raise RuntimeError(f"only {caller.open_calls} of {WAITING} calls wait in line")
    after = resident()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(plan.watched)
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await SHARED.aclose()
    return {
        "waiting.cpu_share": share,
        "waiting.kib_per_call": (after - before) / 1024 / WAITING,
    }


def limit_figures(lab: MockServer, key: str, found: Outcome) -> dict[str, Any]:
    """Return how far the limit of an account was used, what was lost and how fast it was."""
    seen = lab.account(key)
    print(f"{key}: {found}, {seen['arrivals']} requests, {seen.get('faults')}", flush=True)
    if seen["limit_used"] is None:
        raise RuntimeError(f"{key} sent no more requests than the limit: nothing was limited")
    return {
        "reached_over_allowed": float(seen["limit_used"]),
        "lost": found.lost,
        "over_limit": seen["over_limit"],
        "images_per_second": found.rate,
    }


def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """Return all figures."""
    facts = facts_of(load_scene(SCENE))
    with MockServer(plan.limits()) as lab:
        # First, while this process has not grown yet.
        figures: dict[str, Any] = asyncio.run(waiting(lab.url, plan, facts))
        mine = asyncio.run(ours(lab.url, plan, "ours", facts, folder))
        figures |= limit_figures(lab, "ours", mine)
        row = asyncio.run(sequential(lab.url, plan, facts))
        print(f"sequential: {row}", flush=True)
        crowd = asyncio.run(gathered(lab.url, plan, facts))
        print(f"gather: {crowd}", flush=True)
        figures |= {
            "speedup_vs_sequential": mine.rate / row.rate,
            "speedup_vs_gather": mine.rate / crowd.rate,
            "gather.lost": crowd.lost,
            "gather.over_limit": lab.account("gather")["over_limit"],
        }
    with MockServer(plan.limits(faults=dict.fromkeys(FAULTS, FAULT_SHARE / len(FAULTS)))) as lab:
        hit = asyncio.run(ours(lab.url, plan, "faults", facts, folder))
        figures |= prefixed("faults.", limit_figures(lab, "faults", hit))
        figures["faults.met"] = sum(lab.account("faults")["faults"].values())
        crowd = asyncio.run(gathered(lab.url, plan, facts))
        print(f"gather with faults: {crowd}", flush=True)
    return figures | {
        "faults.speedup_vs_gather": hit.rate / crowd.rate,
        "faults.gather.lost": crowd.lost,
    }


@benchmark(
    "few images",
    measures=("scenewright.providers.caller", "scenewright.providers.limits"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all ways."""
    plan = QUICK if options.quick else FULL
    with work_folder(options) as folder:
        return plan.images, measure(plan, folder)


if __name__ == "__main__":
    main()

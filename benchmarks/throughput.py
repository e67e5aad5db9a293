"""How fast a judge behind an API answers when its account allows so many requests a minute.

``python -m benchmarks.throughput [--quick]``. A lab in another process stands for the provider:
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

import argparse
import asyncio
import base64
import gc
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
from PIL import Image

from benchmarks._lab_process import LabProcess, lab_process
from benchmarks._report import report
from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import load_settings
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.images import png_bytes
from scenewright.core.questions import facts_of
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.settings import LabSettings
from scenewright.providers import AnswerStore, ask
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import caller_of, judge_of

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
    waiting: int
    """Calls that stand in line."""
    watched: float
    """Seconds for which they are watched."""


FULL = Plan(images=5000, per_minute=3000, window=60.0, sequential=100, waiting=1000, watched=20.0)
QUICK = Plan(images=150, per_minute=1500, window=4.0, sequential=10, waiting=1000, watched=3.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way did."""

    answered: int
    """Images with answers."""
    lost: int
    """Images without."""
    seconds: float
    """From the first call to the last answer."""
    goes: int = 1
    """How often images were gathered until none was missing."""

    @property
    def rate(self) -> float:
        """Answered images a second."""
        return self.answered / self.seconds


def picture(number: int) -> Image.Image:
    """A small picture that no other number has."""
    image = Image.new("RGB", (64, 64), (number % 251, number // 251 % 251, 90))
    image.paste((20, 60, 220), (8, 8, 30 + number % 20, 40))
    return image


def settings_of(url: str, plan: Plan, key: str, **more: Any) -> Any:
    """Settings with one account at the lab; the API key is named for the way."""
    variable = f"BENCH_{key.upper().replace('-', '_')}_KEY"
    os.environ[variable] = key
    spec = {
        "provider": "openai",
        "base_url": f"{url}/v1",
        "key_variable": variable,
        "requests_per_minute": plan.per_minute,
        "window": plan.window,
        "concurrent": 64,
        "timeout": 5.0,
    }
    return load_settings(accounts={key: AccountSpec(**spec | more)})


async def ours(
    url: str,
    plan: Plan,
    key: str,
    facts: Sequence[Fact],
    folder: Path,
    judge: str = "",
    **more: Any,
) -> Outcome:
    """All images through ``ask``; ``judge``: another one of the account ``key``, ``more``: of that
    account."""
    asked_of = judge_of(judge or f"{key}:{MODEL}", settings=settings_of(url, plan, key, **more))
    with closing(AnswerStore(folder / f"{key}.sqlite")) as store:

        async def one(number: int) -> bool:
            asked = await ask(asked_of, f"{number:064x}", picture(number), facts, store=store)
            return all(answer.state in ("yes", "no") for answer in asked.answers)

        begun = time.perf_counter()
        good = await asyncio.gather(*(one(number) for number in range(plan.images)))
        seconds = time.perf_counter() - begun
    await SHARED.aclose()
    return Outcome(sum(good), len(good) - sum(good), seconds)


def plain(client: openai.AsyncOpenAI, facts: Sequence[Fact]) -> Callable[[int], Awaitable[bool]]:
    """What a plain script does for one image: the same questions by the SDK alone."""
    sheet = sheet_of(facts)
    tool = {"type": "function", "function": {"name": TOOL, "parameters": sheet.schema}}

    async def one(number: int) -> bool:
        data = base64.b64encode(png_bytes(picture(number))).decode()
        try:
            reply = await client.chat.completions.create(
                model=MODEL,
                messages=[
                    {"role": "system", "content": sheet.instructions},
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image_url",
                                "image_url": {"url": f"data:image/png;base64,{data}"},
                            },
                            {"type": "text", "text": sheet.text},
                        ],
                    },
                ],
                tools=[tool],
                tool_choice={"type": "function", "function": {"name": TOOL}},
            )
            calls = reply.choices[0].message.tool_calls or []
            found = json.loads(calls[0].function.arguments)["answers"]
        except (openai.OpenAIError, ValueError, KeyError, IndexError):
            return False
        return len(found) == len(facts)

    return one


async def sequential(url: str, plan: Plan, facts: Sequence[Fact]) -> Outcome:
    """The plain SDK, one image after the other."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sequential") as client:
        one = plain(client, facts)
        begun = time.perf_counter()
        good = [await one(number) for number in range(plan.sequential)]
        return Outcome(sum(good), len(good) - sum(good), time.perf_counter() - begun)


async def gathered(url: str, plan: Plan, facts: Sequence[Fact]) -> Outcome:
    """The plain SDK, all images at once; ``lost`` after the first go, ``seconds`` of all."""
    async with openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key="gather", timeout=openai.Timeout(None, read=5.0)
    ) as client:
        one = plain(client, facts)
        missing, lost, goes = list(range(plan.images)), 0, 0
        begun = time.perf_counter()
        while missing:
            good = await asyncio.gather(*(one(number) for number in missing))
            missing = [number for number, well in zip(missing, good, strict=True) if not well]
            goes += 1
            lost = lost or len(missing)
            if goes == 20:
                raise RuntimeError(f"{len(missing)} images are missing after {goes} goes")
        return Outcome(plan.images, lost, time.perf_counter() - begun, goes)


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def waiting(url: str, plan: Plan, facts: Sequence[Fact]) -> dict[str, float]:
    """What calls in line take of processor and memory."""
    settings = settings_of(url, plan, "waiting", requests_per_minute=1, window=60.0)
    judge = judge_of(f"waiting:{MODEL}", settings=settings)
    caller = caller_of("waiting", settings)
    pictures = [picture(number) for number in range(plan.waiting)]
    await judge.answer(picture(plan.waiting), facts)
    before = resident()
    tasks = [asyncio.ensure_future(judge.answer(image, facts)) for image in pictures]
    await asyncio.sleep(3.0)
    if caller.open_calls < plan.waiting:
        raise RuntimeError(f"only {caller.open_calls} of {plan.waiting} calls stand in line")
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
        "waiting.kib_per_call": (after - before) / 1024 / plan.waiting,
    }


def limit_used(lab: LabProcess, key: str) -> float:
    """Reached rate over allowed rate, as the lab saw it."""
    found = lab.account(key)["limit_used"]
    if found is None:
        raise RuntimeError(f"{key} sent no more requests than the limit: nothing was limited")
    return float(found)


def measure(plan: Plan) -> dict[str, Any]:
    """All figures."""
    facts = facts_of(load_scene(SCENE))
    limits = LabSettings(requests_per_minute=plan.per_minute, window=plan.window, latency=LATENCY)
    faulty = LabSettings(
        requests_per_minute=plan.per_minute,
        window=plan.window,
        latency=LATENCY,
        faults={fault: FAULT_SHARE / len(FAULTS) for fault in FAULTS},
    )
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-throughput-") as name:
        folder = Path(name)
        with lab_process(limits) as lab:
            # First, while this process has not grown yet.
            figures |= asyncio.run(waiting(lab.url, plan, facts))
            mine = asyncio.run(ours(lab.url, plan, "ours", facts, folder))
            seen = lab.account("ours")
            figures |= {
                "reached_over_allowed": limit_used(lab, "ours"),
                "lost": mine.lost,
                "over_limit": seen["over_limit"],
                "images_per_second": mine.rate,
            }
            print(f"ours: {mine}, {seen['arrivals']} requests", flush=True)
            row = asyncio.run(sequential(lab.url, plan, facts))
            print(f"sequential: {row}", flush=True)
            crowd = asyncio.run(gathered(lab.url, plan, facts))
            told = lab.account("gather")
            print(f"gather: {crowd}, {told['arrivals']} requests", flush=True)
            figures |= {
                "speedup_vs_sequential": mine.rate / row.rate,
                "speedup_vs_gather": mine.rate / crowd.rate,
                "gather.lost": crowd.lost,
                "gather.over_limit": told["over_limit"],
            }
        with lab_process(faulty) as lab:
            hit = asyncio.run(ours(lab.url, plan, "faults", facts, folder))
            seen = lab.account("faults")
            print(f"faults: {hit}, {seen['arrivals']} requests, {seen['faults']}", flush=True)
            figures |= {
                "faults.reached_over_allowed": limit_used(lab, "faults"),
                "faults.lost": hit.lost,
                "faults.over_limit": seen["over_limit"],
                "faults.met": sum(seen["faults"].values()),
                "faults.images_per_second": hit.rate,
            }
            crowd = asyncio.run(gathered(lab.url, plan, facts))
            print(f"gather with faults: {crowd}", flush=True)
            figures |= {
                "faults.speedup_vs_gather": hit.rate / crowd.rate,
                "faults.gather.lost": crowd.lost,
            }
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few images, writes nothing")
    given = parser.parse_args()
    plan = QUICK if given.quick else FULL
    report("throughput", plan.images, measure(plan), given.quick)


if __name__ == "__main__":
    main()

"""What judges served by Ray Serve answer in a second, against the same judge in process.

``python -m benchmarks.serving [--quick]``. One judge of the miniature world on the processor, one
thread of torch each, is asked five to ten facts of each of many painted pictures, 32 pictures at
a time: in this process, and over HTTP from deployments with one and with two replicas, each with
batches of up to eight pictures and without. All stand ready at once and take turns in an order
that moves on with every turn; the pictures of every turn are new.

``answers_per_second.NAME`` are answers; ``ratio.NAME`` is that of the same turn over the one in
process. ``largest_difference`` is that of any probability from the one in process, of the same
pictures. A machine of two cores has client, gateway, proxy and replicas share them: two replicas
cannot double there what one does.
"""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import torch
from PIL import Image

from benchmarks._harness import benchmark, interval
from benchmarks._scenes import held_out_scene
from scenewright.agents.judges.served import ServedJudge
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import QuestionForm
from scenewright.core.sockets import listening
from scenewright.miniature.painter import paint
from scenewright.providers.caller import Caller, Limits
from scenewright.providers.model_serving import ModelServer
from scenewright.runs.model_factory.profiles import judge_of

JUDGE = "local:miniature/judge-a"
AT_ONCE = 32
VARIANTS = {
    "replica_1": (1, 1),
    "replica_1_batched": (1, 8),
    "replicas_2": (2, 1),
    "replicas_2_batched": (2, 8),
}
"""Name → replicas, pictures of a batch."""
Asked = list[tuple[Image.Image, tuple[Fact, ...]]]
FORM = QuestionForm(predicates="miniature")


def pictures(count: int, first: int) -> Asked:
    """Return so many painted pictures with their facts, those of other turns left out."""
    scenes = [held_out_scene("medium", first + at) for at in range(count)]
    return [
        (paint(scene, seed=first + at).image, FORM.facts(scene)) for at, scene in enumerate(scenes)
    ]


async def turn(judge: Judge, asked: Asked) -> tuple[float, list[list[Answer]]]:
    """Return answers a second, and the answers."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(image: Image.Image, facts: tuple[Fact, ...]) -> list[Answer]:
        async with places:
            return await judge.answer(image, facts)

    began = time.perf_counter()
    found = await asyncio.gather(*(one(image, facts) for image, facts in asked))
    seconds = time.perf_counter() - began
    lost = [a.reason for answers in found for a in answers if a.state == "unscored"]
    if lost:
        raise RuntimeError(f"{len(lost)} answers are missing: {lost[0]}")
    return sum(len(answers) for answers in found) / seconds, found


@asynccontextmanager
async def served(names: Sequence[str]) -> AsyncIterator[dict[str, str]]:
    """Yield name of each variant → its address."""
    import ray
    from ray import serve
    from ray.serve.api import RunTarget

    from scenewright.service.model_serving.app import build

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with listening("127.0.0.1", 0, 1, RuntimeError) as free:
        port = int(free.getsockname()[1])

    def start() -> None:
        ray.init(
            "local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        targets = []
        for name in names:
            replicas, batch = VARIANTS[name]
            args = {"models": [JUDGE], "replicas": replicas, "batch": batch}
            targets.append(RunTarget(build(args), name=name, route_prefix=f"/{name}"))
        serve.run_many(targets)

    def end() -> None:
        serve.shutdown()
        ray.shutdown()

    try:
        await asyncio.to_thread(start)
        yield {name: f"http://127.0.0.1:{port}/{name}" for name in names}
    finally:
        await asyncio.to_thread(end)


def apart(one: list[list[Answer]], other: list[list[Answer]]) -> float:
    """Return the largest difference of a probability."""
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
    return max(abs((a.probability or 0.0) - (b.probability or 0.0)) for a, b in pairs)


async def measured(variants: Sequence[str], turns: int, count: int) -> dict[str, Any]:
    """Return all figures of so many turns with so many pictures each."""
    torch.set_num_threads(1)
    caller = Caller("serving", Limits(concurrent=AT_ONCE), timeout=300.0, priced=False)
    judges: dict[str, Judge] = {"in_process": judge_of(JUDGE)}
    async with served(variants) as urls:
        for name, url in urls.items():
            judges[name] = ServedJudge(ModelServer(JUDGE, url), caller, account="serving")
        for judge in judges.values():
            await turn(judge, pictures(4, 0))
        rates: dict[str, list[float]] = {name: [] for name in judges}
        difference = 0.0
        names = list(judges)
        for number in range(turns):
            asked = pictures(count, 1_000 + number * count)
            found: dict[str, list[list[Answer]]] = {}
            for name in names[number % len(names) :] + names[: number % len(names)]:
                rate, found[name] = await turn(judges[name], asked)
                rates[name].append(rate)
            for name in urls:
                difference = max(difference, apart(found["in_process"], found[name]))
        for judge in judges.values():
            await judge.aclose()
    await caller.aclose()
    figures: dict[str, Any] = {
        f"answers_per_second.{name}": interval(values) for name, values in rates.items()
    }
    for name in variants:
        pairs = zip(rates[name], rates["in_process"], strict=True)
        figures[f"ratio.{name}"] = interval([there / here for there, here in pairs])
    return figures | {"largest_difference": difference}


@benchmark("fewer pictures and variants")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all variants."""
    turns, count = (2, 16) if options.quick else (10, 128)
    # Each replica loads torch: the time of a quick run is theirs.
    variants = ("replica_1_batched",) if options.quick else tuple(VARIANTS)
    return turns * count, asyncio.run(measured(variants, turns, count))


if __name__ == "__main__":
    main()

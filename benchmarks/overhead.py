"""What the engine costs: a run against the same model calls in a bare loop.

``python -m benchmarks.overhead [--quick]``. ``overhead_ratio`` is the time of a run (``refine``
with a new run folder, models loaded and warm) divided by that of its own model calls, the
same images and questions, in a bare Python loop. Run and loop take turns in one process, and
each begins as often. ``overhead_cpu_ratio`` is the same in processor time, which other work on
the machine disturbs less and which knows no waiting for the disk. ``engine_*`` are runs with
models that take no time, on the disk of the temporary folder and, where there is one, in
memory: what differs is waiting for the disk, whose own speed ``*_flush_seconds`` tells.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks._instant import InstantBackend, InstantJudge
from benchmarks._loop_scenes import held_out_scene
from benchmarks._pool import Progress
from benchmarks._replay import calls_of, replay
from benchmarks._report import interval, report
from scenewright.config.settings import BUILT_IN
from scenewright.core.scene import SceneGraph
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import build_run_models, warm

SCENES = 20
PAIRS = 3
"""Pairs of run and loop a scene; their median counts."""
ENGINE_RUNS = 20
ENGINE_ROUNDS = 6
MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Times:
    """What something took."""

    wall: float
    """Seconds on the clock."""
    cpu: float
    """Seconds of processor time, all threads together."""


async def timed(call: Awaitable[Any]) -> Times:
    """What it takes until ``call`` is done."""
    wall, cpu = time.perf_counter(), time.process_time()
    await call
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def flush_seconds(folder: Path, times: int = 50) -> float:
    """Median time of a small write that is flushed to the disk of ``folder``."""
    found: list[float] = []
    with open(folder / "flushed", "wb", buffering=0) as file:
        for _ in range(times):
            begun = time.perf_counter()
            file.write(b"x" * 512)
            os.fsync(file.fileno())
            found.append(time.perf_counter() - begun)
    return statistics.median(found)


async def measure_ratio(scenes: Sequence[SceneGraph], pairs: int, folder: Path) -> dict[str, Any]:
    """Figures of runs with the miniature's models: each scene ``pairs`` times, both ways."""
    profile = BUILT_IN["miniature"]
    run_models = await build_run_models(profile)
    await warm(run_models)
    progress = Progress(len(scenes), sys.stderr)
    values: dict[str, list[float]] = {}
    peak = 0.0
    for at, scene in enumerate(scenes):

        async def run(name: str, scene: SceneGraph = scene, at: int = at) -> int:
            place = folder / f"{at}-{name}"
            return len((await refine(scene, profile, out=place, seed=at)).rounds)

        # The first run tells the calls, and leaves the models' caches as all others find them.
        rounds = await run("first")
        stages = calls_of(folder / f"{at}-first")
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        runs: list[Times] = []
        bare: list[Times] = []
        for pair in range(pairs):
            for turn in (0, 1):
                if (turn + pair + at) % 2:
                    runs.append(await timed(run(str(pair))))
                else:
                    bare.append(await timed(replay(stages, run_models)))
        both = list(zip(runs, bare, strict=True))
        for name, value in (
            ("overhead_ratio", statistics.median(a.wall / b.wall for a, b in both)),
            ("overhead_cpu_ratio", statistics.median(a.cpu / b.cpu for a, b in both)),
            (
                "overhead_seconds_per_round",
                statistics.median(a.wall - b.wall for a, b in both) / rounds,
            ),
            ("seconds_per_round", statistics.median(a.wall for a in runs) / rounds),
        ):
            values.setdefault(name, []).append(value)
        progress.step()
    return {name: interval(found) for name, found in values.items()} | {"peak_mib": peak}


async def measure_engine(scene: SceneGraph, count: int, folder: Path) -> dict[str, Any]:
    """Figures of runs with instant models: of a round, and of a run besides its rounds.

    Both come from runs of one round and of :data:`ENGINE_ROUNDS` rounds, in turn.
    """
    models: dict[str, Any] = {
        "backend": InstantBackend(),
        "judges": [InstantJudge("a"), InstantJudge("b")],
        "report_judges": [InstantJudge("c")],
    }
    profile = BUILT_IN["miniature"]

    async def run(name: str, rounds: int) -> None:
        result = await refine(
            scene, profile, out=folder / name, rounds=rounds, patience=rounds, **models
        )
        if len(result.rounds) != rounds:
            raise RuntimeError(f"the run took {len(result.rounds)} rounds instead of {rounds}")

    await run("first", 1)
    found: dict[str, list[float]] = {}
    for at in range(count):
        short = await timed(run(f"{at}-short", 1))
        long = await timed(run(f"{at}-long", ENGINE_ROUNDS))
        wall, cpu = (
            (getattr(long, clock) - getattr(short, clock)) / (ENGINE_ROUNDS - 1)
            for clock in ("wall", "cpu")
        )
        for name, value in (
            ("seconds_per_round", wall),
            ("cpu_seconds_per_round", cpu),
            ("seconds_per_run", short.wall - wall),
        ):
            found.setdefault(name, []).append(value)
    return {name: interval(values) for name, values in found.items()}


def measure(count: int, pairs: int, engine_runs: int) -> dict[str, Any]:
    """All figures."""
    torch.set_num_threads(1)
    scenes = [held_out_scene("hard", at) for at in range(count)]
    places = {"engine": None} | ({"engine_in_memory": MEMORY} if MEMORY.is_dir() else {})
    figures: dict[str, Any] = {}
    for name, place in places.items():
        with tempfile.TemporaryDirectory(prefix="bench-overhead-", dir=place) as folder:
            found = asyncio.run(measure_engine(scenes[0], engine_runs, Path(folder)))
            found["flush_seconds"] = flush_seconds(Path(folder))
            figures |= {f"{name}_{key}": value for key, value in found.items()}
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder:
        return asyncio.run(measure_ratio(scenes, pairs, Path(folder))) | figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one scene, writes nothing")
    parser.add_argument("--scenes", type=int, default=SCENES, help="default: %(default)s")
    given = parser.parse_args()
    if given.scenes < 1:
        parser.error("--scenes must be 1 or more")
    count, pairs, engine_runs = (1, 2, 3) if given.quick else (given.scenes, PAIRS, ENGINE_RUNS)
    report("overhead", count, measure(count, pairs, engine_runs), given.quick)


if __name__ == "__main__":
    main()

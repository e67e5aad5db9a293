"""What the engine costs: a run against the same model calls in a bare loop.

``python -m benchmarks.overhead [--quick]``. ``overhead_ratio`` is the time of a run (``refine``
with a new run folder, models loaded and warm) divided by that of its own model calls, the
same images and questions, in a bare Python loop. Run and loop take turns in one process, and
each begins as often. ``overhead_cpu_ratio`` is the same in processor time, which other work on
the machine disturbs less and which knows no waiting for the disk. ``engine_*`` are runs with
models that take no time, on the disk of the temporary folder and, where there is one, in
memory: what differs is waiting for the disk, whose own speed ``*_flush_seconds`` tells.

The model calls of a run are read from its event log. What a run does side by side (the judges of
one wave, the candidates of the report) is done side by side here too, so that the difference in
time is the engine's alone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from benchmarks._harness import Clock, Option, benchmark, intervals, progress
from benchmarks._models import instant_models
from benchmarks._scenes import held_out_scene
from scenewright.config.profiles import BUILT_IN
from scenewright.core.facts import Fact
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import soundness_facts_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Answered, Event, Generated, RunStarted
from scenewright.providers import fact_digest
from scenewright.runs.api import refine
from scenewright.runs.folder import EVENTS, IMAGES
from scenewright.runs.model_factory.profiles import RunModels, build_run_models, warm


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a judge."""

    judge: str
    """The judge's id."""
    image: str
    """Content hash."""
    facts: tuple[Fact, ...]
    """What it was asked, each question once."""


Chain = list[list[Question]]
"""Waves, one after the other; the questions of a wave go side by side."""


@dataclass(slots=True)
class Stage:
    """A drawing, or chains of questions that go side by side."""

    request: GenerationRequest | None = None
    """What is drawn."""
    image: str = ""
    """The content hash that it gave."""
    given: dict[str, Image.Image] = field(default_factory=dict)
    """Pictures of the request that no drawing gave: masks, and what the run put together."""
    chains: dict[str, Chain] = field(default_factory=dict)
    """Chains of questions by round and role."""


def calls_of(folder: Path) -> list[Stage]:
    """Return the model calls of the finished run in ``folder``, in their order.

    Calls that the run was spared, because it had the answer already, are left out. Raises
    ``ValueError`` if a drawing was not made by this run.
    """
    images = ImageStore(folder / IMAGES)
    stages = stages_of(read_events(folder / EVENTS))
    drawn = {stage.image for stage in stages}
    for stage in stages:
        if stage.request is not None:
            names = _named(stage.request) - drawn
            stage.given = {name: images.get(name) for name in sorted(names)}
    return stages


def _named(request: GenerationRequest) -> set[str]:
    """Return the pictures that drawing ``request`` may load."""
    names = {request.start.image, request.start.mask} if request.start else set()
    names |= {name for shown in request.references for name in (shown.image, shown.mask)}
    return {name for name in names if name is not None}


def stages_of(events: Sequence[Event]) -> list[Stage]:
    """Return :func:`calls_of` from a run's events."""
    facts: dict[str, Fact] = {}
    stages: list[Stage] = []
    waves: dict[str, list[Question]] = {}
    for event in events:
        if isinstance(event, RunStarted):
            asked_about = (*event.facts, *soundness_facts_of(event.scene))
            facts = {fact.id: fact for fact in asked_about}
        elif isinstance(event, Generated):
            if event.cached:
                raise ValueError(f"{event.key} was not drawn by this run: replay a fresh one")
            stages.append(Stage(request=event.request, image=event.image))
        elif isinstance(event, Answered) and not event.cached:
            if stages[-1].request is not None:
                stages.append(Stage())
            asked = {fact_digest(facts[a.fact_id]): facts[a.fact_id] for a in event.answers}
            chain = stages[-1].chains.setdefault(f"r{event.round}:{event.role}", [])
            wave = event.key.removesuffix(f":{event.judge_id}:answered")
            if wave not in waves:
                waves[wave] = []
                chain.append(waves[wave])
            waves[wave].append(Question(event.judge_id, event.image, tuple(asked.values())))
    return stages


async def replay(stages: Sequence[Stage], run_models: RunModels) -> None:
    """Make the calls of ``stages`` with the models of ``run_models``; nothing is kept."""
    judges = {judge.id: judge for judge in (*run_models.loop_judges, *run_models.report_judges)}
    images: dict[str, Image.Image] = {}
    for stage in stages:
        images |= stage.given
        if stage.request is not None:
            drawn = await run_models.backend.generate(stage.request, images.__getitem__)
            images[stage.image] = drawn.image
        await asyncio.gather(*(_ask(chain, judges, images) for chain in stage.chains.values()))


async def _ask(
    chain: Chain, judges: Mapping[str, Judge], images: Mapping[str, Image.Image]
) -> None:
    for wave in chain:
        await asyncio.gather(*(judges[q.judge].answer(images[q.image], q.facts) for q in wave))


SCENES = 20
PAIRS = 3
"""Pairs of run and loop a scene; their median counts."""
ENGINE_RUNS = 20
ENGINE_ROUNDS = 6
MEMORY = Path("/dev/shm")


async def timed(call: Awaitable[Any]) -> Clock:
    """Return what it takes until ``call`` is done."""
    clock = Clock()
    with clock:
        await call
    return clock


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
    """Return figures of runs with the miniature's models: each scene ``pairs`` times, both ways."""
    profile = BUILT_IN["miniature"]
    run_models = await build_run_models(profile)
    await warm(run_models)
    rows: list[dict[str, float]] = []
    peak = 0.0
    for at, scene in enumerate(progress(scenes)):

        async def run(name: str, scene: SceneGraph = scene, at: int = at) -> int:
            place = folder / f"{at}-{name}"
            return len((await refine(scene, profile, out=place, seed=at, page=False)).rounds)

        # The first run tells the calls, and leaves the models' caches as all others find them.
        rounds = await run("first")
        stages = calls_of(folder / f"{at}-first")
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        runs: list[Clock] = []
        bare: list[Clock] = []
        for pair in range(pairs):
            for turn in (0, 1):
                if (turn + pair + at) % 2:
                    runs.append(await timed(run(str(pair))))
                else:
                    bare.append(await timed(replay(stages, run_models)))
        both = list(zip(runs, bare, strict=True))
        extra = statistics.median(a.wall - b.wall for a, b in both)
        rows.append(
            {
                "overhead_ratio": statistics.median(a.wall / b.wall for a, b in both),
                "overhead_cpu_ratio": statistics.median(a.cpu / b.cpu for a, b in both),
                "overhead_seconds_per_round": extra / rounds,
                "seconds_per_round": statistics.median(a.wall for a in runs) / rounds,
            }
        )
    return intervals(rows) | {"peak_mib": peak}


async def measure_engine(scene: SceneGraph, count: int, folder: Path) -> dict[str, Any]:
    """Return figures of runs with instant models: of a round, and of a run besides its rounds.

    Both come from runs of one round and of :data:`ENGINE_ROUNDS` rounds, in turn.
    """
    models = instant_models()
    profile = BUILT_IN["miniature"]

    async def run(name: str, rounds: int) -> None:
        result = await refine(
            scene, profile, out=folder / name, rounds=rounds, patience=rounds, **models
        )
        if len(result.rounds) != rounds:
            raise RuntimeError(f"the run took {len(result.rounds)} rounds instead of {rounds}")

    await run("first", 1)
    found: list[dict[str, float]] = []
    for at in range(count):
        short = await timed(run(f"{at}-short", 1))
        long = await timed(run(f"{at}-long", ENGINE_ROUNDS))
        wall, cpu = (
            (getattr(long, clock) - getattr(short, clock)) / (ENGINE_ROUNDS - 1)
            for clock in ("wall", "cpu")
        )
        row = {"seconds_per_round": wall, "cpu_seconds_per_round": cpu}
        found.append({**row, "seconds_per_run": short.wall - wall})
    return intervals(found)


def measure(count: int, pairs: int, engine_runs: int) -> dict[str, Any]:
    """Return all figures."""
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


@benchmark("one scene", measures=("scenewright.graphs",), scenes=Option(SCENES, "scenes", least=1))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure runs and bare loops."""
    sizes = (1, 2, 3) if options.quick else (options.scenes, PAIRS, ENGINE_RUNS)
    return sizes[0], measure(*sizes)


if __name__ == "__main__":
    main()

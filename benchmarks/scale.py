"""How an evaluation grows with the workers of a Ray cluster, and what the cluster costs.

``python -m benchmarks.scale [--quick]``. Each sitting is a process of its own on a cluster that is
up; all points are measured in turn, three times. ``items_per_second`` is that of the steady state:
from the moment when all workers are ready, without their first items and their last.

- ``items_per_second.N``: N workers draw and judge with the package's own models. They are bound by
  the processor, one thread each: on a machine of two cores they cannot be faster than with two
  workers, and with four they share two cores.
- ``api_items_per_second.N``: judges behind an API (the lab, in a process of its own) that takes
  500 ms for an answer and allows 600 requests a minute, two items at work in a worker: one worker
  reaches 240 requests a minute, four could reach 960. ``rate_reached``: requests a minute that were
  let in with the most workers over the 600, over whole windows; ``over_limit``: those refused.
- ``local_items_per_second``: the local engine with the package's models, and ``ray_overhead`` its
  rate over that of one worker. ``ray_ms_per_item``: what Ray adds to an item whose models take no
  time. ``startup_seconds.…``: from the start of the evaluation until all workers are ready;
  ``startup_seconds.cluster`` comes before, once.
- ``mib_per_worker``: memory of a worker at work with the package's models (PSS: shared pages are
  divided among those who share them); ``mib_per_api_worker``: of one whose judges are elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks._chaos_cluster_lab import MortalLab
from benchmarks._chaos_cluster_ray import MortalCluster
from benchmarks._report import interval, report
from benchmarks._scale_process import KEY, TOLD, Work, account, written
from scenewright.mock_providers.settings import LabSettings

PER_MINUTE = 600
LATENCY = 0.5
_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    works: tuple[Work, ...]
    """The points."""
    turns: int
    """How often each is measured."""
    window: float
    """Seconds over which the API counts requests."""


@dataclass(frozen=True, slots=True)
class Sat:
    """What a sitting was like."""

    rate: float
    """Items a second."""
    startup: float
    """Seconds until all workers were ready."""
    mib: tuple[float, ...]
    """PSS of each worker at work."""
    reached: float | None
    """Requests that were let in over those allowed; None where no whole window was full."""
    over_limit: int
    """Requests that the API refused."""


FULL = Plan(
    (
        Work("miniature", 24, 2, 0),
        Work("miniature", 24, 2, 1),
        Work("miniature", 40, 2, 2),
        Work("miniature", 44, 2, 4),
        Work("api", 80, 2, 1),
        Work("api", 160, 2, 2),
        Work("api", 400, 2, 4),
        Work("instant", 400, 8, 0),
        Work("instant", 400, 8, 1),
    ),
    turns=3,
    window=10.0,
)
QUICK = Plan(
    (
        Work("miniature", 6, 1, 0),
        Work("miniature", 6, 1, 1),
        Work("api", 60, 4, 2),
    ),
    turns=1,
    window=2.0,
)


def sat(folder: Path, work: Work, cluster: MortalCluster, window: float) -> Sat:
    """One sitting. Raises ``RuntimeError`` if it fails."""
    folder.mkdir(parents=True)
    settings = LabSettings(latency=LATENCY, requests_per_minute=PER_MINUTE, window=window)
    lab = MortalLab(settings, folder / "lab.jsonl") if work.kind == "api" else None
    if lab is not None:
        lab.start()
        account(folder, lab.url, PER_MINUTE, window)
    try:
        written(folder, replace(work, address=cluster.address))
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._scale_process", str(folder.resolve())]
        )
        samples: dict[int, float] = {}
        while process.poll() is None:
            time.sleep(_SAMPLE_SECONDS)
            if work.workers and len(_told(folder)) == 1:
                samples |= {pid: mib for pid in cluster.workers() if (mib := _pss(pid))}
        if process.returncode:
            raise RuntimeError(f"a sitting of {work} ended with {process.returncode}")
        ready, ended = _told(folder)
        arrived = [] if lab is None else [request.arrived for request in lab.requests()]
        over = 0 if lab is None else lab.account(os.environ[KEY])["over_limit"]
    finally:
        if lab is not None:
            lab.stop()
    reached = reached_rate(arrived, ready["ready"] + window, window, PER_MINUTE)
    return Sat(ended["rate"], ended["startup"], tuple(samples.values()), reached, over)


def reached_rate(
    arrived: Sequence[float], start: float, window: float, per_minute: int
) -> float | None:
    """Requests over those that the limit allows in the whole windows from ``start`` until the last
    arrival; None without a whole one."""
    if not arrived:
        return None
    whole = int((max(arrived) - start) / window)
    if whole < 1:
        return None
    count = sum(start < at <= start + whole * window for at in arrived)
    return count / (whole * window / 60 * per_minute)


def _pss(pid: int) -> float:
    with suppress(psutil.Error):
        return float(psutil.Process(pid).memory_full_info().pss) / 2**20
    return 0.0


def _told(folder: Path) -> list[dict[str, float]]:
    file = folder / TOLD
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """All figures."""
    os.environ[KEY] = "scale"
    # One thread of arithmetic a worker: more would fight for the cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    begun = time.monotonic()
    most = max(work.workers for work in plan.works)
    cluster = MortalCluster(0, cpus=most)
    found: dict[Work, list[Sat]] = defaultdict(list)
    try:
        up = time.monotonic() - begun
        for turn in range(plan.turns):
            for number, work in enumerate(plan.works):
                one = sat(folder / f"{turn}-{number}", work, cluster, plan.window)
                found[work].append(one)
                print(f"{work.kind}, {work.workers} workers: {one}", flush=True)
    finally:
        cluster.stop()
    return {**figures_of(found), "startup_seconds.cluster": up}


def figures_of(found: dict[Work, list[Sat]]) -> dict[str, Any]:
    """The figures of all sittings."""
    figures: dict[str, Any] = {}
    local: dict[str, list[float]] = {}
    single: dict[str, list[float]] = {}
    names = {"miniature": "", "api": "api_", "instant": "instant_"}
    for work, sessions in found.items():
        rates = [one.rate for one in sessions]
        name = names[work.kind]
        if work.workers:
            figures[f"{name}items_per_second.{work.workers}"] = interval(rates)
        else:
            figures[f"{'local_' + name}items_per_second"] = interval(rates)
        if work.workers < 2:
            (single if work.workers else local)[work.kind] = rates
        if work.kind == "miniature":
            point = f"ray_{work.workers}" if work.workers else "local"
            figures[f"startup_seconds.{point}"] = interval([one.startup for one in sessions])
    ours, rays = local["miniature"], single["miniature"]
    figures["ray_overhead"] = interval([a / b for a, b in zip(ours, rays, strict=True)])
    if "instant" in single:
        pairs = zip(local["instant"], single["instant"], strict=True)
        figures["ray_ms_per_item"] = interval([1000 / b - 1000 / a for a, b in pairs])
    for kind, name in (("miniature", "mib_per_worker"), ("api", "mib_per_api_worker")):
        mib = [size for w, all_ in found.items() if w.kind == kind for s in all_ for size in s.mib]
        if mib:
            figures[name] = interval(mib)
    api = [work for work in found if work.kind == "api"]
    widest = max(api, key=lambda work: work.workers)
    reached = [one.reached for one in found[widest] if one.reached is not None]
    figures["rate_reached"] = interval(reached)
    figures["over_limit"] = sum(one.over_limit for work in api for one in found[work])
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few items, writes nothing")
    given = parser.parse_args()
    plan = QUICK if given.quick else FULL
    with tempfile.TemporaryDirectory(prefix="scenewright-scale-") as folder:
        figures = measure(plan, Path(folder))
    report("scale", sum(work.items for work in plan.works) * plan.turns, figures, given.quick)


if __name__ == "__main__":
    main()

"""How an evaluation grows with the workers of a Ray cluster, and what the cluster costs.

``python -m benchmarks.scale [--quick]``. Each sitting is a process of its own on a cluster that is
up; all points are measured in turn, three times. ``items_per_second`` is that of the steady state:
from the moment when all workers are ready, without their first items and their last.

- ``items_per_second.N``: N workers draw and judge with the package's own models. They are bound by
  the processor, one thread each: on a machine of two cores they cannot be faster than with two
  workers, and with four they share two cores.
- ``api_items_per_second.N``: judges behind an API (the mock, in a process of its own) that takes
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

import os
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks._evaluation import Work, child, said
from benchmarks._harness import benchmark, interval, work_folder
from benchmarks._mock import MockServer, MortalCluster, account, write_settings
from scenewright.mock_providers.settings import MockSettings

KEY = "BENCH_SCALE_KEY"
PER_MINUTE = 600
LATENCY = 0.5
MODELS = {
    "miniature": ("", ""),
    "api": ("drawing", "lab:instant"),
    "instant": ("instant", "local:instant"),
}
"""Kind of a point → models that are given (:mod:`benchmarks._evaluation`), and the judge."""


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation whose rate is measured."""

    kind: str
    items: int
    concurrency: int
    """Items at work in each worker."""
    workers: int
    """Workers of Ray's; 0: the local engine."""

    def work(self, address: str) -> Work:
        """Return it as the work of a process."""
        models, judge = MODELS[self.kind]
        config: dict[str, Any] = {
            "conditions": ["triplets"],
            "asking": "together",
            "concurrency": self.concurrency,
            "allow_loop_judges": True,
        }
        if judge:
            config["panels"] = {"own": {"judges": [judge]}}
        return Work(config, self.items, False, models, self.workers, address)


@dataclass(frozen=True, slots=True)
class Sat:
    """One measurement of a point."""

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


FULL = (
    *(Point("miniature", 24, 2, 0), Point("miniature", 24, 2, 1)),
    *(Point("miniature", 40, 2, 2), Point("miniature", 44, 2, 4)),
    *(Point("api", 80, 2, 1), Point("api", 160, 2, 2), Point("api", 400, 2, 4)),
    *(Point("instant", 400, 8, 0), Point("instant", 400, 8, 1)),
)
QUICK = (Point("miniature", 6, 1, 0), Point("miniature", 6, 1, 1), Point("api", 60, 4, 2))


def steady_rate(finished: Sequence[float], ready: float, at_work: int) -> float:
    """Return items a second while all are at work.

    From the first round of items that were finished after all workers were ``ready`` to the last
    round. Raises ``ValueError`` for too few items.
    """
    times = sorted(at for at in finished if at > ready)
    # What is begun together ends together; at the end ever fewer are at work.
    held = times[at_work - 1 : len(times) - at_work]
    if len(held) < 2:
        raise ValueError(
            f"{len(times)} items were finished after all workers were ready, {at_work} at a time: "
            "too few for a rate"
        )
    return (len(held) - 1) / (held[-1] - held[0])


def reached_rate(
    arrived: Sequence[float], start: float, window: float, per_minute: int
) -> float | None:
    """Return requests over those that the limit allows, in the whole windows from ``start``.

    None without a whole one.
    """
    whole = int((max(arrived, default=start) - start) / window)
    if whole < 1:
        return None
    count = sum(start < at <= start + whole * window for at in arrived)
    return count / (whole * window / 60 * per_minute)


def sat(folder: Path, point: Point, cluster: MortalCluster, window: float) -> Sat:
    """Measure a point once; raises ``RuntimeError`` if it fails."""
    folder.mkdir(parents=True)
    settings = MockSettings(latency=LATENCY, requests_per_minute=PER_MINUTE, window=window)
    lab = MockServer(settings, folder / "lab.jsonl")
    arrived, over = [], 0
    try:
        if point.kind == "api":
            lab.start()
            limits = {"requests_per_minute": PER_MINUTE, "window": window, "concurrent": 64}
            write_settings(folder, {"accounts": {"lab": account(lab.url, KEY, **limits)}})
        process = child(folder, point.work(cluster.address))
        process.start()
        samples: dict[int, float] = {}
        while process.poll() is None:
            time.sleep(1.0)
            if point.workers and len(said(folder)) == 1:
                samples |= {pid: mib for pid in cluster.workers() if (mib := _pss(pid))}
        if process.poll():
            raise RuntimeError(f"an evaluation of {point} failed: {process.said()}")
        if point.kind == "api":
            arrived = [request.arrived for request in lab.requests()]
            over = lab.account(os.environ[KEY])["over_limit"]
    finally:
        lab.stop()
    first, last = said(folder)
    ready, times = first["ready"], last["finished"]
    if len(times) != point.items:
        raise RuntimeError(f"{len(times)} of {point.items} pictures were judged")
    rate = steady_rate(times, ready, max(1, point.workers) * point.concurrency)
    reached = reached_rate(arrived, ready + window, window, PER_MINUTE)
    return Sat(rate, ready - last["begun"], tuple(samples.values()), reached, over)


def _pss(pid: int) -> float:
    with suppress(psutil.Error):
        return float(psutil.Process(pid).memory_full_info().pss) / 2**20
    return 0.0


def measure(points: Sequence[Point], turns: int, window: float, folder: Path) -> dict[str, Any]:
    """Measure all points in turn."""
    os.environ[KEY] = "scale"
    # One thread of arithmetic a worker: more would fight for the cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    begun = time.monotonic()
    cluster = MortalCluster(0, cpus=max(point.workers for point in points))
    found: dict[Point, list[Sat]] = defaultdict(list)
    try:
        up = time.monotonic() - begun
        for turn in range(turns):
            for number, point in enumerate(points):
                found[point].append(sat(folder / f"{turn}-{number}", point, cluster, window))
                print(f"{point.kind}, {point.workers} workers: {found[point][-1]}", flush=True)
    finally:
        cluster.stop()
    return {**figures_of(found), "startup_seconds.cluster": up}


def figures_of(found: dict[Point, list[Sat]]) -> dict[str, Any]:
    """Return the figures of all measurements."""
    figures: dict[str, Any] = {}
    rates = {(p.kind, p.workers): [one.rate for one in sats] for p, sats in found.items()}
    mib: dict[str, list[float]] = defaultdict(list)
    for (kind, workers), values in rates.items():
        name = "" if kind == "miniature" else f"{kind}_"
        key = f"{name}items_per_second.{workers}" if workers else f"local_{name}items_per_second"
        figures[key] = interval(values)
    for point, sats in found.items():
        mib[point.kind] += [size for one in sats for size in one.mib]
        if point.kind == "miniature":
            name = f"ray_{point.workers}" if point.workers else "local"
            figures[f"startup_seconds.{name}"] = interval([one.startup for one in sats])
    pairs = zip(rates["miniature", 0], rates["miniature", 1], strict=True)
    figures["ray_overhead"] = interval([a / b for a, b in pairs])
    if ("instant", 1) in rates:
        pairs = zip(rates["instant", 0], rates["instant", 1], strict=True)
        figures["ray_ms_per_item"] = interval([1000 / b - 1000 / a for a, b in pairs])
    for kind, name in (("miniature", "mib_per_worker"), ("api", "mib_per_api_worker")):
        if mib[kind]:
            figures[name] = interval(mib[kind])
    api = [point for point in found if point.kind == "api"]
    widest = max(api, key=lambda point: point.workers)
    figures["rate_reached"] = interval(
        [one.reached for one in found[widest] if one.reached is not None]
    )
    figures["over_limit"] = sum(one.over_limit for point in api for one in found[point])
    return figures


@benchmark("few items")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all points."""
    points, turns, window = (QUICK, 1, 2.0) if options.quick else (FULL, 3, 10.0)
    with work_folder(options) as folder:
        figures = measure(points, turns, window, folder)
    return sum(point.items for point in points) * turns, figures


if __name__ == "__main__":
    main()

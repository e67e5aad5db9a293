"""Everything killed at random on a cluster and in a service: is anything lost or paid twice?

``python -m benchmarks.chaos_cluster [--quick] [--server postgresql://USER@HOST:PORT]``. All models
are in a lab in another process, which writes down what it answers. Answers, limits, runs and jobs
are shared through PostgreSQL. The same work runs undisturbed too.

- ``items``: an evaluation of 5,000 items, each drawn and judged, on a Ray cluster of three nodes.
  Killed at random moments (SIGKILL): workers, nodes with all their processes (another one joins),
  all connections of the database, the lab, and the driver itself; what ended starts again. The
  undisturbed one is the local engine's.
- ``service``: 50 runs of up to three rounds, of one API process (``scenewright serve --no-work``)
  and two workers (``scenewright worker``). Killed: workers, the API process, connections, the lab.

``kills``: how often anything was killed, and ``connections`` of the database that were cut, all
together. ``lost``: items without the same rows in all tables (verdicts, pictures by their hash,
tokens), pictures that are not there whole, runs that ended otherwise. ``twice``: requests for what
was kept already when they were sent, whether or not they were paid for again, and what
``repeated_in_flight`` has beyond the steps at work at a kill. ``repeated_in_flight``: requests that
were under way at a kill and were paid for again, since a lab that is killed forgets the keys under
which it was asked; ``replayed``: those that it knew, and answered without being paid.
``begun_anew``: how often the evaluation ended by itself because too many of its workers had died,
and was started again as it says. ``requests``: what the undisturbed work paid for.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import _chaos_cluster_items as items
from benchmarks import _chaos_cluster_service as service
from benchmarks._chaos_cluster_books import Again
from benchmarks._report import report
from scenewright.runs.folder import differences

SERVER = "postgresql://postgres@127.0.0.1:5432"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of both parts."""

    items: items.Size
    """The evaluation."""
    service: service.Size
    """The runs."""


FULL = Plan(
    items.Size(
        5000, nodes=2, workers=3, concurrency=12, latency=1.0,
        kills={"worker": 12, "node": 5, "database": 10, "lab": 5, "driver": 3},
    ),
    service.Size(
        50, workers=2, running=4, latency=1.0, lease=30.0,
        kills={"worker": 8, "api": 4, "database": 6, "lab": 3},
    ),
)  # fmt: skip
QUICK = Plan(
    items.Size(
        40, nodes=0, workers=1, concurrency=8, latency=0.2,
        kills={"worker": 1, "database": 1, "lab": 1},
    ),
    service.Size(
        4, workers=2, running=2, latency=0.1, lease=5.0,
        kills={"worker": 1, "database": 1},
    ),
)  # fmt: skip


def figures_of(
    name: str,
    disturbed: Mapping[str, Any],
    calm: Mapping[str, Any],
    again: Again,
    kills: Mapping[str, int],
) -> dict[str, Any]:
    """The figures of one part; the ends of its items or runs by name."""
    lost = [key for key in calm.keys() | disturbed.keys() if disturbed.get(key) != calm.get(key)]
    for key in sorted(lost)[:_SHOWN]:
        found = differences(calm.get(key), disturbed.get(key))
        print(f"{key} ended otherwise (undisturbed → killed): {'; '.join(found)[:1000]}")
    return {
        **{f"{name}.kills.{what}": count for what, count in sorted(kills.items())},
        f"{name}.kills": sum(kills.values()),
        f"{name}.n": len(calm),
        f"{name}.lost": len(lost),
        f"{name}.twice": again.twice + again.over,
        f"{name}.repeated_in_flight": again.repeated_in_flight,
        f"{name}.replayed": again.replayed,
    }


def measure(plan: Plan, server: str, seed: int, folder: Path) -> dict[str, Any]:
    """All figures."""
    quiet = replace(plan.service, workers=1, kills={}, latency=0.0)

    # Undisturbed work goes on beside the other, on a lab, a database and a folder of its own.
    with ThreadPoolExecutor(1) as beside:
        calm_runs = beside.submit(
            lambda: asyncio.run(service.endured(folder / "service-calm", quiet, server, seed))
        )
        calm_items = beside.submit(
            items.undisturbed, folder / "items-calm", plan.items, server, seed
        )
        still = calm_runs.result()
        runs = asyncio.run(
            service.endured(folder / "service", plan.service, server, seed, still.executed)
        )
        print(f"service: {runs.kills}, {runs.again}, {runs.seconds:.0f} s", flush=True)
        one = items.endured(folder / "items", plan.items, server, seed)
        print(f"items: {one.kills}, {one.again}, {one.seconds:.0f} s", flush=True)
        alone = calm_items.result()
    assert one.again is not None
    assert runs.again is not None
    figures = figures_of("items", one.rows, alone.rows, one.again, one.kills) | {
        "items.connections": one.connections,
        "items.begun_anew": one.begun_anew,
        "items.requests": alone.executed,
        "items.seconds": one.seconds,
    }
    figures |= figures_of("service", runs.ends, still.ends, runs.again, runs.kills) | {
        "service.connections": runs.connections,
        "service.requests": still.executed,
        "service.seconds": runs.seconds,
    }
    for name in ("kills", "lost", "twice", "repeated_in_flight", "replayed"):
        figures[name] = figures[f"items.{name}"] + figures[f"service.{name}"]
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few items and runs, writes nothing")
    parser.add_argument("--server", default=SERVER, help=f"a PostgreSQL server (default: {SERVER})")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    plan = QUICK if given.quick else FULL
    with tempfile.TemporaryDirectory(prefix="scenewright-chaos-") as folder:
        figures = measure(plan, given.server, given.seed, Path(folder))
    report("chaos_cluster", plan.items.items + plan.service.runs, figures, given.quick)


if __name__ == "__main__":
    main()

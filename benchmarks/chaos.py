"""A server killed again and again while it drives runs: is anything lost, drawn or paid twice?

``python -m benchmarks.chaos``: 20 concurrent runs, 50 times ``kill -9`` at random moments, on
SQLite and on PostgreSQL. Every picture and every answer comes from a lab in another process, which
counts what it really did. The same requests then run undisturbed; each must have ended the same,
and the lab must have done as much and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks._chaos import Chaos, endured
from benchmarks._report import report
from benchmarks._service_process import PAINTER, PANEL, REPORTER
from scenewright.runs.folder import differences

SERVER = "postgresql://postgres@127.0.0.1:5432"


@contextlib.asynccontextmanager
async def database(kind: str) -> AsyncIterator[str | None]:
    """The URL of an empty database, dropped at the end; none for SQLite."""
    if kind == "sqlite":
        yield None
        return
    import psycopg

    name = f"scenewright_chaos_{secrets.token_hex(4)}"
    async with await psycopg.AsyncConnection.connect(
        f"{SERVER}/postgres", autocommit=True
    ) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def measured(kind: str, kills: int, at_once: int, seed: int) -> dict[str, float]:
    """The figures of one database."""
    with tempfile.TemporaryDirectory(prefix="scenewright-chaos-") as folder:
        async with database(kind) as url:
            killed = await endured(
                Path(folder) / "killed", kills=kills, at_once=at_once, database=url, seed=seed
            )
        numbers = sorted(int(key.rpartition("-")[2]) for key in killed.ends)
        async with database(kind) as url:
            calm = await endured(
                Path(folder) / "calm",
                kills=0,
                at_once=at_once,
                numbers=numbers,
                database=url,
                seed=seed,
            )
    return figures_of(killed, calm)


def figures_of(killed: Chaos, calm: Chaos) -> dict[str, float]:
    """What the kills did; both did the same requests."""
    lost = [key for key, end in killed.ends.items() if calm.ends.get(key) != end]
    for key in lost[:3]:
        found = differences(calm.ends.get(key), killed.ends[key])
        print(f"{key} ended otherwise (undisturbed → killed): {'; '.join(found)[:1000]}")
    more = {name: killed.executed[name] - calm.executed[name] for name in killed.executed}
    return {
        "kills": killed.kills,
        "runs": len(killed.ends),
        "lost": len(lost),
        "images_twice": more[PAINTER],
        "calls_twice": more[PANEL] + more[REPORTER],
        "executed_twice": killed.twice,
        "replayed": killed.replayed,
        "images": calm.executed[PAINTER],
        "calls": calm.executed[PANEL] + calm.executed[REPORTER],
        "seconds": killed.seconds,
    }


def main() -> None:
    """Measure, print, and in full mode write ``results/chaos.json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="4 kills, 4 runs at once, SQLite only")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kinds = ("sqlite",) if given.quick else ("sqlite", "postgresql")
    kills, at_once = (4, 4) if given.quick else (given.kills, given.at_once)
    figures: dict[str, float] = {}
    for kind in kinds:
        found = asyncio.run(measured(kind, kills, at_once, given.seed))
        figures |= {f"{kind}.{name}": value for name, value in found.items()}
    for name in ("kills", "runs", "lost", "images_twice", "calls_twice"):
        figures[name] = sum(figures[f"{kind}.{name}"] for kind in kinds)
    report("chaos", int(figures["runs"]), figures, given.quick)


if __name__ == "__main__":
    main()

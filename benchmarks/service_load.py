"""The service under load: how late events come to those who watch, and what a run costs in memory.

``python -m benchmarks.service_load [--quick]``. A server in its own process drives 1,000 queued
runs of three rounds with models that take 50 ms a picture and 20 ms an answer, while 200 clients
each follow one run after the other as server-sent events. ``p99_added_ms`` is the time from when
an event happened in the server to when a client had it whole, ``events_lost`` counts numbers that
a client should have heard and did not, ``mib_per_1000_runs`` is the slope of the server's
resident memory over the runs that ended after the first fifth. ``slowdown`` is how much longer a
run took, from its first event to its last, than with nobody else in the same process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil

from benchmarks._harness import Option, benchmark, interval, work_folder
from benchmarks._mock import spawned
from benchmarks._models import instant_models
from scenewright.service.api.socket_server import Server, address_of, bind
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings

LIMIT_MS = 50.0
_SECONDS = 900


@dataclass(slots=True)
class Load:
    """What the clients saw."""

    added: list[float] = field(default_factory=list)
    """Seconds from an event to its arrival."""
    lost: int = 0
    """Numbers that were not heard."""
    took: list[float] = field(default_factory=list)
    """Seconds of each run from its first to its last event."""
    memory: list[tuple[int, float]] = field(default_factory=list)
    """(runs ended, MiB resident)."""


async def _post(client: httpx2.AsyncClient, number: int) -> str:
    body = {"triplets": "red ball on table; dog left of table", "seed": number, "rounds": 3}
    reply = await client.post("/v1/refinements", json=body)
    reply.raise_for_status()
    return str(reply.json()["id"])


async def watch(client: httpx2.AsyncClient, run: str, seen: Load) -> None:
    """Follow a run to its end and note what was heard of it in ``seen``."""
    expected, first, last = 0, 0.0, 0.0
    fields: dict[str, str] = {}
    async with client.stream("GET", f"/v1/refinements/{run}/events") as reply:
        begun = time.time()
        async for line in reply.aiter_lines():
            now = time.time()
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "id" in fields:
                at = float(json.loads(fields["data"])["at"])
                number = int(fields["id"])
                seen.lost += number - expected
                expected = number + 1
                # What happened before the client listened was read from the log.
                if at > begun:
                    seen.added.append(now - at)
                first, last = first or at, at
            fields = {}
    if not expected:
        seen.lost += 1
    seen.took.append(last - first)


async def load(url: str, pid: int, runs: int, streams: int) -> Load:
    """Put ``runs`` in line and follow them with ``streams`` clients at once."""
    # A pause of the client's own would count as the service's.
    gc.collect()
    gc.freeze()
    seen = Load()
    limits = httpx2.Limits(max_connections=streams + 8, max_keepalive_connections=streams + 8)
    async with httpx2.AsyncClient(base_url=url, timeout=_SECONDS, limits=limits) as client:
        waiting: asyncio.Queue[str] = asyncio.Queue()
        ended = 0

        async def follow() -> None:
            nonlocal ended
            while run := await waiting.get():
                await watch(client, run, seen)
                ended += 1
                seen.memory.append((ended, psutil.Process(pid).memory_info().rss / 2**20))

        for number in range(runs):
            waiting.put_nowait(await _post(client, number))
        for _ in range(streams):
            waiting.put_nowait("")
        await asyncio.gather(*(follow() for _ in range(streams)))
    return seen


def _serve(pipe: Any, folder: Path, running: int) -> None:
    """Serve models that take a fixed short time until the process is ended."""
    models = instant_models(drawing=0.05, judging=0.02)

    async def serve() -> None:
        settings = ServiceSettings(data=folder, port=0, running=running, queue=100_000)
        listening = bind(settings)
        server = Server(create_app(settings, models=lambda request: models), settings)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        await server.ready.wait()
        pipe.send(address_of(settings, listening))
        await task

    asyncio.run(serve())


def measure(folder: Path, runs: int, streams: int, running: int) -> dict[str, Any]:
    """Return all figures."""
    process, ours = spawned(_serve, folder, running)
    try:
        url, pid = ours.recv(), int(process.pid or 0)
        # Alone, after a first one that loads what is loaded once.
        alone = [asyncio.run(load(url, pid, 1, 1)) for _ in range(6)][1:]
        begun = time.monotonic()
        seen = asyncio.run(load(url, pid, runs, streams))
        seconds = time.monotonic() - begun
    finally:
        process.terminate()
        process.join(60)
    late = np.asarray(seen.added) * 1000
    base = float(np.median([one.took[0] for one in alone]))
    settled = [(n, mib) for n, mib in seen.memory if n > runs / 5]
    slope = float(np.polyfit(*zip(*settled, strict=True), 1)[0]) * 1000
    return {
        "p99_added_ms": float(np.percentile(late, 99)),
        "p50_added_ms": float(np.percentile(late, 50)),
        "max_added_ms": float(late.max()),
        "limit_ms": LIMIT_MS,
        "p99_over_limit": float(np.percentile(late, 99)) / LIMIT_MS,
        "events": len(late),
        "events_lost": seen.lost,
        "mib_per_1000_runs": slope,
        "mib": settled[-1][1],
        "runs_per_second": runs / seconds,
        "slowdown": interval([took / base for took in seen.took]),
        "streams": streams,
        "running": running,
    }


@benchmark("100 runs, 50 streams", running=Option(4, "runs driven at once"))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the service."""
    runs, streams = (100, 50) if options.quick else (1000, 200)
    with work_folder(options) as folder:
        return runs, measure(folder, runs, streams, options.running)


if __name__ == "__main__":
    main()

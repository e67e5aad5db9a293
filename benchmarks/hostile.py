"""Scenes made to stall the service, beside people who use it.

``python -m benchmarks.hostile [--quick]``. A server in its own process drives normal runs one after
the other (three rounds, models that take no time), while one client asks ``/healthz`` and one has
``/v1/parse`` read a sentence, each again as soon as it was answered and a hundredth of a second has
passed. That is ``calm``. Then four further clients in a process of their own send the largest
scenes that are taken, each another one: to ``/v1/parse``, as runs, and to the pages of those runs.
As runs most are refused, for no prompt holds them; some are as large as a prompt may be. They wait
for nothing but their answers. ``p99_ms.healthz`` and ``p99_ms.parse`` are the times from question
to answer meanwhile; the aim is 250 ms.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks._harness import Option, benchmark, prefixed, work_folder
from benchmarks._mock import COLORS, PREDICATES, THINGS, spawned
from benchmarks._models import instant_models
from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS
from scenewright.service.api.socket_server import Server, address_of, bind
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings

LIMIT_MS = 250.0
SENTENCE = "A red ball is on a table, a black dog is left of the table."
_PAUSE = 0.01
_SECONDS = 120.0
_AHEAD = 3.0
"""Seconds for which the attack goes on before anything is measured."""
_MOST = 1000
"""Attributes, and predicates between two things."""


def scenes(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield scenes that are hard to work with, each with the name of its kind, without end."""
    chance = random.Random(f"hostile {seed}")

    def made(
        names: list[str], attributes: int, relations: int, predicates: tuple[str, ...]
    ) -> dict[str, Any]:
        things = [
            {
                "id": f"o{at}",
                "name": name,
                "attributes": {f"k{key}": chance.choice(COLORS) for key in range(attributes)},
            }
            for at, name in enumerate(names)
        ]
        pairs = itertools.permutations(range(len(names)), 2)
        ends = chance.sample(list(pairs), relations)
        links = [
            {"source": f"o{a}", "predicate": chance.choice(predicates), "target": f"o{b}"}
            for a, b in ends
        ]
        return {"objects": things, "relations": links}

    for number in itertools.count():
        yield "one class", made(["ball"] * MAX_OBJECTS, 4, MAX_RELATIONS, PREDICATES)
        names = [f"thing {number} {at}" for at in range(MAX_OBJECTS)]
        yield "all classes", made(names, 1, MAX_OBJECTS, PREDICATES)
        yield "many lines", made([chance.choice(THINGS) for _ in range(200)], 0, 199, PREDICATES)
        yield "full prompt", made([chance.choice(THINGS) for _ in range(300)], 0, 500, PREDICATES)
        verbs = tuple(f"frob{number}x{at}ing" for at in range(_MOST))
        pair = made(["ball", "ball"], 0, 0, verbs)
        pair["relations"] = [{"source": "o0", "predicate": verb, "target": "o1"} for verb in verbs]
        yield "one pair", pair
        # The first is told from each other thing by another attribute.
        keys = {f"k{key}": f"v{number}x{key}" for key in range(64)}
        alike = [
            {"id": f"o{at}", "name": "ball", "attributes": {k: keys[k] for k in keys if k != lost}}
            for at, lost in enumerate(["", *keys])
        ]
        yield "alike", {"objects": alike, "relations": []}


@dataclass(slots=True)
class Probes:
    """What those who use the service saw."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Times of answers by what was asked."""
    runs: int = 0
    """Normal runs that ended."""

    def figures(self) -> dict[str, Any]:
        """Return percentiles in milliseconds, and the number of runs."""
        found: dict[str, Any] = {"runs": self.runs}
        for name, seconds in self.seconds.items():
            late = np.asarray(seconds) * 1000
            found[f"p99_ms.{name}"] = float(np.percentile(late, 99))
            found[f"p50_ms.{name}"] = float(np.percentile(late, 50))
            found[f"max_ms.{name}"] = float(late.max())
            found[f"n.{name}"] = len(late)
        return found


async def watch(url: str, seconds: float) -> Probes:
    """Use the service for so long, and return what was seen."""
    seen = Probes()
    ends = time.monotonic() + seconds
    async with httpx2.AsyncClient(base_url=url, timeout=_SECONDS) as client:

        async def probe(name: str, ask: Callable[[], Awaitable[httpx2.Response]]) -> None:
            found = seen.seconds.setdefault(name, [])
            while time.monotonic() < ends:
                begun = time.perf_counter()
                (await ask()).raise_for_status()
                found.append(time.perf_counter() - begun)
                await asyncio.sleep(_PAUSE)

        async def draw() -> None:
            for number in itertools.count():
                if time.monotonic() >= ends:
                    return
                body = {"text": SENTENCE, "seed": number, "rounds": 3}
                run = (await client.post("/v1/refinements", json=body)).raise_for_status().json()
                while run["status"] in ("queued", "running"):
                    await asyncio.sleep(10 * _PAUSE)
                    if time.monotonic() >= ends:
                        return
                    run = (await client.get(f"/v1/refinements/{run['id']}")).json()
                seen.runs += 1

        await asyncio.gather(
            probe("healthz", lambda: client.get("/healthz")),
            probe("parse", lambda: client.post("/v1/parse", json={"text": SENTENCE})),
            draw(),
        )
    return seen


async def attack(url: str, seconds: float, clients: int) -> dict[str, int]:
    """Send hostile scenes for so long; return how many answers had which status."""
    counted: Counter[str] = Counter()
    counted["unanswered"] = 0
    ends = time.monotonic() + seconds

    async def send(seed: int) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=seconds) as client:

            async def count(what: str, answer: Awaitable[httpx2.Response]) -> httpx2.Response:
                reply = await answer
                counted[f"{what}.{reply.status_code}"] += 1
                return reply

            # Each client begins with another kind.
            for _, scene in itertools.islice(scenes(seed), seed, None):
                body = {"scene": scene}
                await count("parse", client.post("/v1/parse", json=body))
                run = await count("run", client.post("/v1/refinements", json=body | {"rounds": 1}))
                if run.is_success:
                    page = f"/runs/{run.json()['id']}"
                    for path in (page, f"{page}/main"):
                        await count("page", client.get(path, headers={"Accept": "text/html"}))
                if time.monotonic() >= ends:
                    return

    async def until_the_end(seed: int) -> None:
        try:
            async with asyncio.timeout(seconds + 1.0):
                await send(seed)
        except (TimeoutError, httpx2.TimeoutException):
            counted["unanswered"] += 1

    await asyncio.gather(*(until_the_end(seed) for seed in range(clients)))
    return dict(counted)


def _serve(pipe: Any, folder: Path) -> None:
    """Serve instant models until the process is ended."""
    models = instant_models()

    async def serve() -> None:
        settings = ServiceSettings(data=folder, port=0, queue=100_000)
        listening = bind(settings)
        server = Server(create_app(settings, models=lambda request: models), settings)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        await server.ready.wait()
        pipe.send(address_of(settings, listening))
        await task

    asyncio.run(serve())


def _attack(pipe: Any, url: str, seconds: float, clients: int) -> None:
    """Say when it begins, then how it ended."""
    pipe.send("begun")
    pipe.send(asyncio.run(attack(url, seconds, clients)))


def measure(folder: Path, seconds: float, clients: int) -> dict[str, Any]:
    """Return all figures of two phases of so many seconds each."""
    process, ours = spawned(_serve, folder)
    try:
        url = ours.recv()
        # What is loaded once is loaded.
        asyncio.run(watch(url, 3.0))
        calm = asyncio.run(watch(url, seconds)).figures()
        foe, theirs = spawned(_attack, url, seconds + _AHEAD, clients)
        try:
            theirs.recv()
            time.sleep(_AHEAD)
            stormy = asyncio.run(watch(url, seconds)).figures()
            counted = theirs.recv() if theirs.poll(_SECONDS) else {}
        finally:
            foe.terminate()
            foe.join(60)
    finally:
        process.terminate()
        process.join(60)
    return {
        **stormy,
        **prefixed("calm.", calm),
        **prefixed("hostile.", counted),
        "limit_ms": LIMIT_MS,
        "clients": clients,
    }


@benchmark("8 seconds each", clients=Option(4, "hostile clients", least=1))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the service."""
    seconds = 8.0 if options.quick else 120.0
    with work_folder(options) as folder:
        figures = measure(folder, seconds, options.clients)
    return figures["n.healthz"] + figures["n.parse"], figures


if __name__ == "__main__":
    main()

"""A server killed again and again while it drives runs: is anything lost, drawn or paid twice?

``python -m benchmarks.chaos``: 20 concurrent runs, 50 times ``kill -9`` at random moments, on
SQLite and on PostgreSQL. Every picture and every answer comes from a mock in another process, which
counts what it really did. The same requests then run undisturbed; each must have ended the same,
and the mock server must have done as much and no more.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from benchmarks._harness import (
    SERVER,
    Option,
    benchmark,
    differences_shown,
    prefixed,
    work_folder,
)
from benchmarks._mock import (
    COLORS,
    KEYS,
    PAINTER,
    PANEL,
    PREDICATES,
    REPORTER,
    THINGS,
    MockServer,
    ServiceProcess,
    database,
)
from scenewright.mock_providers.settings import MockSettings

_POLL_SECONDS = 0.25
_QUIET_SECONDS = 10.0
ENDED = ("finished", "failed", "cancelled")


@dataclass(slots=True)
class Chaos:
    """How runs fared under kills."""

    kills: int = 0
    """How often the server was killed."""
    ends: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Idempotency key of a request → how its run ended."""
    executed: dict[str, int] = field(default_factory=dict)
    """Account at the mock providers → requests that a model has answered."""
    twice: int = 0
    """Executions of a request whose key had been executed before."""
    replayed: int = 0
    """Requests that were sent again and got the first one's reply."""
    seconds: float = 0.0
    """Wall time."""


def request(number: int, rounds: int = 3) -> dict[str, Any]:
    """Return the request of that number: its own scene, so that no two runs ask the same."""
    rng = random.Random(f"chaos {number}")
    names = rng.sample(THINGS, 3)
    first, second, third = (f"{rng.choice(COLORS)} {name}" for name in names)
    triplets = (
        f"{first} {rng.choice(PREDICATES)} {second}; {third} {rng.choice(PREDICATES)} {first}"
    )
    return {
        "triplets": triplets,
        "rounds": rounds,
        "seed": number,
        "idempotency_key": f"chaos-{number}",
    }


async def endured(
    folder: Path,
    *,
    kills: int,
    at_once: int,
    numbers: Sequence[int] | None = None,
    database: str | None = None,
    latency: float = 0.2,
    seed: int = 0,
    alive: float = 2.5,
    rounds: int = 3,
) -> Chaos:
    """Keep ``at_once`` runs going while the server is killed ``kills`` times; then let all end.

    The server lives a random while (at most ``alive`` seconds) after its runs have begun to call
    models again, but one time in five only after it has begun to take work.
    ``numbers``: of all requests; None: as many as it takes to keep ``at_once`` going.
    """
    found = Chaos()
    clock = asyncio.get_running_loop().time
    begun = clock()
    with MockServer(MockSettings(latency=latency, seed=seed)) as lab:
        server = ServiceProcess(folder, lab.url, database=database, running=at_once)
        try:
            await server.start()
            ended = asyncio.Event()
            clients = run_all(server.url, at_once, numbers, found, ended, rounds)
            rng = random.Random(seed)
            for _ in range(kills):
                await _random_moment(lab, rng, alive)
                await server.kill()
                found.kills += 1
                await server.start()
            ended.set()
            await clients
        finally:
            await server.stop()
        accounts = tuple(KEYS.values())
        found.executed = {key: lab.count("executed", [key]) for key in accounts}
        found.twice = lab.count("executed_twice", accounts)
        found.replayed = lab.count("replayed", accounts)
    found.seconds = clock() - begun
    return found


async def _random_moment(lab: MockServer, rng: random.Random, alive: float) -> None:
    accounts = tuple(KEYS.values())
    if rng.random() > 0.2:
        before, waited = lab.count("arrivals", accounts), 0.0
        while lab.count("arrivals", accounts) == before and waited < _QUIET_SECONDS:
            await asyncio.sleep(0.05)
            waited += 0.05
    await asyncio.sleep(rng.uniform(0.0, alive))


def run_all(
    url: str,
    at_once: int,
    numbers: Sequence[int] | None,
    found: Chaos,
    ended: asyncio.Event,
    rounds: int = 3,
) -> asyncio.Future[Any]:
    """Begin to ask for runs, ``at_once`` side by side, and note their ends in ``found``.

    Without ``numbers`` new ones are asked for until ``ended`` is set.
    """
    shares: list[Iterable[int]] = [
        itertools.count(first, at_once) if numbers is None else numbers[first::at_once]
        for first in range(at_once)
    ]
    clients = (_client(url, ended, share, found, rounds) for share in shares)
    return asyncio.gather(*clients)


async def _client(
    url: str, ended: asyncio.Event, numbers: Iterable[int], found: Chaos, rounds: int
) -> None:
    """Ask for one run after the other, each until it has ended, whatever becomes of the server."""
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for number in numbers:
            asked = request(number, rounds)
            run = await _insist(client, "POST", "/v1/refinements", json=asked)
            view = run
            while view["status"] not in ENDED:
                await asyncio.sleep(_POLL_SECONDS)
                view = await _insist(client, "GET", f"/v1/refinements/{run['id']}")
            found.ends[asked["idempotency_key"]] = end_of(view)
            if ended.is_set() and isinstance(numbers, itertools.count):
                return


async def _insist(client: httpx2.AsyncClient, method: str, path: str, **more: Any) -> Any:
    while True:
        try:
            reply = await client.request(method, path, **more)
        except httpx2.TransportError:
            await asyncio.sleep(0.05)
            continue
        if reply.status_code in (429, 503):
            await asyncio.sleep(0.2)
            continue
        if reply.is_error:
            raise RuntimeError(f"{method} {path}: {reply.status_code} {reply.text}")
        return reply.json()


def end_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same however often the server was killed: all but ids and times."""
    return {
        "status": view["status"],
        "error": view["error"],
        "stop_reason": view["summary"]["stop_reason"],
        "best_round": view["best_round"],
        "rounds": [
            {
                "prompt": r["prompt"],
                "image": r["image"]["hash"],
                "reference": r["reference"] and r["reference"]["hash"],
                "loop_card": r["loop_card"],
                "report_card": r["report_card"],
                "missing": r["missing"],
                "does": r["does"],
            }
            for r in view["rounds"]
        ],
        "totals": {
            name: view["totals"].get(name)
            for name in ("images", "judge_calls", "tokens_in", "tokens_out")
        },
    }


def measured(
    folder: Path, server: str | None, kills: int, at_once: int, seed: int
) -> dict[str, float]:
    """Return the figures of a database on ``server``; None: SQLite."""

    def run(name: str, kills: int, numbers: Sequence[int] | None = None) -> Chaos:
        with nullcontext() if server is None else database(server) as url:
            common: dict[str, Any] = {"at_once": at_once, "database": url, "seed": seed}
            return asyncio.run(endured(folder / name, kills=kills, numbers=numbers, **common))

    killed = run("killed", kills)
    numbers = sorted(int(key.rpartition("-")[2]) for key in killed.ends)
    return figures_of(killed, run("calm", 0, numbers))


def figures_of(killed: Chaos, calm: Chaos) -> dict[str, float]:
    """Return what the kills did; both did the same requests."""
    more = {name: killed.executed[name] - calm.executed[name] for name in killed.executed}
    return {
        "kills": killed.kills,
        "runs": len(killed.ends),
        "lost": differences_shown("run", calm.ends, killed.ends),
        "images_twice": more[PAINTER],
        "calls_twice": more[PANEL] + more[REPORTER],
        "executed_twice": killed.twice,
        "replayed": killed.replayed,
        "images": calm.executed[PAINTER],
        "calls": calm.executed[PANEL] + calm.executed[REPORTER],
        "seconds": killed.seconds,
    }


@benchmark(
    "4 kills, 4 runs at once, SQLite only",
    kills=Option(50, "kills of a server"),
    at_once=Option(20, "concurrent runs"),
    seed=Option(0, "of the kills"),
    server=SERVER,
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure every kind of database."""
    servers = {"sqlite": None} | ({} if options.quick else {"postgresql": options.server})
    kills, at_once = (4, 4) if options.quick else (options.kills, options.at_once)
    figures: dict[str, float] = {}
    with work_folder(options) as folder:
        for kind, server in servers.items():
            found = measured(folder / kind, server, kills, at_once, options.seed)
            figures |= prefixed(f"{kind}.", found)
    for name in ("kills", "runs", "lost", "images_twice", "calls_twice"):
        figures[name] = sum(figures[f"{kind}.{name}"] for kind in servers)
    return int(figures["runs"]), figures


if __name__ == "__main__":
    main()

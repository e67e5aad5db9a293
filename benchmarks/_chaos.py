"""Runs of a server that is killed again and again, and what became of them."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from benchmarks._lab_process import LabProcess, lab_process
from benchmarks._service_process import PAINTER, PANEL, REPORTER, ServiceProcess
from scenewright.mock_providers.settings import LabSettings

THINGS = ("ball", "dog", "table", "lamp", "house", "car", "tree", "boat", "person", "umbrella")
COLORS = ("red", "green", "blue", "yellow", "white", "black")
PREDICATES = ("on", "left of", "right of", "above", "near")
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
    """Account at the lab → requests that a model has answered."""
    twice: int = 0
    """Executions of a request whose key had been executed before."""
    replayed: int = 0
    """Requests that were sent again and got the first one's reply."""
    seconds: float = 0.0
    """Wall time."""


def request(number: int, rounds: int = 3) -> dict[str, Any]:
    """The request of that number: its own scene, so that no two runs ask the lab the same."""
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
    ``numbers``: of all requests; none: as many as it takes to keep ``at_once`` going.
    """
    found = Chaos()
    clock = asyncio.get_running_loop().time
    begun = clock()
    with lab_process(LabSettings(latency=latency, seed=seed)) as lab:
        server = ServiceProcess(folder, lab.url, database=database, running=at_once)
        try:
            await server.start()
            ended = asyncio.Event()
            if not kills:
                ended.set()
            clients = [
                asyncio.create_task(_client(server.url, ended, share, found, rounds))
                for share in _shares(at_once, numbers)
            ]
            rng = random.Random(seed)
            for _ in range(kills):
                await _random_moment(lab, rng, alive)
                await server.kill()
                found.kills += 1
                await server.start()
            ended.set()
            await asyncio.gather(*clients)
        finally:
            await server.stop()
        _count(lab, found)
    found.seconds = clock() - begun
    return found


async def _random_moment(lab: LabProcess, rng: random.Random, alive: float) -> None:
    if rng.random() > 0.2:
        before, waited = _arrivals(lab), 0.0
        while _arrivals(lab) == before and waited < _QUIET_SECONDS:
            await asyncio.sleep(0.05)
            waited += 0.05
    await asyncio.sleep(rng.uniform(0.0, alive))


def _arrivals(lab: LabProcess) -> int:
    return sum(int(lab.account(name).get("arrivals", 0)) for name in (PAINTER, PANEL, REPORTER))


def _shares(at_once: int, numbers: Sequence[int] | None) -> list[Iterable[int]]:
    """The numbers of each client's requests."""
    if numbers is None:
        return [itertools.count(first, at_once) for first in range(at_once)]
    return [numbers[first::at_once] for first in range(min(at_once, len(numbers)))]


async def _client(
    url: str, ended: asyncio.Event, numbers: Iterable[int], found: Chaos, rounds: int
) -> None:
    """Ask for one run after the other, each until it has ended; a server that is gone is asked
    again."""
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for number in numbers:
            asked = request(number, rounds)
            run = await _insist(client, "POST", "/v1/refinements", json=asked)
            view = await _ended(client, run["id"])
            found.ends[asked["idempotency_key"]] = end_of(view)
            if ended.is_set() and isinstance(numbers, itertools.count):
                return


async def _ended(client: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    while True:
        view: dict[str, Any] = await _insist(client, "GET", f"/v1/refinements/{run}")
        if view["status"] in ENDED:
            return view
        await asyncio.sleep(_POLL_SECONDS)


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
    """What must be the same however often the server was killed: all but ids and times."""
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


def _count(lab: LabProcess, found: Chaos) -> None:
    for account in (PAINTER, PANEL, REPORTER):
        told = lab.account(account)
        found.executed[account] = int(told.get("executed", 0))
        found.twice += int(told.get("executed_twice", 0))
        found.replayed += int(told.get("replayed", 0))

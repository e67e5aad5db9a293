"""Runs of a service of one API process and several workers, in which everything is killed."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._chaos import Chaos, _client, _shares
from benchmarks._chaos_cluster_books import Again, Notes, asked_again
from benchmarks._chaos_cluster_items import cut_off, plan_of
from benchmarks._chaos_cluster_lab import MortalLab
from benchmarks._service_process import ServiceProcess, environment
from benchmarks._sharing import database
from scenewright.mock_providers.settings import LabSettings
from scenewright.runs.folder import ANSWERS, RunFolder

_LOOK_SECONDS = 0.1
_ATTEMPTS = 30
_CALLS_OF_A_RUN = 2
"""Most requests of one run that are under way at once: a judge for steering, one for reporting."""
_DATA = "data"


@dataclass(frozen=True, slots=True)
class Size:
    """How many runs there are, and what befalls them."""

    runs: int
    """Runs of all."""
    workers: int
    """Processes that drive runs."""
    running: int
    """Runs that each drives at once."""
    latency: float
    """Seconds that the lab takes for an answer; undisturbed none."""
    lease: float
    """Seconds after which the runs of a silent worker go to others."""
    kills: Mapping[str, int]
    """``worker``, ``api``, ``database`` or ``lab`` → how often it is killed."""


@dataclass(slots=True)
class Endured:
    """How runs fared."""

    ends: Mapping[str, Any] = field(default_factory=dict)
    """Idempotency key of a request → how its run ended."""
    again: Again | None = None
    """What the lab was asked again."""
    executed: int = 0
    """Requests that models of the lab have answered."""
    kills: Counter[str] = field(default_factory=Counter)
    """What was killed → how often."""
    connections: int = 0
    """Connections of the database that were cut."""
    seconds: float = 0.0
    """Wall time."""


class WorkProcess:
    """``scenewright worker``, beside the API process of the same folder."""

    def __init__(self, folder: Path, number: int, url: str, size: Size) -> None:
        """``url``: of the database."""
        self._folder = folder
        self._log = folder / f"worker-{number}.log"
        self._command = [
            sys.executable, "-m", "scenewright", "worker", "--data", _DATA, "--database", url,
            "--running", str(size.running),
        ]  # fmt: skip
        self._environment = {
            **environment(), "SCENEWRIGHT_SERVICE_LEASE_SECONDS": str(size.lease)
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """End it at once (SIGKILL). Raises ``RuntimeError`` if it had ended by itself."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"a worker ended by itself: {self._log.read_text()[-3000:]}")
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


async def endured(folder: Path, size: Size, server: str, seed: int, requests: int = 0) -> Endured:
    """The runs, with everything killed that ``size`` says while they make ``requests``."""
    rng = random.Random(f"chaos service {seed}")
    found, chaos = Endured(), Chaos()
    lab = MortalLab(LabSettings(latency=size.latency, seed=seed), folder / "lab.jsonl")
    notes = Notes(folder / _DATA)
    clock = asyncio.get_running_loop().time
    with database(server) as url:
        api = ServiceProcess(
            folder, lab.url, database=url, running=1, attempts=_ATTEMPTS, more=["--no-work"]
        )
        workers = [WorkProcess(folder, n, url, size) for n in range(size.workers)]
        begun = clock()
        back: list[asyncio.Task[float]] = []
        try:
            await asyncio.to_thread(lab.start)
            await api.start()
            for worker in workers:
                worker.start()
            ended = asyncio.Event()
            at_once = size.workers * size.running * 2
            clients = asyncio.gather(
                *(
                    _client(api.url, ended, share, chaos, 3)
                    for share in _shares(at_once, range(size.runs))
                )
            )
            for moment, what in plan_of(size.kills, requests, rng):
                while lab.answered() < moment and not clients.done():
                    await asyncio.wait((clients,), timeout=_LOOK_SECONDS)
                # Between two answers: what is killed is at work.
                await asyncio.sleep(rng.uniform(0.0, size.latency))
                if clients.done():
                    break
                notes.look()
                await _disturb(what, api, back, workers, lab, url, rng, found)
                found.kills[what] += 1
            await clients
        finally:
            await asyncio.gather(*back, return_exceptions=True)
            await api.stop()
            for worker in workers:
                worker.stop()
            lab.stop()
    found.seconds = clock() - begun
    log = lab.requests()
    at_work = size.workers * size.running * _CALLS_OF_A_RUN
    found.again = asked_again(log, _kept(folder / _DATA, notes), lab.killed, at_work)
    found.executed = sum(request.executed for request in log)
    found.ends = chaos.ends
    return found


async def _disturb(
    what: str,
    api: ServiceProcess,
    back: list[asyncio.Task[float]],
    workers: list[WorkProcess],
    lab: MortalLab,
    url: str,
    rng: random.Random,
    found: Endured,
) -> None:
    if what == "worker":
        worker = rng.choice(workers)
        worker.kill()
        worker.start()
    elif what == "api":
        await asyncio.gather(*back)
        await api.kill()
        # The workers go on meanwhile, and so do the kills.
        back[:] = [asyncio.create_task(api.start())]
    elif what == "database":
        found.connections += await asyncio.to_thread(cut_off, url)
    else:
        lab.kill()
        await asyncio.sleep(rng.uniform(0.0, 1.0))
        await asyncio.to_thread(lab.start)


def _kept(data: Path, notes: Notes) -> dict[str, float]:
    """Scope of a step → since when its picture or its answers are kept."""
    found: dict[str, float] = {}
    for store, origins in notes.origins().items():
        nonce = RunFolder(store.parent).nonce()
        found |= {f"{nonce}:{key}": at for key, at in origins.items()}
    for file in data.rglob(ANSWERS):
        nonce = RunFolder(file.parent).nonce()
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(file)) as answers:
            for key, at in answers.execute("SELECT origin, min(at) FROM answers GROUP BY origin"):
                found[f"{nonce}:{key}"] = at
    return found

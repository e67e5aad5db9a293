"""Everything killed at random on a cluster and in a service: is anything lost or paid twice?

``python -m benchmarks.chaos_cluster [--quick] [--server postgresql://USER@HOST:PORT]``. All models
are in a mock in another process, which writes down what it answers. Answers, limits, runs and jobs
are shared through PostgreSQL. The same work runs undisturbed too.

- ``items``: an evaluation of 5,000 items, each drawn and judged, on a Ray cluster of three nodes.
  Killed at random moments (SIGKILL): workers, nodes with all their processes (another one joins),
  all connections of the database, the mock, and the driver itself; what ended starts again. The
  undisturbed one is the local engine's.
- ``service``: 50 runs of up to three rounds, of one API process (``scenewright serve --no-work``)
  and two workers (``scenewright worker``). Killed: workers, the API process, connections, the mock.

``kills``: how often anything was killed, and ``connections`` of the database that were cut, all
together. ``lost``: items without the same rows in all tables (verdicts, pictures by their hash,
tokens), pictures that are not there whole, runs that ended otherwise. ``twice``: requests for what
was kept already when they were sent, whether or not they were paid for again, and what
``repeated_in_flight`` has beyond the steps at work at a kill. ``repeated_in_flight``: requests that
were under way at a kill and were paid for again, since a mock that is killed forgets the keys under
which it was asked; ``replayed``: those that it knew, and answered without being paid.
``begun_anew``: how often the evaluation ended by itself because too many of its workers had died,
and was started again as it says. ``requests``: what the undisturbed work paid for.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sqlite3
import sys
import time
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks._evaluation import EVAL, Work, child, finished
from benchmarks._harness import (
    SERVER,
    Option,
    benchmark,
    differences_shown,
    prefixed,
    work_folder,
)
from benchmarks._mock import (
    KEYS,
    Child,
    MockServer,
    MortalCluster,
    ServiceProcess,
    account,
    cut_off,
    database,
    lab_profile,
    write_settings,
)
from benchmarks.chaos import Chaos, run_all
from scenewright.core.images import ImageStore
from scenewright.evals.store.results import IMAGES, JOURNAL, Results
from scenewright.mock_providers.accounts import Request
from scenewright.mock_providers.settings import MockSettings
from scenewright.runs.folder import ANSWERS, RunFolder

PER_MINUTE = 12_000
"""Requests a minute that each account of the evaluation allows."""
_JUDGE = "looker:instant"
_EVAL_KEYS = {"BENCH_CHAOS_PAINTER": "chaos-painter", "BENCH_CHAOS_JUDGE": "chaos-judge"}
_TABLES = ("items", "rounds", "answers", "verdicts", "scores")
_LOOK_SECONDS = 0.1
_GIVEN_UP = 5
"""How often an evaluation that ended by itself before its end is started again."""
# A call outlasts mock providers that are away for as long as they take to start on a busy machine.
_ATTEMPTS = 30
_CALLS_OF_A_RUN = 2
"""Most requests of one run that are under way at once: a judge for steering, one for reporting."""
_NUMBERS = 4
"""Equal requests of one step that are told apart: those after unusable replies."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large an evaluation or a set of runs is, and what befalls it."""

    items: int
    """Items of the set, or runs."""
    workers: int
    """Workers of the engine, or processes that drive runs."""
    concurrency: int
    """Items or runs at work in each."""
    latency: float
    """Seconds that the mock providers take for an answer; undisturbed none."""
    kills: Mapping[str, int]
    """``worker``, ``node``, ``api``, ``database``, ``lab`` or ``driver`` → times it is killed."""
    nodes: int = 0
    """Nodes of the cluster beside the head."""
    lease: float = 0.0
    """Seconds after which the runs of a silent worker go to others."""


@dataclass(slots=True)
class Endured:
    """How an evaluation or runs went."""

    ends: Mapping[str, Any] = field(default_factory=dict)
    """Item → its rows in all tables, or key of a run → how it ended; without times."""
    again: Again | None = None
    executed: int = 0
    """Requests that models have answered."""
    kills: Counter[str] = field(default_factory=Counter)
    """What was killed → how often."""
    connections: int = 0
    """Connections of the database that were cut."""
    begun_anew: int = 0
    """How often it ended by itself before its end, and was started again."""
    seconds: float = 0.0
    """Wall time."""

    def counted(self, lab: MockServer, kept: Mapping[str, float], at_work: int) -> None:
        """Count the requests of ``lab``."""
        log = lab.requests()
        self.again = asked_again(log, kept, lab.killed, at_work)
        self.executed = sum(request.executed for request in log)


@dataclass(frozen=True, slots=True)
class Again:
    """Counts of requests that were sent more than once."""

    requests: int
    """Different requests that a model has answered."""
    twice: int
    """Requests for what was kept already, or for a step that nothing was kept of."""
    repeated_in_flight: int
    """Others that a model answered once more, since a mock that was killed had forgotten them."""
    replayed: int
    """Others that got the reply of the earlier one."""
    over: int
    """Those of ``repeated_in_flight`` beyond the steps at work at the mock server's last kill."""


def asked_again(
    log: Iterable[Request],
    kept: Mapping[str, float],
    forgotten: Sequence[float] = (),
    at_work: int = 0,
) -> Again:
    """Count the requests of a log that were sent again, against what was kept by then.

    A request carries a key made of the step that asks, so the log tells which step asked when: a
    step that asks after its result was kept asks for what it has. ``kept``: scope of a step →
    since when its result is kept, Unix seconds.

    ``forgotten``: when labs were killed; ``at_work``: the most steps that were at work then.
    """
    seen: set[tuple[str, str]] = set()
    executed: set[tuple[str, str]] = set()
    twice = replayed = 0
    repeated: Counter[int] = Counter()
    for request in log:
        name = request.account, request.key
        if name in seen:
            since = _since(request, kept)
            if since is None or since < request.arrived:
                twice += 1
            elif request.executed and name in executed:
                repeated[sum(moment < request.arrived for moment in forgotten)] += 1
            else:
                replayed += 1
        seen.add(name)
        if request.executed:
            executed.add(name)
    over = sum(max(0, count - (at_work if kills else 0)) for kills, count in repeated.items())
    return Again(len(executed), twice, repeated.total(), replayed, over)


def _since(request: Request, kept: Mapping[str, float]) -> float | None:
    """Return since when what ``request`` asks for is kept; None if no step asked it."""
    for scope, since in kept.items():
        for number in range(_NUMBERS):
            key = hashlib.sha256("\0".join((scope, str(number), request.asked)).encode())
            if key.hexdigest() == request.key:
                return since
    return None


class Notes:
    """Times since when pictures are kept, by the notes on their requests.

    They are read again and again: a note that is written once more is as young as its last writing.
    """

    def __init__(self, folder: Path) -> None:
        """Read all image stores below ``folder``."""
        self._folder = folder
        self._first: dict[Path, float] = {}

    def look(self) -> None:
        """Read the notes that are there now."""
        for place in self._places():
            with os.scandir(place) as files:
                for file in files:
                    if file.name.endswith(".json"):
                        path, at = Path(file.path), file.stat().st_mtime
                        self._first[path] = min(at, self._first.get(path, at))

    def origins(self) -> dict[Path, dict[str, float]]:
        """Return folder of a store → step that paid for a picture → since when it is kept."""
        self.look()
        found: dict[Path, dict[str, float]] = defaultdict(dict)
        for path, at in self._first.items():
            origin = json.loads(path.read_text(encoding="utf-8"))["meta"]["origin"]
            found[path.parent.parent][origin] = at
        return found

    def _places(self) -> list[Path]:
        return [place for place in self._folder.rglob("images/requests") if place.is_dir()]


def plan_of(kills: Mapping[str, int], items: int, rng: random.Random) -> list[tuple[int, str]]:
    """Return when what is killed: after how many items; all before nine tenths of them are done."""
    what = [name for name, count in sorted(kills.items()) for _ in range(count)]
    rng.shuffle(what)
    moments = sorted(rng.randint(items // 50, items * 9 // 10) for _ in what)
    return list(zip(moments, what, strict=True))


def evaluation(
    folder: Path, lab: str, url: str, size: Size, cluster: MortalCluster | None = None
) -> Child:
    """Return the process of an evaluation; without ``cluster`` by the local engine."""
    limits = {"requests_per_minute": PER_MINUTE, "attempts": _ATTEMPTS}
    painter, judge = _EVAL_KEYS
    accounts = {"painter": account(lab, painter, **limits), "looker": account(lab, judge, **limits)}
    profile = lab_profile(
        "looker:judge-a",
        backend={"kind": "painter", "model": "instant-image"},
        report_judges=[_JUDGE],
    )
    shared = {"answers": url, "shared_limits": url}
    write_settings(folder, {**shared, "accounts": accounts, "profiles": {"lab": profile}})
    at_once = size.concurrency * (1 if cluster else size.workers)
    config = {
        "backends": ["lab"],
        "conditions": ["triplets"],
        "panels": {"looking": {"judges": [_JUDGE]}},
        # One request a step: what a step has kept is all that it asked for.
        "asking": "together",
        "concurrency": at_once,
    }
    work = Work(config, size.items)
    if cluster is not None:
        work = replace(work, workers=size.workers, address=cluster.address)
    return child(folder, work, _EVAL_KEYS)


def endured_items(folder: Path, size: Size, server: str, seed: int) -> Endured:
    """Run the evaluation on a cluster, with everything killed that ``size`` says."""
    os.environ |= _EVAL_KEYS
    rng = random.Random(f"chaos cluster {seed}")
    found = Endured()
    settings = MockSettings(latency=size.latency, requests_per_minute=PER_MINUTE, seed=seed)
    folder.mkdir(parents=True)
    lab = MockServer(settings, folder / "lab.jsonl")
    place = folder / "run"
    notes = Notes(place / EVAL)
    with database(server) as url:
        cluster = MortalCluster(size.nodes)
        try:
            lab.start()
            driver = evaluation(place, lab.url, url, size, cluster)
            begun = time.monotonic()
            try:
                driver.start()
                for moment, what in plan_of(size.kills, size.items, rng):
                    _until(moment, place, driver, cluster, found)
                    time.sleep(rng.uniform(0.0, 0.5))
                    notes.look()
                    if what == "worker":
                        while not cluster.kill_worker(rng):
                            time.sleep(_LOOK_SECONDS)
                    elif what == "node":
                        cluster.kill_node(rng)
                    elif what == "driver":
                        driver.kill()
                        driver.start()
                    else:
                        found.connections += _disturb(what, lab, url, rng)
                    found.kills[what] += 1
                _until(None, place, driver, cluster, found)
            finally:
                driver.stop()
            found.seconds = time.monotonic() - begun
        finally:
            cluster.stop()
            lab.stop()
        nonce = RunFolder(place / EVAL).nonce()
        kept = {
            f"{nonce}:{key}:draw": at for of in notes.origins().values() for key, at in of.items()
        }
        kept |= _answers_in(url)
    found.counted(lab, kept, size.workers * size.concurrency)
    found.ends = rows_of(place / EVAL)
    return found


def undisturbed_items(folder: Path, size: Size, server: str, seed: int) -> Endured:
    """Run the same items by the local engine, with nothing killed."""
    folder.mkdir(parents=True)
    settings = MockSettings(requests_per_minute=PER_MINUTE, seed=seed)
    with MockServer(settings, folder / "lab.jsonl") as lab, database(server) as url:
        driver = evaluation(folder / "run", lab.url, url, size)
        driver.start()
        try:
            seconds = finished(folder / "run", driver)["seconds"]
        finally:
            driver.stop()
    found = Endured(rows_of(folder / "run" / EVAL), seconds=seconds)
    found.executed = sum(request.executed for request in lab.requests())
    return found


def rows_of(folder: Path) -> dict[str, list[Any]]:
    """Return item → its rows in all tables but for times, and whether its pictures are whole."""
    results, store = Results(folder), ImageStore(folder / IMAGES)
    found: dict[str, list[Any]] = defaultdict(list)
    for table in _TABLES:
        for row in results.rows(table):
            shown = {name: value for name, value in row.items() if name != "seconds"}
            if table == "rounds":
                shown["whole"] = bool(row["image"]) and store.sound(row["image"])
            found[row["item"]].append((table, shown))
    return dict(found)


def _until(
    moment: int | None, place: Path, driver: Child, cluster: MortalCluster, found: Endured
) -> None:
    """Wait until so many items are done and a worker is there; None: until the evaluation ends."""
    while True:
        if moment is not None and done(place / EVAL) >= moment and cluster.workers():
            return
        status = driver.poll()
        if status == 0:
            return
        if status is not None:
            found.begun_anew += 1
            print(f"the evaluation ended with {status}: {driver.said()}", flush=True)
            if found.begun_anew > _GIVEN_UP:
                raise RuntimeError("the evaluation ends again and again before its end")
            driver.start()
        time.sleep(_LOOK_SECONDS)


def done(folder: Path) -> int:
    """Return how many items of an evaluation are done, whichever process works on it now."""
    file = folder / JOURNAL
    if not file.exists():
        return 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as at:
        (count,) = at.execute("SELECT count(*) FROM planned WHERE step = 0").fetchone()
        return int(count)
    return 0


def _disturb(what: str, lab: MockServer, url: str, rng: random.Random) -> int:
    """Cut off the database or kill the mock providers; return the connections that were cut."""
    if what == "database":
        return cut_off(url)
    lab.kill()
    time.sleep(rng.uniform(0.0, 1.0))
    lab.start()
    return 0


def _answers_in(url: str) -> dict[str, float]:
    """Return scope of a step → since when its answers are kept in the database at ``url``."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT origin, judge, extract(epoch FROM min(at)) FROM scenewright_answers "
            "GROUP BY origin, judge"
        ).fetchall()
    return {f"{origin.replace('/', ':')}:{judge}": float(at) for origin, judge, at in rows}


async def endured_runs(
    folder: Path, size: Size, server: str, seed: int, requests: int = 0
) -> Endured:
    """Do the runs, with everything killed that ``size`` says while they make ``requests``."""
    rng = random.Random(f"chaos service {seed}")
    found, chaos = Endured(), Chaos()
    lab = MockServer(MockSettings(latency=size.latency, seed=seed), folder / "lab.jsonl")
    notes = Notes(folder / "data")
    begun = time.monotonic()
    await asyncio.to_thread(lab.start)
    with database(server) as url:
        api = ServiceProcess(
            folder, lab.url, database=url, running=1, attempts=_ATTEMPTS, more=["--no-work"]
        )
        command = [
            *(sys.executable, "-m", "scenewright", "worker", "--data", "data"),
            *("--database", url, "--running", str(size.concurrency)),
        ]
        env = {**KEYS, "SCENEWRIGHT_SERVICE_LEASE_SECONDS": str(size.lease)}
        workers = [Child(command, folder, f"worker-{n}.log", env) for n in range(size.workers)]
        back: list[asyncio.Task[float]] = []
        try:
            await api.start()
            for worker in workers:
                worker.start()
            at_once = min(size.items, size.workers * size.concurrency * 2)
            clients = run_all(api.url, at_once, range(size.items), chaos, asyncio.Event())
            for moment, what in plan_of(size.kills, requests, rng):
                while lab.answered() < moment and not clients.done():
                    await asyncio.wait((clients,), timeout=_LOOK_SECONDS)
                # Between two answers: what is killed is at work.
                await asyncio.sleep(rng.uniform(0.0, size.latency))
                if clients.done():
                    break
                notes.look()
                if what == "worker":
                    worker = rng.choice(workers)
                    worker.kill()
                    worker.start()
                elif what == "api":
                    await asyncio.gather(*back)
                    await api.kill()
                    # The workers go on meanwhile, and so do the kills.
                    back[:] = [asyncio.create_task(api.start())]
                else:
                    found.connections += await asyncio.to_thread(_disturb, what, lab, url, rng)
                found.kills[what] += 1
            await clients
        finally:
            await asyncio.gather(*back, return_exceptions=True)
            await api.stop()
            for worker in workers:
                worker.stop()
            lab.stop()
    found.seconds = time.monotonic() - begun
    at_work = size.workers * size.concurrency * _CALLS_OF_A_RUN
    found.counted(lab, _kept_in(folder / "data", notes), at_work)
    found.ends = chaos.ends
    return found


def _kept_in(data: Path, notes: Notes) -> dict[str, float]:
    """Return scope of a step → since when its picture or its answers are kept in run folders."""
    found: dict[str, float] = {}
    for store, origins in notes.origins().items():
        nonce = RunFolder(store.parent).nonce()
        found |= {f"{nonce}:{key}": at for key, at in origins.items()}
    for file in data.rglob(ANSWERS):
        nonce = RunFolder(file.parent).nonce()
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(file)) as answers:
            for key, judge, at in answers.execute(
                "SELECT origin, judge, min(at) FROM answers GROUP BY origin, judge"
            ):
                found[f"{nonce}:{key}:{judge}"] = at
    return found


def figures_of(
    name: str,
    disturbed: Mapping[str, Any],
    calm: Mapping[str, Any],
    again: Again,
    kills: Mapping[str, int],
) -> dict[str, Any]:
    """Return the figures of one part from the ends of its items or runs by name."""
    return {
        **{f"{name}.kills.{what}": count for what, count in sorted(kills.items())},
        f"{name}.kills": sum(kills.values()),
        f"{name}.n": len(calm),
        f"{name}.lost": differences_shown(name, calm, disturbed),
        f"{name}.twice": again.twice + again.over,
        f"{name}.repeated_in_flight": again.repeated_in_flight,
        f"{name}.replayed": again.replayed,
    }


def part_figures(name: str, disturbed: Endured, calm: Endured) -> dict[str, Any]:
    """Return all figures of one part."""
    assert disturbed.again is not None
    print(f"{name}: {disturbed.kills}, {disturbed.again}", flush=True)
    found = figures_of(name, disturbed.ends, calm.ends, disturbed.again, disturbed.kills)
    more = {"connections": disturbed.connections, "requests": calm.executed}
    return found | prefixed(f"{name}.", {**more, "seconds": disturbed.seconds})


def measure(items: Size, runs: Size, server: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return all figures."""
    quiet = replace(runs, workers=1, kills={}, latency=0.0)

    def served(name: str, size: Size, requests: int = 0) -> Endured:
        (folder / name).mkdir(parents=True)
        return asyncio.run(endured_runs(folder / name, size, server, seed, requests))

    # Undisturbed work goes on beside the other, with servers, a database and a folder of its own.
    with ThreadPoolExecutor(1) as beside:
        calm_runs = beside.submit(served, "service-calm", quiet)
        calm_items = beside.submit(undisturbed_items, folder / "items-calm", items, server, seed)
        still = calm_runs.result()
        service = part_figures("service", served("service", runs, still.executed), still)
        one = endured_items(folder / "items", items, server, seed)
        figures = part_figures("items", one, calm_items.result())
    figures |= {"items.begun_anew": one.begun_anew, **service}
    for name in ("kills", "lost", "twice", "repeated_in_flight", "replayed"):
        figures[name] = figures[f"items.{name}"] + figures[f"service.{name}"]
    return figures


FULL = (
    Size(
        5000, workers=3, concurrency=12, latency=1.0, nodes=2,
        kills={"worker": 12, "node": 5, "database": 10, "lab": 5, "driver": 3},
    ),
    Size(
        50, workers=2, concurrency=4, latency=1.0, lease=30.0,
        kills={"worker": 8, "api": 4, "database": 6, "lab": 3},
    ),
)  # fmt: skip
QUICK = (
    Size(
        40, workers=1, concurrency=8, latency=0.2, kills={"worker": 1, "database": 1, "lab": 1}
    ),
    Size(
        4, workers=2, concurrency=2, latency=0.1, lease=5.0, kills={"worker": 1, "database": 1}
    ),
)  # fmt: skip


@benchmark("few items and runs", server=SERVER, seed=Option(0, "of the kills"))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both parts."""
    sizes = QUICK if options.quick else FULL
    with work_folder(options) as folder:
        figures = measure(*sizes, options.server, options.seed, folder)
    return sum(size.items for size in sizes), figures


if __name__ == "__main__":
    main()

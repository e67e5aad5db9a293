"""An evaluation on a cluster in which everything is killed at random, and what became of it."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._chaos_cluster_books import Again, Notes, asked_again
from benchmarks._chaos_cluster_driver import EVAL, JUDGE_ID, KEYS, PER_MINUTE, Driver
from benchmarks._chaos_cluster_lab import MortalLab
from benchmarks._chaos_cluster_ray import MortalCluster
from benchmarks._sharing import database
from scenewright.core.images import ImageStore
from scenewright.evals.store.paths import JOURNAL
from scenewright.evals.store.results import IMAGES, Results
from scenewright.mock_providers.settings import LabSettings

_TABLES = ("items", "rounds", "answers", "verdicts", "scores")
_LOOK_SECONDS = 0.1
_GIVEN_UP = 5
"""How often an evaluation that ended by itself before its end is started again."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large an evaluation is, and what befalls it."""

    items: int
    """Items of the set."""
    nodes: int
    """Nodes of the cluster beside the head."""
    workers: int
    """Workers of the engine."""
    concurrency: int
    """Items at work in each."""
    latency: float
    """Seconds that the lab takes for an answer; undisturbed none."""
    kills: Mapping[str, int]
    """``worker``, ``node``, ``database``, ``lab`` or ``driver`` → how often it is killed."""


@dataclass(slots=True)
class Endured:
    """How an evaluation went."""

    rows: dict[str, list[Any]] = field(default_factory=dict)
    """Item → its rows in all tables, without how long things took."""
    again: Again | None = None
    """What the lab was asked again."""
    executed: int = 0
    """Requests that models of the lab have answered."""
    kills: Counter[str] = field(default_factory=Counter)
    """What was killed → how often."""
    connections: int = 0
    """Connections of the database that were cut."""
    begun_anew: int = 0
    """How often it ended by itself before its end, and was started again."""
    seconds: float = 0.0
    """Wall time."""


def plan_of(kills: Mapping[str, int], items: int, rng: random.Random) -> list[tuple[int, str]]:
    """When what is killed: after how many items; all before nine tenths of them are done."""
    what = [name for name, count in sorted(kills.items()) for _ in range(count)]
    rng.shuffle(what)
    moments = sorted(rng.randint(items // 50, items * 9 // 10) for _ in what)
    return list(zip(moments, what, strict=True))


def endured(folder: Path, size: Size, server: str, seed: int) -> Endured:
    """The evaluation on a cluster, with everything killed that ``size`` says."""
    os.environ |= KEYS
    rng = random.Random(f"chaos cluster {seed}")
    found = Endured()
    settings = LabSettings(latency=size.latency, requests_per_minute=PER_MINUTE, seed=seed)
    folder.mkdir(parents=True)
    lab = MortalLab(settings, folder / "lab.jsonl")
    with database(server) as url:
        cluster = MortalCluster(size.nodes)
        try:
            lab.start()
            hired = (cluster.address, size.workers)
            place = folder / "run"
            driver = Driver(place, lab.url, url, size.items, size.concurrency, hired)
            notes = Notes(place / EVAL)
            begun = time.monotonic()
            try:
                driver.start()
                for moment, what in plan_of(size.kills, size.items, rng):
                    _until(moment, place, driver, cluster, found)
                    time.sleep(rng.uniform(0.0, 0.5))
                    notes.look()
                    _disturb(what, cluster, driver, lab, url, rng, found)
                    found.kills[what] += 1
                _until(None, place, driver, cluster, found)
            finally:
                driver.stop()
            found.seconds = time.monotonic() - begun
        finally:
            cluster.stop()
            lab.stop()
        kept = _kept(notes, url)
    log = lab.requests()
    at_work = size.workers * size.concurrency
    found.again = asked_again(log, kept, lab.killed, at_work)
    found.executed = sum(request.executed for request in log)
    found.rows = rows_of(place / EVAL)
    return found


def undisturbed(folder: Path, size: Size, server: str, seed: int) -> Endured:
    """The same items by the local engine, with nothing killed."""
    found = Endured()
    folder.mkdir(parents=True)
    settings = LabSettings(requests_per_minute=PER_MINUTE, seed=seed)
    lab = MortalLab(settings, folder / "lab.jsonl")
    lab.start()
    try:
        with database(server) as url:
            at_once = size.workers * size.concurrency
            driver = Driver(folder / "run", lab.url, url, size.items, at_once, None)
            begun = time.monotonic()
            driver.start()
            while driver.poll() is None:
                time.sleep(_LOOK_SECONDS)
            found.seconds = time.monotonic() - begun
            if driver.poll():
                raise RuntimeError(f"the undisturbed evaluation failed: {driver.told()}")
    finally:
        lab.stop()
    found.executed = sum(request.executed for request in lab.requests())
    found.rows = rows_of(folder / "run" / EVAL)
    return found


def rows_of(folder: Path) -> dict[str, list[Any]]:
    """Item → its rows in all tables, without how long things took, and whether its pictures are
    there and whole."""
    results, store = Results(folder), ImageStore(folder / IMAGES)
    found: dict[str, list[Any]] = {}
    for table in _TABLES:
        for row in results.rows(table):
            told = {name: value for name, value in row.items() if name != "seconds"}
            if table == "rounds":
                told["whole"] = bool(row["image"]) and store.sound(row["image"])
            found.setdefault(row["item"], []).append((table, told))
    return found


def _until(
    moment: int | None, place: Path, driver: Driver, cluster: MortalCluster, found: Endured
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
            print(f"the evaluation ended with {status}: {driver.told()}", flush=True)
            if found.begun_anew > _GIVEN_UP:
                raise RuntimeError("the evaluation ends again and again before its end")
            driver.start()
        time.sleep(_LOOK_SECONDS)


def done(folder: Path) -> int:
    """How many items of an evaluation are done, whoever works on it now."""
    file = folder / JOURNAL
    if not file.exists():
        return 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as at:
        (count,) = at.execute("SELECT count(*) FROM planned WHERE step = 0").fetchone()
        return int(count)
    return 0


def _disturb(
    what: str,
    cluster: MortalCluster,
    driver: Driver,
    lab: MortalLab,
    url: str,
    rng: random.Random,
    found: Endured,
) -> None:
    if what == "worker":
        while not cluster.kill_worker(rng):
            time.sleep(_LOOK_SECONDS)
    elif what == "node":
        cluster.kill_node(rng)
    elif what == "database":
        found.connections += cut_off(url)
    elif what == "lab":
        lab.kill()
        time.sleep(rng.uniform(0.0, 1.0))
        lab.start()
    else:
        driver.kill()
        driver.start()


def cut_off(url: str) -> int:
    """End all other connections to the database at ``url``; how many there were."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def _kept(notes: Notes, url: str) -> dict[str, float]:
    """Scope of a step → since when its picture or its answers are kept."""
    import psycopg

    found = {f"{key}:draw": at for of in notes.origins().values() for key, at in of.items()}
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT origin, extract(epoch FROM min(at)) FROM scenewright_answers GROUP BY origin"
        ).fetchall()
    for origin, at in rows:
        found[f"{origin.rpartition('/')[2]}:{JUDGE_ID}"] = float(at)
    return found

"""``scenewright serve --no-work`` and two of ``scenewright worker``, of which one is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks._mock import KEYS, PAINTER, MockServer, ServiceProcess
from benchmarks.chaos import request
from scenewright.mock_providers.settings import MockSettings
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import RunStore
from tests.service.databases import database

_SECONDS = 300.0
"""Guards against a deadlock only: two workers begin at once, on a machine that others use."""


def launched(folder: Path, log: str, *words: str) -> subprocess.Popen[bytes]:
    """``scenewright`` with these words, in a process of its own."""
    environment = {**os.environ, **KEYS, "OMP_NUM_THREADS": "1"}
    with open(folder / log, "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "scenewright", *words],
            cwd=folder, env=environment, stdout=out, stderr=out,
        )  # fmt: skip


@contextmanager
def worker(folder: Path, log: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of two runs at once; ended in the end."""
    process = launched(folder, log, "worker", "--data", "data", "--database", url, "--running", "2")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(_SECONDS)


@pytest.mark.slow
async def test_a_killed_workers_runs_are_taken_over_and_nothing_is_drawn_twice(
    tmp_path: Path,
) -> None:
    async with database("postgresql", tmp_path) as url:
        assert url is not None
        with MockServer(MockSettings(latency=0.4, seed=0)) as lab:
            api = ServiceProcess(tmp_path, lab.url, database=url, running=2, more=["--no-work"])
            engine = create_async_engine(ServiceSettings(database=url).url)
            try:
                await api.start()
                with (
                    worker(tmp_path, "one.log", url) as one,
                    worker(tmp_path, "two.log", url) as two,
                ):
                    workers = {str(process.pid): process for process in (one, two)}
                    async with httpx2.AsyncClient(base_url=api.url, timeout=60) as client:
                        asked = [request(number, rounds=2) for number in range(4)]
                        runs = [
                            (await client.post("/v1/refinements", json=body)).json()["id"]
                            for body in asked
                        ]
                        victim = await _at_work(RunStore(engine), runs)
                        workers[victim].kill()
                        ends = await asyncio.gather(*(_ended(client, run) for run in runs))
                    (left,) = (p for pid, p in workers.items() if pid != victim)
                    left.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(left.wait, _SECONDS) == 0
            finally:
                await engine.dispose()
                await api.stop()
            assert [(end["status"], end["error"]) for end in ends] == [("finished", None)] * 4
            painter = lab.account(PAINTER)
            assert painter["executed"] == sum(end["totals"]["images"] for end in ends)
    said = (tmp_path / ("two.log" if victim == str(one.pid) else "one.log")).read_text()
    assert "finishing the current steps" in said
    assert "stopped; the runs are kept" in said


async def _at_work(store: RunStore, runs: list[str]) -> str:
    """Number of the process that drives the first of ``runs`` that comes to be driven."""
    async with asyncio.timeout(_SECONDS):
        while True:
            for run in runs:
                owner = (await store.get(run)).owner
                if owner is not None:
                    return owner.split("|")[1]
            await asyncio.sleep(0.02)


async def _ended(client: httpx2.AsyncClient, run: str) -> dict[str, object]:
    """The run once its stream of events is over."""
    async with asyncio.timeout(_SECONDS):
        async with client.stream("GET", f"/v1/refinements/{run}/events", timeout=None) as events:
            async for _ in events.aiter_lines():
                pass
        found: dict[str, object] = (await client.get(f"/v1/refinements/{run}")).json()
        return found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--data", "data"), "a worker needs the PostgreSQL that the servers use"),
        (("--database", "postgresql://u:secret@127.0.0.1:1/x"), "Check that it is there"),
    ],
)
def test_a_worker_that_cannot_work_says_what_to_do(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    process = launched(tmp_path, "log", "worker", *options)
    assert process.wait(_SECONDS) in (2, 3)
    text = " ".join((tmp_path / "log").read_text().split())
    assert said in text
    assert "secret" not in text
    assert "Traceback" not in text

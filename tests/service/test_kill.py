"""``scenewright serve`` killed at random moments: every run ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks._mock import PAINTER, MockServer, ServiceProcess
from benchmarks.chaos import Chaos, endured, request
from scenewright.mock_providers.settings import MockSettings
from tests.service.databases import KINDS, database
from tests.service.working import until

NUMBERS = range(4)


def driven(folder: Path, kills: int, database: str | None = None) -> Coroutine[Any, Any, Chaos]:
    """Four runs at once of a server that is killed so often."""
    return endured(
        folder, kills=kills, at_once=4, numbers=NUMBERS, database=database, latency=0.1, seed=1,
        alive=1.0, rounds=2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Chaos:
    """The same runs undisturbed."""
    return asyncio.run(driven(tmp_path_factory.mktemp("calm"), kills=0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_killed_loses_nothing_and_pays_for_nothing_twice(
    kind: str, tmp_path: Path, calm: Chaos
) -> None:
    async with database(kind, tmp_path) as url:
        killed = await driven(tmp_path, kills=3, database=url)
    assert killed.kills == 3
    assert len(calm.ends) == len(NUMBERS)
    assert {end["status"] for end in calm.ends.values()} == {"finished"}
    assert killed.ends == calm.ends
    assert killed.executed == calm.executed
    assert killed.executed[PAINTER] > 0
    assert killed.twice == 0


@pytest.mark.slow
async def test_a_server_that_is_told_to_end_finishes_its_step_and_goes_on_later(
    tmp_path: Path,
) -> None:
    with MockServer(MockSettings(latency=0.4, seed=0)) as lab:
        server = ServiceProcess(tmp_path, lab.url, database=None, running=2)
        try:
            await server.start()
            async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
                run = (await client.post("/v1/refinements", json=request(1, rounds=1))).json()["id"]
                await until(lambda: bool(lab.account(PAINTER).get("arrivals")))
                log = tmp_path / "server.log"
                assert await server.kill(signal.SIGTERM) == 0
                said = log.read_text()
                assert "finishing the current steps" in said
                assert "stopped; the runs are kept" in said
                assert lab.account(PAINTER)["executed"] == 1
                await server.start()
                async with asyncio.timeout(60):
                    async with client.stream("GET", f"/v1/refinements/{run}/events") as events:
                        told = [line async for line in events.aiter_lines()]
                found = (await client.get(f"/v1/refinements/{run}")).json()
        finally:
            await server.stop()
        assert found["status"] == "finished"
        assert '"status": "finished"' in told[-2]
        assert lab.account(PAINTER)["executed"] == found["totals"]["images"]
        assert lab.account(PAINTER).get("replayed", 0) == 0

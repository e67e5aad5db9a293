"""Runs that agents direct over MCP: kills, restarts, other servers, cancelling."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp import Client
from sqlalchemy import update

from scenewright.graphs.events import Replied, Resumed, ToolCalled
from scenewright.runs.folder import EVENTS, RunFolder
from scenewright.service.core import lifespan as opening
from scenewright.service.core.database import RUNS
from scenewright.service.core.errors import Conflict
from scenewright.service.core.identity import LOCAL
from scenewright.service.mcp.agent_sessions import agent_sessions, take
from scenewright.service.mcp.server import mcp_server
from tests.graphs.directing import of
from tests.service.databases import kept
from tests.service.mcping import (
    Gate,
    Kit,
    data,
    events,
    held,
    opened,
    paused,
    refusal,
    status,
    until,
)


async def test_a_run_goes_on_after_the_service_ended(tmp_path: Path) -> None:
    kit = Kit(100, 255)
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
        first = data(await client.call_tool("generate_image", {"run": run}))["told"]
        assert await status(at, run) == "running"
    async with held(tmp_path, kit) as at, at.client() as client:
        told = data(await client.call_tool("get_run", {"run": run}))
        assert (told["status"], told["directed"], told["round"]) == ("paused", True, 0)
        assert "director's tools" in told["next"]
        looked = data(await client.call_tool("look", {"run": run, "image": "r0"}))["told"]
        assert looked["left"]["calls"] == first["left"]["calls"] - 1
        assert data(await client.call_tool("generate_image", {"run": run}))["told"]["image"] == "r1"
        assert data(await client.call_tool("accept", {"run": run}))["result"]["satisfied"]
        assert kit.drawn == 2
        assert len(of(events(at, run), Resumed)) == 1


async def test_a_call_that_a_kill_cut_off_is_found_done(tmp_path: Path) -> None:
    """The picture at which the service was killed is drawn again on the way back, once."""
    kit = Kit(100, 255)
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        await client.call_tool("verify_facts", {"run": run})
    # As a kill right after the reply was stored leaves it.
    log = tmp_path / "runs" / run / EVENTS
    lines = log.read_text().splitlines()
    reply = next(
        at for at, line in enumerate(lines) if json.loads(line)["type"] == "replied" and at > 1
        and "verify_facts" in line
    )  # fmt: skip
    log.write_text("\n".join(lines[: reply + 1]) + "\n")
    async with held(tmp_path, kit) as at, at.client() as client:
        await client.call_tool("look", {"run": run, "image": "r0"})
        assert [e.tool for e in of(events(at, run), ToolCalled)] == [
            "generate_image", "verify_facts", "look",
        ]  # fmt: skip
        assert kit.drawn == 1
    log.write_text("\n".join(lines[: reply + 1]) + "\n")
    async with held(tmp_path, kit) as at, at.client() as client:
        found = data(await client.call_tool("verify_facts", {"run": run}))["told"]
        assert len(found["confirmed"]) == 2
        # The same call: it was not made a second time.
        assert len(of(events(at, run), Replied)) == 2


async def test_a_run_of_a_killed_service_waits_for_its_agent(tmp_path: Path) -> None:
    """Its row still says that it is driven: no worker takes it, and its agent can go on."""
    kit = Kit(100)
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        host, _, _, _ = at.sessions.owner.split("|")
        # A process that is certainly gone.
        gone = f"{host}|{2**22 + 1}|killed|x"
    async with held(tmp_path, kit) as at, at.client() as client:
        async with at.service.engine.begin() as connection:
            await connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run)
                .values(status="running", owner=gone, lease=2**40)
            )
        at.service.worker.wake()
        await until(lambda: paused(at, run))
        assert len(of(events(at, run), ToolCalled)) == 1
        assert data(await client.call_tool("look", {"run": run}))["told"]["image"] == "r0"
        assert kit.drawn == 1


async def test_only_one_service_has_a_run_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.service.mcp.agent_sessions._PATIENCE", 0.3)
    kit = Kit(100)
    async with held(tmp_path, kit) as one, one.client() as client:
        run = await opened(client)
        async with held(tmp_path, kit) as two, two.client() as other:
            assert "another server" in refusal(await other.call_tool("look", {"run": run}))
            assert data(await client.call_tool("generate_image", {"run": run}))["done"]
    # A folder that something else holds is said, and the run waits on.
    async with held(tmp_path, kit) as at, at.client() as client:
        with RunFolder(at.service.folder(run)).locked():
            assert "driven by process" in refusal(await client.call_tool("look", {"run": run}))
        assert data(await client.call_tool("look", {"run": run}))["done"]


async def test_an_idle_run_is_let_go_of_and_opened_again(tmp_path: Path) -> None:
    kit = Kit(100)
    async with held(tmp_path, kit, idle=0.0) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        await at.sessions.beat()
        await until(lambda: paused(at, run))
        assert at.sessions.here(LOCAL, run) is None
        assert data(await client.call_tool("look", {"run": run}))["told"]["image"] == "r0"


async def test_a_run_at_work_is_held_and_cancelled_from_elsewhere(tmp_path: Path) -> None:
    gate = Gate()
    async with held(tmp_path, gate.models(Kit(100)), idle=0.0) as at, at.client() as client:
        run = await opened(client)
        call = asyncio.create_task(client.call_tool("generate_image", {"run": run}))
        await gate.reached.wait()
        before = (await at.service.store.get(run)).lease
        await at.sessions.beat()
        # Not idle: a tool is at work.
        after = await at.service.store.get(run)
        assert after.status == "running"
        assert before is not None
        assert after.lease is not None
        assert after.lease >= before
        # As the page's button does.
        await at.service.cancel(LOCAL, run)
        await at.sessions.beat()
        assert "cancelled" in refusal(await call)
        assert await status(at, run) == "cancelled"
        assert "resume_run" in refusal(await client.call_tool("look", {"run": run}))
        gate.opened.set()
        assert data(await client.call_tool("resume_run", {"run": run}))["status"] == "paused"
        # The call that was cut off is made on the way back.
        found = data(await client.call_tool("generate_image", {"run": run}))
        assert found["told"]["image"] == "r0"


async def test_cancel_run_ends_an_open_run_at_once(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(100)) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        told = data(await client.call_tool("cancel_run", {"run": run}))
        assert (told["status"], told["round"]) == ("cancelled", 0)


async def test_the_worker_never_takes_a_run_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.service.mcp.agent_sessions._PATIENCE", 0.1)
    async with held(tmp_path, Kit(100)) as at, at.client() as client:
        run = await opened(client, idempotency_key="k")
        assert await opened(client, idempotency_key="k") == run
        assert await at.service.store.claim("worker", 30) is None
        assert at.service.worker.active == 0
        with pytest.raises(Conflict, match="another server"):
            await take(at.service.store, run, "local", "me", 1)


async def test_who_gives_up_on_opening_leaves_the_run_to_be_opened(tmp_path: Path) -> None:
    kit = Kit(100)
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
    async with held(tmp_path, kit) as at, at.client() as client:
        for _ in range(3):
            call = asyncio.create_task(client.call_tool("look", {"run": run}))
            await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert data(await client.call_tool("generate_image", {"run": run}))["told"]["image"] == "r0"


async def test_a_row_that_nobody_minds_is_let_go_of(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(100)) as at, at.client() as client:
        run, other = await opened(client), await opened(client, seed=1)
        session = at.sessions.here(LOCAL, other)
        assert session is not None
        session.stop()
        await until(lambda: paused(at, other))
        await take(at.service.store, other, "local", at.sessions.owner, 30)
        await at.sessions.beat()
        assert await status(at, other) == "paused"
        assert await status(at, run) == "running"


@pytest.mark.slow
async def test_a_run_is_directed_with_its_rows_in_postgresql(tmp_path: Path) -> None:
    kit = Kit(100, 255)
    async with kept("postgresql", tmp_path) as settings:
        for _ in range(2):
            async with (
                opening.running(settings, models=kit) as service,
                Client(mcp_server(lambda _, service=service: agent_sessions(service))) as client,
            ):
                if not kit.drawn:
                    run = await opened(client)
                    await client.call_tool("generate_image", {"run": run})
                    continue
                told = data(await client.call_tool("generate_image", {"run": run}))["told"]
                assert told["image"] == "r1"
                over = data(await client.call_tool("accept", {"run": run}))
                assert over["result"]["satisfied"]
                assert kit.drawn == 2

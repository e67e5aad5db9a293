"""An agent directs a run over MCP: the director's tools and their limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import load_settings
from scenewright.graphs.events import Generated, ToolCalled
from scenewright.runs.folder import EVENTS
from scenewright.runs.result import load_run
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.schemas import EditRequest, RefinementRequest
from tests.doubles import ScriptedJudge
from tests.graphs.directing import level, of
from tests.service.mcping import (
    SCENE,
    Gate,
    Kit,
    data,
    events,
    held,
    opened,
    paused,
    refusal,
    status,
    text,
    until,
)


async def test_an_agent_draws_verifies_repairs_and_accepts(tmp_path: Path) -> None:
    kit = Kit(100, 0, 120, 255)
    async with held(tmp_path, kit) as at, at.client() as client:
        told = await client.call_tool("open_scene", {"triplets": SCENE, "rounds": 4})
        assert len(data(told)["facts"]) == 6
        assert data(told)["limits"]["rounds"] == 4
        assert '"places"' in told.content[1].text  # type: ignore[union-attr]
        run = data(told)["run"]
        drawn = await client.call_tool("generate_image", {"run": run, "why": "the first"})
        assert data(drawn)["told"]["image"] == "r0"
        assert [block.type for block in drawn.content] == ["text", "image"]
        found = data(await client.call_tool("verify_facts", {"run": run}))["told"]
        assert (len(found["confirmed"]), len(found["missing"])) == (2, 4)
        looked = await client.call_tool(
            "look", {"run": run, "box": [0, 0, 0.5, 0.5], "question": "Is it red?"}
        )
        assert data(looked)["told"]["judge"] == "scripted:a"
        assert looked.content[1].type == "image"
        assert data(await client.call_tool("refine_with_reference", {"run": run}))["done"]
        box = {"run": run, "box": [0.25, 0.25, 0.75, 0.75], "image": "r1"}
        assert data(await client.call_tool("inpaint", box))["told"]["image"] == "r2"
        over = data(await client.call_tool("accept", {"run": run}))
        assert (over["over"], over["told"]["image"]) == (True, "r2")
        result = over["result"]
        assert (result["status"], result["stop_reason"]) == ("finished", "accepted")
        assert result["satisfied"] is True
        assert result["report_score"] == 1.0
        # It leaves what any director leaves.
        log = events(at, run)
        assert [e.tool for e in of(log, ToolCalled)] == [
            "generate_image", "verify_facts", "look", "refine_with_reference", "inpaint", "accept",
        ]  # fmt: skip
        stored = load_run(at.service.folder(run))
        assert (stored.best_round, len(stored.rounds), stored.totals["images"]) == (2, 3, 4)
        row = await at.service.store.get(run)
        assert (row.status, row.owner, row.summary["images"]) == ("finished", None, 4)  # type: ignore[index]
        # Who asks again hears the same, and nothing else can be done.
        again = data(await client.call_tool("accept", {"run": run}))
        assert again["result"]["best_round"] == 2
        assert "the run is over" in refusal(await client.call_tool("look", {"run": run}))


async def test_progress_is_told_while_a_tool_draws(tmp_path: Path) -> None:
    heard: list[str] = []

    async def progress(at: float, total: float | None, says: str | None) -> None:
        heard.append(str(says))

    gate = Gate(late=True)
    async with held(tmp_path, gate.models(Kit(100))) as at, at.client() as client:
        run = await opened(client)
        call = asyncio.create_task(
            client.call_tool("generate_image", {"run": run}, progress_callback=progress)
        )
        await until(lambda: any("round 0: drawing the picture, step" in line for line in heard))
        assert not call.done()
        gate.opened.set()
        data(await call)


async def test_what_a_tool_cannot_do_is_told_and_counts(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(170, 60, masks=False)) as at, at.client() as client:
        run = await opened(client)
        assert "no picture yet" in refusal(await client.call_tool("look", {"run": run}))
        await client.call_tool("generate_image", {"run": run})
        await client.call_tool("generate_image", {"run": run})
        worse = await client.call_tool("accept", {"run": run, "image": "r1"})
        assert "r1 is worse than r0" in refusal(worse)
        box = {"run": run, "box": [0, 0, 1, 1]}
        assert "cannot keep a part" in refusal(await client.call_tool("inpaint", box))
        # Wrong arguments never reach the run.
        assert "box: " in refusal(await client.call_tool("inpaint", {"run": run}))
        told = data(await client.call_tool("verify_facts", {"run": run, "image": "best"}))["told"]
        assert (told["image"], told["left"]["calls"]) == ("r0", 24 - 6)


async def test_the_limits_end_the_run_with_the_best_picture(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(120, 60)) as at, at.client() as client:
        run = await opened(client, budget={"tool_calls": 2})
        await client.call_tool("generate_image", {"run": run})
        last = data(await client.call_tool("generate_image", {"run": run}))
        assert last["over"]
        assert (last["result"]["stop_reason"], last["result"]["best_round"]) == ("budget", 0)
        assert last["result"]["report_score"] is not None
        run = await opened(client, rounds=1, seed=1)
        await client.call_tool("generate_image", {"run": run})
        beyond = data(await client.call_tool("generate_image", {"run": run}))
        assert "all 1 rounds are drawn" in beyond["told"]["error"]
        assert (beyond["over"], beyond["result"]["stop_reason"]) == (True, "rounds")


async def test_who_gives_up_on_a_tool_finds_its_picture(tmp_path: Path) -> None:
    kit, gate = Kit(120, 60), Gate()
    async with held(tmp_path, gate.models(kit)) as at, at.client() as client:
        run = await opened(client)
        early = await client.call_tool("generate_image", {"run": run, "wait_seconds": 0.05})
        assert not data(early)["done"]
        assert "repeat the same call" in data(early)["next"]
        call = asyncio.create_task(client.call_tool("generate_image", {"run": run}))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        gate.opened.set()
        # Also where it was done before anybody asked again.
        await until(lambda: (at.service.folder(run) / EVENTS).read_text().count("tool_called"))
        found = data(await client.call_tool("generate_image", {"run": run}))
        assert found["told"]["image"] == "r0"
        assert kit.drawn == 1
        following = data(await client.call_tool("generate_image", {"run": run}))
        assert following["told"]["image"] == "r1"


async def test_calls_at_once_are_done_one_after_the_other(tmp_path: Path) -> None:
    kit = Kit(120, 60, 90)
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
        told = await asyncio.gather(
            *(client.call_tool("generate_image", {"run": run}) for _ in range(3))
        )
        assert sorted(data(one)["told"]["image"] for one in told) == ["r0", "r1", "r2"]
        assert kit.drawn == 3


async def test_only_runs_that_agents_direct_take_the_tools(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(100)) as at, at.client() as client:
        run = data(await client.call_tool("refine_scene", {"triplets": SCENE, "rounds": 1}))["run"]
        told = refusal(await client.call_tool("generate_image", {"run": run}))
        assert "open_scene" in told
        mine = await opened(client)
        told = refusal(await client.call_tool("edit_run", {"run": mine, "add": "hat on dog"}))
        assert "director's tools" in told


async def test_an_edit_from_another_door_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(100), idle=0.0) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        await client.call_tool("verify_facts", {"run": run})
        await at.sessions.beat()
        await until(lambda: paused(at, run))
        with pytest.raises(Unprocessable, match="agent directs"):
            await at.service.edit(LOCAL, run, EditRequest(add="hat on dog"))
        # Another server may have let it in before it knew.
        given = {"key": "k", "note": "hello"}
        await at.service.store.requeue(run, "local", given)
        at.service.worker.wake()
        await until(lambda: paused(at, run))
        assert "cannot be edited" in str((await at.service.store.get(run)).error)
        found = data(await client.call_tool("look", {"run": run}))
        assert found["done"]
        assert len(of(events(at, run), Generated)) == 1


async def test_a_model_that_fails_ends_the_call_with_what_is_wrong(tmp_path: Path) -> None:
    kit = Kit(100)
    failing: list[Exception] = [RuntimeError("the disk of the model is gone")]
    kit.backend.failing = lambda request: failing[0] if failing else None
    async with held(tmp_path, kit) as at, at.client() as client:
        run = await opened(client)
        told = refusal(await client.call_tool("generate_image", {"run": run}))
        assert told.startswith("generate_image was not done: an error of the service")
        assert "disk" not in told
        assert await status(at, run) == "failed"
        failing.clear()
        assert data(await client.call_tool("generate_image", {"run": run}))["told"]["image"] == "r0"


async def test_the_page_shows_what_the_agent_did(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(255)) as at, at.client() as client:
        run = await opened(client)
        await client.call_tool("generate_image", {"run": run})
        accepted = await client.call_tool("accept", {"run": run, "why": "all is there"})
        (page,) = (await client.read_resource(data(accepted)["result"]["page"])).contents
        html = page.text  # type: ignore[union-attr]
        assert "generate_image" in html
        assert text(accepted).count("accepted")


@dataclass
class Named(ScriptedJudge):
    """A judge whose name is ``account:model``."""

    @property
    def id(self) -> str:
        return self.name


class Reported(Kit):
    """The models of a kit, with ``report`` as judges of the report; None: those of the profile."""

    def __init__(self, *wanted: int, report: str | None) -> None:
        super().__init__(*wanted)
        self.report = report

    def __call__(self, request: RefinementRequest) -> Mapping[str, Any]:
        report = None if self.report is None else [Named(self.report, level=level)]
        return {**super().__call__(request), "report_judges": report}


async def drawn(client: Any, run: str) -> dict[str, Any]:
    """The run once its first picture is accepted."""
    await client.call_tool("generate_image", {"run": run})
    over = data(await client.call_tool("accept", {"run": run}))
    assert over["over"]
    found: dict[str, Any] = over["result"]
    return found


async def test_an_agent_that_tells_its_model_is_the_loops_side(tmp_path: Path) -> None:
    async with held(tmp_path, Reported(255, report="work:gpt-4o")) as at, at.client() as client:
        same = await client.call_tool(
            "open_scene", {"triplets": SCENE, "model": "gpt-4o-2024-08-06"}
        )
        assert "gpt-4o-2024-08-06 and the report judge work:gpt-4o are the same" in refusal(same)
        run = await opened(client, model="claude-opus-5", seed=1)
        result = await drawn(client, run)
        assert result["reporting"] == {
            "kind": "independent", "models": [], "doubled": [], "unknown": [],
        }  # fmt: skip
        manifest = json.loads((at.service.folder(run) / "manifest.json").read_text())
        assert manifest["config"]["replaced"]["chat"] == "AgentChat:claude-opus-5"


async def test_an_agent_that_reports_its_own_run_is_labelled(tmp_path: Path) -> None:
    async with held(tmp_path, Reported(255, report="work:gpt-4o")) as at, at.client() as client:
        run = await opened(client, model="gpt-4o", self_report=True)
        result = await drawn(client, run)
        assert (result["reporting"]["kind"], result["reporting"]["models"]) == ("self", ["gpt-4o"])
        (page,) = (await client.read_resource(result["page"])).contents
        assert "This is a self-report: gpt-4o steered the loop" in page.text  # type: ignore[union-attr]
        assert (await at.service.store.get(run)).summary["reporting"] == "self"  # type: ignore[index]


async def test_that_nobody_knows_who_directed_is_told(tmp_path: Path) -> None:
    async with held(tmp_path, Kit(255)) as at, at.client() as client:
        told = data(await client.call_tool("open_scene", {"triplets": SCENE}))
        (warning,) = told["warnings"]
        assert "did not tell which model it is" in warning
        result = await drawn(client, told["run"])
        assert result["reporting"]["unknown"] == ["AgentChat:unknown"]
        stored = load_run(at.service.folder(told["run"])).reporting
        assert stored.kind == "independent"
        assert "which model directed it is unknown" in stored.line
        (page,) = (await client.read_resource(result["page"])).contents
        assert "did not tell which model it is" in page.text  # type: ignore[union-attr]


async def test_the_profiles_own_language_model_directs_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profile = {"extends": "miniature", "chat": "openai:gpt-4o", "composer": "grid"}
    base = load_settings(
        profiles={"mine": {**profile, "report_judges": ["work:gpt-4o"]}, "bare": {
            "extends": "miniature", "chat": None}},
        accounts={"work": {"provider": "openai", "base_url": "http://a", "key_variable": ""}},
    )  # fmt: skip
    models = Reported(100, 255, report="work:gpt-4o")
    async with held(tmp_path / "data", models, base=base) as at, at.client() as client:
        for name in ("mine", "bare"):
            run = await opened(client, profile=name)
            await client.call_tool("generate_image", {"run": run})
            await client.call_tool("verify_facts", {"run": run})
            at.sessions.idle = 0.0
            await at.sessions.beat()
            await until(lambda run=run: paused(at, run))
            at.sessions.idle = 600.0
            # Opened again from its folder, it goes on.
            again = data(await client.call_tool("generate_image", {"run": run}))
            assert again["told"]["image"] == "r1", name


async def test_a_run_without_a_director_reports_itself_if_it_is_asked_to(tmp_path: Path) -> None:
    async with held(tmp_path, Reported(255, report=None)) as at, at.client() as client:
        asked = {"triplets": SCENE, "rounds": 1, "self_report": True, "wait_seconds": 30}
        told = data(await client.call_tool("refine_scene", asked))
        assert told["reporting"]["kind"] == "self"
        assert told["reporting"]["models"] == ["scripted:a", "scripted:b"]
        assert told["report_score"] == told["score"]

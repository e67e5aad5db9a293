"""MCP in memory: runs, scores, scenes, resources, identities."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from PIL import Image

from scenewright.core.images import png_bytes
from scenewright.service.core.identity import Identity
from tests.doubles import painted
from tests.service.mcping import SCENE, Calls, Gate, Held, data, held, refusal
from tests.service.serving import scripted

TOOLS = {
    "refine_scene", "get_run", "list_runs", "cancel_run", "resume_run", "edit_run", "score_image",
    "parse_scene", "open_scene", "generate_image", "refine_with_reference", "inpaint",
    "verify_facts", "look", "accept",
}  # fmt: skip


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Held]:
    async with held(tmp_path / "data", scripted()) as found:
        yield found


@pytest.fixture
async def client(at: Held) -> Calls:
    return Calls(at)


async def test_every_tool_says_what_it_does_and_takes(client: Calls) -> None:
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.description
        assert tool.output_schema is not None
        assert tool.input_schema["additionalProperties"] is False
        undescribed = [
            name
            for name, schema in tool.input_schema["properties"].items()
            if not schema.get("description") and "$ref" not in schema
        ]
        assert not undescribed, (tool.name, undescribed)
    desk = next(tool for tool in tools if tool.name == "inpaint")
    assert {"run", "box"} <= set(desk.input_schema["required"])


async def test_a_scene_is_refined_and_its_progress_told(client: Calls) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def progress(at: float, of: float | None, says: str | None) -> None:
        heard.append((at, of, says))

    result = await client.call_tool(
        "refine_scene", {"triplets": SCENE, "rounds": 2}, progress_callback=progress
    )
    told = data(result)
    assert (told["status"], told["done"], told["stop_reason"]) == ("finished", True, "rounds")
    assert told["images"] == 3
    assert [round["round"] for round in told["rounds"]] == [0, 1]
    assert told["report_score"] is not None
    states = {fact["id"]: fact["state"] for fact in told["facts"]}
    assert set(states.values()) <= {"yes", "no", "void"}
    assert len(states) == 6
    assert (told["missing"] is None) == (set(states.values()) == {"yes"})
    numbers = [at for at, _, _ in heard]
    assert numbers == sorted(set(numbers))
    assert max(numbers) <= 2.01
    says = " | ".join(str(line) for _, _, line in heard)
    for word in ("round 0: drawing the picture, step 2 of 2", "round 1: ", "of 6 facts found"):
        assert word in says


async def test_a_reply_shows_a_small_picture_and_links_to_the_whole_one(client: Calls) -> None:
    result = await client.call_tool("refine_scene", {"text": "A red ball lies on a table."})
    told = data(result)
    (shown,) = (block for block in result.content if block.type == "image")
    with Image.open(io.BytesIO(base64.b64decode(shown.data))) as small:
        assert small.format == "JPEG"
        assert max(small.size) <= 256
    image, page = (block for block in result.content if block.type == "resource_link")
    assert (image.uri, page.uri) == (told["image"], told["page"])
    (whole,) = (await client.read_resource(image.uri)).contents
    png = base64.b64decode(whole.blob)  # type: ignore[union-attr]
    assert hashlib.sha256(png).hexdigest() == image.uri.rpartition("/")[2]
    assert whole.mime_type == "image/png"
    (html,) = (await client.read_resource(page.uri)).contents
    assert html.text.startswith("<!doctype html>")  # type: ignore[union-attr]
    assert "ball" in html.text  # type: ignore[union-attr]
    (run,) = (await client.list_resources()).resources
    (view,) = (await client.read_resource(run.uri)).contents
    assert f'"id":"{told["run"]}"' in view.text  # type: ignore[union-attr]
    assert len((await client.list_resource_templates()).resource_templates) == 3


async def test_a_long_run_is_told_of_early_and_goes_on(tmp_path: Path) -> None:
    gate = Gate(after=1)
    async with held(tmp_path, gate.models(scripted())) as at, at.client() as client:
        early = data(await client.call_tool("refine_scene", {"triplets": SCENE, "wait_seconds": 0}))
        assert not early["done"]
        assert early["status"] in ("queued", "running")
        assert "get_run" in early["next"]
        await gate.reached.wait()
        at_work = data(await client.call_tool("get_run", {"run": early["run"]}))
        assert (at_work["status"], at_work["round"]) == ("running", 0)
        assert any(fact["state"] for fact in at_work["facts"])
        gate.opened.set()
        late = data(await client.call_tool("get_run", {"run": early["run"], "wait_seconds": 30}))
        assert late["status"] == "finished"
        first = data(await client.call_tool("get_run", {"run": early["run"], "round": 0}))
        assert first["round"] == 0
        assert first["image"] == late["rounds"][0]["image"]
        told = refusal(await client.call_tool("get_run", {"run": early["run"], "round": 9}))
        assert "there are 0, 1" in told


async def test_who_gives_up_waiting_cancels_nothing(tmp_path: Path) -> None:
    gate = Gate()
    async with held(tmp_path, gate.models(scripted())) as at, at.client() as client:
        call = asyncio.create_task(client.call_tool("refine_scene", {"triplets": SCENE}))
        await gate.reached.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        gate.opened.set()
        (run,) = data(await client.call_tool("list_runs", {}))["runs"]
        told = data(await client.call_tool("get_run", {"run": run["run"], "wait_seconds": 30}))
        assert told["status"] == "finished"


async def test_the_same_key_is_the_same_run(client: Calls) -> None:
    asked = {"triplets": SCENE, "idempotency_key": "one"}
    first = data(await client.call_tool("refine_scene", asked))
    second = data(await client.call_tool("refine_scene", asked))
    assert first["run"] == second["run"]
    told = refusal(await client.call_tool("refine_scene", {**asked, "rounds": 7}))
    assert "use a new key" in told


async def test_a_finished_run_is_corrected_and_goes_on(client: Calls) -> None:
    first = data(await client.call_tool("refine_scene", {"triplets": SCENE, "rounds": 1}))
    fact = first["facts"][0]["id"]
    edited = data(
        await client.call_tool(
            "edit_run", {"run": first["run"], "verdicts": {fact: "no"}, "rounds": 1, "note": "look"}
        )
    )
    assert edited["status"] == "finished"
    assert len(edited["rounds"]) > len(first["rounds"])
    added = data(
        await client.call_tool("edit_run", {"run": first["run"], "add": "hat on dog", "rounds": 1})
    )
    assert any("hat" in fact["says"] for fact in added["facts"])
    keyed = {"run": first["run"], "add": "cup on dog", "rounds": 1, "idempotency_key": "k"}
    assert data(await client.call_tool("edit_run", keyed))["status"] == "finished"
    other = await client.call_tool("edit_run", keyed | {"add": "cup on ball"})
    assert "'k' was used for another edit" in refusal(other)
    wrong = await client.call_tool("edit_run", {"run": first["run"], "verdicts": {"o:cat.1": "no"}})
    assert "'o:cat.1' is not a fact of this scene" in refusal(wrong)


async def test_a_run_is_cancelled_and_resumed(tmp_path: Path) -> None:
    gate = Gate()
    async with held(tmp_path, gate.models(scripted())) as at, at.client() as client:
        run = data(await client.call_tool("refine_scene", {"triplets": SCENE, "wait_seconds": 0}))
        await gate.reached.wait()
        await client.call_tool("cancel_run", {"run": run["run"]})
        told = data(await client.call_tool("get_run", {"run": run["run"], "wait_seconds": 30}))
        assert told["status"] == "cancelled"
        assert "resume_run" in told["next"]
        gate.opened.set()
        told = data(await client.call_tool("resume_run", {"run": run["run"]}))
        assert told["status"] == "finished"
        again = await client.call_tool("cancel_run", {"run": run["run"]})
        assert "nothing to cancel" in refusal(again)


async def test_runs_are_listed_newest_first(client: Calls) -> None:
    for name in ("cat", "dog", "tree"):
        await client.call_tool("refine_scene", {"triplets": name, "rounds": 1})
    page = data(await client.call_tool("list_runs", {"limit": 2}))
    assert [run["title"] for run in page["runs"]] == ["tree", "dog"]
    rest = data(await client.call_tool("list_runs", {"limit": 2, "before": page["next"]}))
    assert [run["title"] for run in rest["runs"]] == ["cat"]
    assert rest["next"] is None
    some = data(await client.call_tool("list_runs", {"words": "do", "status": ["finished"]}))
    assert [run["title"] for run in some["runs"]] == ["dog"]


def picture(red: int) -> str:
    return base64.b64encode(png_bytes(painted((16, 16), (red, 0, 0)))).decode()


async def test_a_picture_is_scored(client: Calls) -> None:
    given: dict[str, Any] = {"triplets": SCENE}
    good = data(await client.call_tool("score_image", {**given, "image": picture(255)}))
    assert (good["score"], good["satisfied"]) == (1.0, True)
    assert good["missing"] is None
    assert {fact["state"] for fact in good["facts"]} == {"yes"}
    url = f"data:image/png;base64,{picture(0)}"
    bad = data(await client.call_tool("score_image", {**given, "image": url}))
    assert (bad["score"], bad["satisfied"]) == (0.0, False)
    assert len(bad["missing_graph"]["objects"]) == 3
    assert bad["missing"].count("ball") == 1
    run = data(await client.call_tool("refine_scene", {**given, "rounds": 1}))
    mine = data(await client.call_tool("score_image", {**given, "image": run["image"]}))
    judges = {"scripted:a", "scripted:b", "scripted:c"}
    assert set(mine["answers"]) == judges
    facts = {fact["id"] for fact in mine["facts"]}
    assert all(set(said) <= facts for said in mine["answers"].values())


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ("http://169.254.169.254/latest", "none is fetched"),
        ("file:///etc/passwd", "none is fetched"),
        ("/etc/passwd", "not valid base64"),
        ("not base64!", "not valid base64"),
        (base64.b64encode(b"GIF89a nothing").decode(), "the image"),
        ("scenewright://runs/../../etc", "none is fetched"),
        (f"scenewright://runs/run_{'0' * 32}/images/{'0' * 64}", "there is no run"),
    ],
)
async def test_what_is_no_picture_is_refused(client: Calls, image: str, says: str) -> None:
    told = refusal(await client.call_tool("score_image", {"triplets": SCENE, "image": image}))
    assert says in told
    assert "Traceback" not in told


async def test_a_scene_is_read(client: Calls) -> None:
    told = data(await client.call_tool("parse_scene", {"text": "A red ball lies on a table."}))
    assert {item["name"] for item in told["scene"]["objects"]} == {"ball", "table"}
    assert told["level"] == "simple"
    # Some clients send objects as text.
    graph = '{"objects": [{"id": "cat.1", "name": "cat"}]}'
    assert data(await client.call_tool("parse_scene", {"scene": graph}))["triplets"] == "cat"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("refine_scene", {}, "give the scene once"),
        ("refine_scene", {"triplets": "cat", "text": "A cat."}, "give the scene once"),
        ("refine_scene", {"triplets": "cat", "rounds": 0}, "rounds: must be at least 1"),
        ("refine_scene", {"triplets": "cat", "profil": "x"}, "profil: unknown key"),
        ("refine_scene", {"triplets": "cat", "profile": "nobody"}, "nobody"),
        ("refine_scene", {"triplets": "cat", "strategy": "agent"}, "agent"),
        ("get_run", {"run": "run_1"}, "there is no run 'run_1'"),
        ("generate_image", {"run": "../../x"}, "there is no run"),
    ],
)
async def test_what_is_wrong_is_told_with_the_remedy(
    client: Calls, tool: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in refusal(await client.call_tool(tool, arguments))


async def test_a_fault_of_the_service_is_told_without_its_inside(
    at: Held, client: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any, **named: Any) -> Any:
        raise ZeroDivisionError("secret place")

    monkeypatch.setattr(at.service.store, "list", broken)
    told = refusal(await client.call_tool("list_runs", {}))
    assert "secret" not in told
    assert "log" in told


async def test_an_unknown_tool_and_an_unknown_resource_are_protocol_errors(client: Calls) -> None:
    with pytest.raises(MCPError, match="no tool 'draw' here"):
        await client.call_tool("draw", {})
    for uri in ("scenewright://runs/x", "file:///etc/passwd", f"scenewright://runs/run_{'0' * 32}"):
        with pytest.raises(MCPError, match="there is no"):
            await client.read_resource(uri)


async def test_another_tenant_sees_nothing_of_it(at: Held, client: Calls) -> None:
    run = data(await client.call_tool("refine_scene", {"triplets": SCENE, "rounds": 1}))
    mine = data(await client.call_tool("open_scene", {"triplets": SCENE}))
    async with at.client(Identity("other")) as other:
        assert data(await other.call_tool("list_runs", {}))["runs"] == []
        assert (await other.list_resources()).resources == []
        for uri in (run["image"], run["page"]):
            with pytest.raises(MCPError, match="there is no run"):
                await other.read_resource(uri)
        image = await other.call_tool("score_image", {"triplets": SCENE, "image": run["image"]})
        assert "there is no run" in refusal(image)
        for tool in ("get_run", "cancel_run", "resume_run", "edit_run", "generate_image", "accept"):
            for name in (run["run"], mine["run"]):
                assert "there is no run" in refusal(await other.call_tool(tool, {"run": name}))


async def test_a_scope_is_demanded_for_every_tool(at: Held) -> None:
    async with at.client(Identity("local", "key_1", ("read",))) as reader:
        assert data(await reader.call_tool("list_runs", {}))["runs"] == []
        for tool, arguments in (
            ("refine_scene", {"triplets": SCENE}),
            ("open_scene", {"triplets": SCENE}),
            ("accept", {"run": "run_1"}),
            ("score_image", {"triplets": SCENE, "image": "x"}),
            ("parse_scene", {"triplets": SCENE}),
        ):
            assert "no scope" in refusal(await reader.call_tool(tool, arguments))
    async with at.client(Identity("local", "key_2", ("refine",))) as refiner:
        with pytest.raises(MCPError, match="no scope 'read'"):
            await refiner.list_resources()


async def test_the_prompt_teaches_how_to_direct(client: Calls) -> None:
    (prompt,) = (await client.list_prompts()).prompts
    found = await client.get_prompt(prompt.name, {"scene": SCENE})
    (message,) = found.messages
    assert SCENE in message.content.text
    assert "open_scene" in message.content.text
    with pytest.raises(MCPError, match="argument scene"):
        await client.get_prompt(prompt.name, {})

"""MCP over streamable HTTP: the official client against a real server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.mcping import SCENE, Gate, data, refusal, until
from tests.service.serving import Models, scripted, serving


@asynccontextmanager
async def at(folder: Path, models: Models, **more: Any) -> AsyncIterator[tuple[str, FastAPI]]:
    app = create_app(ServiceSettings(data=folder, drain_seconds=10, **more), models=models)
    async with serving(app) as url:
        yield f"{url}/mcp", app


@asynccontextmanager
async def keyed(url: str, key: str) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {key}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
        transport = streamable_http_client(url, http_client=http)
        yield await stack.enter_async_context(Client(transport))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_scene_is_refined_and_directed(tmp_path: Path, mode: str) -> None:
    heard: list[float] = []
    said: list[str] = []

    async def progress(now: float, total: float | None, says: str | None) -> None:
        heard.append(now)
        said.append(str(says))

    gate = Gate(after=3, late=True)
    async with at(tmp_path, gate.models(scripted())) as (url, _), Client(url, mode=mode) as client:
        asked = {"triplets": SCENE, "rounds": 2}
        told = data(await client.call_tool("refine_scene", asked, progress_callback=progress))
        assert told["status"] == "finished"
        assert heard == sorted(set(heard))
        assert any("facts found" in line for line in said)
        (png,) = (await client.read_resource(told["image"])).contents
        assert png.mime_type == "image/png"
        run = data(await client.call_tool("open_scene", {"triplets": SCENE}))["run"]
        said.clear()
        call = asyncio.create_task(
            client.call_tool("generate_image", {"run": run}, progress_callback=progress)
        )
        await until(lambda: any("round 0: drawing the picture, step" in line for line in said))
        gate.opened.set()
        data(await call)
        over = data(await client.call_tool("accept", {"run": run}))
        assert over["result"]["stop_reason"] == "accepted"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_gives_up_cancels_nothing(tmp_path: Path, mode: str) -> None:
    gate = Gate()
    async with at(tmp_path, gate.models(scripted())) as (url, app):
        async with Client(url, mode=mode) as client:
            for tool in ("refine_scene", "open_scene"):
                call = asyncio.create_task(client.call_tool(tool, {"triplets": SCENE}))
                if tool == "open_scene":
                    run = data(await call)["run"]
                    gate.reached.clear()
                    call = asyncio.create_task(client.call_tool("generate_image", {"run": run}))
                await gate.reached.wait()
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        gate.opened.set()
        async with Client(url, mode=mode) as client:
            runs = data(await client.call_tool("list_runs", {}))["runs"]
            mine, refined = (one["run"] for one in runs)
            assert mine == run
            told = data(await client.call_tool("get_run", {"run": refined, "wait_seconds": 30}))
            assert told["status"] == "finished"
            found = data(await client.call_tool("generate_image", {"run": run}))
            assert found["told"]["image"] == "r0"
        folder = app.state.service.folder(run)
        assert (folder / "events.jsonl").read_text().count('"tool_called"') == 1


async def test_a_client_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    async with at(tmp_path, scripted()) as (url, _), Client(url) as client:
        run = data(await client.call_tool("open_scene", {"triplets": SCENE}))["run"]
        await client.call_tool("generate_image", {"run": run})
    async with at(tmp_path, scripted()) as (url, _), Client(url) as client:
        told = data(await client.call_tool("verify_facts", {"run": run}))
        assert told["told"]["image"] == "r0"


async def test_a_page_of_another_name_is_refused(tmp_path: Path) -> None:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with at(tmp_path, scripted()) as (url, _), httpx2.AsyncClient(timeout=60) as http:
        good = await http.post(url, json=body, headers=headers)
        assert good.status_code == 200
        for name in ("Host", "Origin"):
            value = "evil.example" if name == "Host" else "http://evil.example"
            refused = await http.post(url, json=body, headers={**headers, name: value})
            assert refused.status_code in (403, 421), refused.text
        large = {**body, "params": {"x": "x" * (31 * 2**20)}}
        assert (await http.post(url, json=large, headers=headers)).status_code == 413


@pytest.mark.parametrize("kind", [None, "text/plain", "application/jsonp"])
async def test_another_content_type_is_refused_as_an_error_of_mcp(
    tmp_path: Path, kind: str | None
) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    more = {} if kind is None else {"Content-Type": kind}
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    async with at(tmp_path, scripted()) as (url, _), httpx2.AsyncClient(timeout=60) as http:
        refused = await http.post(url, content=body, headers={**headers, **more})
        assert refused.status_code == 415
        told = refused.json()
        assert (told["id"], told["error"]["code"]) == (None, -32600)
        assert "application/json" in told["error"]["message"]
        named = {"Content-Type": "application/json; charset=utf-8"}
        good = await http.post(url, content=body, headers={**headers, **named})
        assert good.status_code == 200


async def test_keys_are_demanded_and_tenants_kept_apart(tmp_path: Path) -> None:
    async with at(tmp_path, scripted(), keys=True) as (url, app):
        keys = app.state.service.keys
        _, studio = await keys.create("studio")
        _, other = await keys.create("other")
        _, reader = await keys.create("studio", scopes=("read",))
        async with httpx2.AsyncClient(timeout=60) as http:
            assert (await http.post(url, json={})).status_code == 401
        async with keyed(url, studio) as client:
            run = data(await client.call_tool("refine_scene", {"triplets": SCENE, "rounds": 1}))
            session = data(await client.call_tool("open_scene", {"triplets": SCENE}))["run"]
        async with keyed(url, other) as client:
            assert data(await client.call_tool("list_runs", {}))["runs"] == []
            for tool, name in (("get_run", run["run"]), ("generate_image", session)):
                assert "there is no run" in refusal(await client.call_tool(tool, {"run": name}))
        async with keyed(url, reader) as client:
            assert len(data(await client.call_tool("list_runs", {}))["runs"]) == 2
            told = refusal(await client.call_tool("generate_image", {"run": session}))
            assert "no scope 'refine'" in told


async def test_a_refused_request_tells_the_client_why(tmp_path: Path) -> None:
    async with at(tmp_path, scripted(), keys=True) as (url, app):
        _, slow = await app.state.service.keys.create("studio", requests_per_minute=0)
        for key, words in (("wrong", "the API key is wrong"), (slow, "0 requests a minute")):
            assert words in await failure(url, key)
        async with httpx2.AsyncClient(timeout=60) as http:
            reply = await http.post(url, json={})
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert reply.json()["error"]["message"].startswith("an API key is needed")


@pytest.mark.parametrize("version", [None, "2025-06-18"])
async def test_a_body_that_is_no_message_is_refused_in_our_own_words(
    tmp_path: Path, version: str | None
) -> None:
    headers = {"Content-Type": "application/json"} | (
        {"MCP-Protocol-Version": version} if version else {}
    )
    request: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    async with at(tmp_path, scripted()) as (url, _), httpx2.AsyncClient(timeout=60) as http:
        for body, code, words in (
            (b"{", -32700, "the body is not valid JSON"),
            (b"[" * 20_000, -32700, "the body is not valid JSON"),
            (b"[]", -32600, "the body is not a JSON-RPC message"),
            (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600, "the body is not a JSON-RPC"),
        ):
            reply = await http.post(url, content=body, headers=headers)
            assert reply.status_code == 400
            said = reply.json()
            assert (said["jsonrpc"], said["id"], said["error"]["code"]) == ("2.0", None, code)
            assert said["error"]["message"].startswith(words)
            assert reply.headers["content-length"] == str(len(reply.content))
        for params, words in (
            ({}, "name: is required"),
            ({"name": 5}, "name: must be text"),
            ({"name": "get_run", "arguments": []}, "arguments: must be an object"),
        ):
            reply = await http.post(url, json={**request, "params": params}, headers=headers)
            assert "the params of 'tools/call' are wrong: params." in reply.text
            assert words in reply.text
            assert "pydantic" not in reply.text


async def test_an_error_that_nobody_foresaw_keeps_its_text_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any, **named: Any) -> Any:
        raise KeyError("SELECT secret FROM runs")

    async with at(tmp_path, scripted()) as (url, app), Client(url, mode="legacy") as client:
        monkeypatch.setattr(app.state.service.store, "list", broken)
        told = refusal(await client.call_tool("list_runs", {}))
        with pytest.raises(MCPError) as caught:
            await client.list_resources()
    for said in (told, str(caught.value)):
        assert "secret" not in said
        assert "log" in said


async def failure(url: str, key: str) -> str:
    """What a client with ``key`` is told when it lists the tools."""
    told = ""
    try:
        async with keyed(url, key) as client:
            try:
                await client.list_tools()
            except MCPError as error:
                told = str(error)
    except* MCPError as group:
        told = told or str(group.exceptions)
    return told

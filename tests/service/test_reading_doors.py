"""Every door of the service has sentences read by the profile's language model, and counts it."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from PIL import Image

from scenewright.agents.parsers.language import LanguageParser
from scenewright.core.scene import SceneGraph
from scenewright.providers.retry import CallError, PermanentError
from scenewright.runs import reading
from scenewright.service.app import create_app
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.settings import ServiceSettings
from tests.agents.paying import CENT, PayingChat
from tests.runs.test_reading import GERMAN, MARK, READ, SENTENCE, TRANSLATED, is_marked
from tests.service.mcping import Calls, data, held
from tests.service.serving import scripted, serving


@pytest.fixture(autouse=True)
def chat(monkeypatch: pytest.MonkeyPatch) -> PayingChat:
    """Language model of every profile."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    made = PayingChat(replies=[READ])
    monkeypatch.setattr(reading, "parser_of", lambda *_: LanguageParser(made))
    return made


@pytest.fixture
def app(settings: ServiceSettings) -> FastAPI:
    return create_app(settings, models=scripted())


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as found:
        yield found


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (250, 0, 0)).save(file, "PNG")
    return file.getvalue()


async def finished(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Return the only run, once it is over."""
    async with asyncio.timeout(30):
        while True:
            [run] = (await client.get("/v1/refinements")).json()["items"]
            if run["status"] in ("finished", "failed"):
                return dict((await client.get(f"/v1/refinements/{run['id']}")).json())
            await asyncio.sleep(0.02)


async def ask(client: httpx2.AsyncClient, door: str, text: str, reader: str | None) -> None:
    """Ask for a run of ``text`` through a door."""
    own = {"rounds": 1, **({"reader": reader} if reader else {})}
    if door == "api":
        made = await client.post("/v1/refinements", json={"text": text, "profile": "openai", **own})
    elif door == "page":
        form = {"text": text, "profile": "openai", "rounds": "1"}
        made = await client.post("/runs", data=form)
    elif door == "openai":
        body = {"prompt": text, "model": "openai", "scenewright": own}
        made = await client.post("/v1/images/generations", json=body)
    else:
        body = {"prompt": text, "scenewright": {"profile": "openai", **own}}
        made = await client.post("/sdapi/v1/txt2img", json=body)
    assert made.status_code < 400, made.text


@pytest.mark.parametrize("door", ["api", "page", "openai", "a1111"])
async def test_a_run_of_every_door_is_read_by_the_language_model_and_pays_for_it(
    door: str, client: httpx2.AsyncClient, chat: PayingChat
) -> None:
    await ask(client, door, SENTENCE, None)
    run = await finished(client)
    assert is_marked(SceneGraph.model_validate(run["scene"]))
    assert run["title"] == SENTENCE
    assert run["totals"]["usd"] == run["summary"]["usd"] == pytest.approx(CENT)
    assert len(chat.sent) == 1


@pytest.mark.parametrize("door", ["api", "openai", "a1111"])
async def test_a_reader_may_be_named_at_every_door(
    door: str, client: httpx2.AsyncClient, chat: PayingChat
) -> None:
    await ask(client, door, SENTENCE, "rules")
    run = await finished(client)
    assert not is_marked(SceneGraph.model_validate(run["scene"]))
    assert (chat.sent, run["totals"]["usd"]) == ([], 0.0)


async def test_the_tools_of_mcp_read_by_it(tmp_path: Path, chat: PayingChat) -> None:
    async with held(tmp_path / "data", scripted()) as at:
        client = Calls(at)
        scene = {"text": SENTENCE, "profile": "openai"}
        made = data(await client.call_tool("refine_scene", {**scene, "rounds": 1}))
        found = await at.service.view(await at.service.run(LOCAL, made["run"]))
        assert is_marked(found.scene)
        assert found.totals["usd"] == pytest.approx(CENT)
        opened = data(await client.call_tool("open_scene", {**scene, "seed": 2}))
        assert any(MARK in str(fact) for fact in opened["facts"])
        read = data(await client.call_tool("parse_scene", scene))
        assert MARK in read["triplets"]
        given = {"image": base64.b64encode(picture()).decode()}
        scored = data(await client.call_tool("score_image", {**scene, **given}))
        assert scored["usd"] == pytest.approx(CENT)
        assert len(chat.sent) == 4
        read = data(await client.call_tool("parse_scene", {**scene, "reader": "rules"}))
        assert MARK not in read["triplets"]
        assert len(chat.sent) == 4


async def test_calls_outside_of_runs_are_charged_to_the_key(
    tmp_path: Path, chat: PayingChat
) -> None:
    app = create_app(ServiceSettings(data=tmp_path / "data", keys=True), models=scripted())
    async with serving(app) as url:
        keys = app.state.service.keys
        made, key = await keys.create("studio")
        async with httpx2.AsyncClient(
            base_url=url, timeout=60, headers={"X-API-Key": key}
        ) as client:
            asked = {"text": SENTENCE, "profile": "openai"}
            found = (await client.post("/v1/parse", json=asked)).json()
            assert is_marked(SceneGraph.model_validate(found["scene"]))
            sent: dict[str, Any] = {"data": asked, "files": {"image": picture()}}
            scored = (await client.post("/v1/scores", **sent)).json()
            assert is_marked(SceneGraph.model_validate(scored["scene"]))
            assert scored["usd"] == pytest.approx(CENT)
            assert (await keys.spent())[made.id][0] == pytest.approx(2 * CENT)
            # Without a profile nothing is paid, nor by a page that reads what is being written.
            for more in ({}, {"drawn_by": "openai"}):
                told = (await client.post("/v1/parse", json={"text": SENTENCE, **more})).json()
                assert not is_marked(SceneGraph.model_validate(told["scene"]))
            assert told["awaits"].startswith("openai:")
            assert len(chat.sent) == 2
            # A run's reading is the run's, which is the key's.
            await ask(client, "api", SENTENCE, None)
            await finished(client)
            assert (await keys.spent())[made.id][0] == pytest.approx(3 * CENT)


async def test_a_sentence_in_another_language_is_drawn_and_told(
    client: httpx2.AsyncClient, chat: PayingChat
) -> None:
    chat.replies = [TRANSLATED[GERMAN]]
    page = (await client.post("/v1/parse", json={"text": GERMAN, "drawn_by": "openai"})).json()
    assert page.get("drawable"), page
    assert page["scene"]["objects"] == []
    refused = await client.post("/v1/parse", json={"text": GERMAN})
    assert refused.status_code == 422
    assert "--with llm" in refused.json()["detail"]
    assert (await client.get("/", params={"text": GERMAN, "profile": "openai"})).status_code == 200
    await ask(client, "api", GERMAN, None)
    run = await finished(client)
    assert run["title"] == GERMAN
    assert [item["name"] for item in run["scene"]["objects"]] == ["dog", "rug"]
    assert run["scene"]["intent"]["english"] == TRANSLATED[GERMAN]["english"]


async def test_the_rules_read_where_the_model_fails_and_the_run_says_so(
    client: httpx2.AsyncClient, chat: PayingChat
) -> None:
    chat.replies = [CallError(PermanentError("no network"), 1)]
    await ask(client, "api", SENTENCE, None)
    run = await finished(client)
    assert run["status"] == "finished"
    assert any("the rules did" in told for told in run["warnings"])
    asked = {"text": SENTENCE, "profile": "openai"}
    told = (await client.post("/v1/parse", json=asked)).json()["warnings"]
    assert any("the rules did" in one for one in told)
    explicit = await client.post("/v1/parse", json={**asked, "reader": "llm"})
    assert explicit.status_code == 503


async def test_a_request_sent_twice_is_one_run_that_reads_once(
    client: httpx2.AsyncClient, chat: PayingChat
) -> None:
    asked = {"text": SENTENCE, "profile": "openai", "rounds": 1, "idempotency_key": "once"}
    first, second = [(await client.post("/v1/refinements", json=asked)).json() for _ in range(2)]
    assert first["id"] == second["id"]
    await finished(client)
    third = (await client.post("/v1/refinements", json=asked)).json()
    assert third["id"] == first["id"]
    assert len(chat.sent) == 1

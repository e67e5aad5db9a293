"""Texts that a scene cannot hold: refused or told with their place on every door of the service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from scenewright.miniature.world import JUDGE_VOCABULARY
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.mcping import Calls, data, held, refusal
from tests.service.serving import scripted, serving

DENIED = "a red dog and a tree with no cat"
GERMAN = "ein roter Hund auf dem Tisch"
PARTLY = "a red dog glancing furtively. Ein Hund mit dem Ball."
HTML = {"Accept": "text/html,application/xhtml+xml"}
PASSAGES = [
    {"start": 19, "end": 28, "text": "furtively", "reason": "not understood"},
    {"start": 30, "end": 51, "text": "Ein Hund mit dem Ball", "reason": "not English"},
]


@pytest.fixture
async def http(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    app = create_app(settings, models=scripted(words=JUDGE_VOCABULARY))
    async with (
        serving(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


def tells_the_places(text: str) -> None:
    for passage in PASSAGES:
        assert str(passage["text"]) in text
        assert f"characters {passage['start']} to {passage['end']}" in text


def refuses(text: str, passage: str, start: int) -> None:
    assert passage in text
    assert f"characters {start} to {start + len(passage)}" in text


async def test_a_text_is_parsed_with_its_unread_passages(http: httpx2.AsyncClient) -> None:
    found: dict[str, Any] = (await http.post("/v1/parse", json={"text": PARTLY})).json()
    assert found["unread"] == PASSAGES
    assert [PARTLY[p["start"] : p["end"]] for p in found["unread"]] == [
        p["text"] for p in found["unread"]
    ]
    tells_the_places(found["warnings"][0])
    for text, passage, start in ((DENIED, "no cat", 26), (GERMAN, GERMAN, 0)):
        refused = await http.post("/v1/parse", json={"text": text})
        assert refused.status_code == 422
        refuses(refused.json()["detail"], passage, start)


async def test_a_run_keeps_what_was_not_read_of_its_text(http: httpx2.AsyncClient) -> None:
    refused = await http.post("/v1/refinements", json={"text": DENIED})
    assert refused.status_code == 422
    refuses(refused.json()["detail"], "no cat", 26)
    assert "negative prompt" in refused.json()["detail"]
    begun = await http.post("/v1/refinements", json={"text": PARTLY, "rounds": 1})
    assert begun.status_code == 202
    tells_the_places(begun.json()["warnings"][0])
    run = begun.json()["id"]
    async with http.stream("GET", f"/v1/refinements/{run}/events") as reply:
        async for _ in reply.aiter_lines():
            pass
    told = (await http.get(f"/v1/refinements/{run}")).json()
    tells_the_places(told["warnings"][0])
    assert told["request"]["unread"] == PASSAGES
    plain = await http.post("/v1/refinements", json={"text": "a red dog", "rounds": 1})
    assert "unread" not in plain.json()["request"]


async def test_the_start_page_tells_it(http: httpx2.AsyncClient) -> None:
    tells_the_places((await http.get("/", params={"text": PARTLY}, headers=HTML)).text)
    refused = await http.post("/runs", data={"text": DENIED}, headers=HTML)
    assert refused.status_code == 422
    shown = (await http.get("/", params={"text": DENIED}, headers=HTML)).text
    for page in (refused.text, shown):
        assert "“no cat” says what is not there" in page
        # The page has no negative prompt, and people do not count characters.
        assert "negative prompt" not in page
        assert "characters" not in page
    german = (await http.post("/runs", data={"text": GERMAN}, headers=HTML)).text
    assert "is not English: write the sentence in English." in german


async def test_the_openai_routes_tell_it(http: httpx2.AsyncClient) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{http.base_url}/v1", api_key="none", max_retries=0
    ) as client:
        reply = await client.images.generate(prompt=PARTLY)
        assert reply.model_extra is not None
        (run,) = reply.model_extra["scenewright"]["runs"]
        tells_the_places(run["warnings"][0])
        with pytest.raises(openai.APIStatusError, match="no cat") as raised:
            await client.images.generate(prompt=DENIED)
        assert raised.value.status_code == 400


async def test_the_automatic1111_routes_tell_it(http: httpx2.AsyncClient) -> None:
    reply = await http.post("/sdapi/v1/txt2img", json={"prompt": PARTLY})
    tells_the_places(json.loads(reply.json()["info"])["scenewright"][0]["warnings"][0])
    refused = await http.post("/sdapi/v1/txt2img", json={"prompt": DENIED})
    assert refused.status_code == 422
    refuses(refused.text, "no cat", 26)


async def test_the_tools_of_mcp_tell_it(tmp_path: Path) -> None:
    async with held(tmp_path / "data", scripted(words=JUDGE_VOCABULARY)) as at:
        client = Calls(at)
        parsed = data(await client.call_tool("parse_scene", {"text": PARTLY}))
        assert parsed["unread"] == PASSAGES
        told = data(await client.call_tool("refine_scene", {"text": PARTLY, "rounds": 1}))
        tells_the_places(told["warnings"][0])
        opened = data(await client.call_tool("open_scene", {"text": PARTLY}))
        tells_the_places(opened["warnings"][0])
        for tool in ("parse_scene", "refine_scene", "open_scene"):
            refuses(refusal(await client.call_tool(tool, {"text": DENIED})), "no cat", 26)

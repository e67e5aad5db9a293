"""Scenes with words that the models do not know: told or refused on every door of the service."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from PIL import Image

from scenewright.miniature.world import COLORS, JUDGE_VOCABULARY, KINDS
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.mcping import Calls, data, held, refusal
from tests.service.serving import scripted, serving

PINK = "pink dog left of table"
UNICORN = "unicorn riding horse"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
async def http(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    app = create_app(settings, models=scripted(words=JUDGE_VOCABULARY))
    async with (
        serving(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


def names_the_words(text: str) -> None:
    for word in (*KINDS, *COLORS, "know"):
        assert word in text


async def finished(http: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    async with http.stream("GET", f"/v1/refinements/{run}/events") as reply:
        async for _ in reply.aiter_lines():
            pass
    found: dict[str, Any] = (await http.get(f"/v1/refinements/{run}")).json()
    return found


async def test_the_api_warns_with_the_run_and_refuses_what_is_wholly_unknown(
    http: httpx2.AsyncClient,
) -> None:
    refused = await http.post("/v1/refinements", json={"triplets": UNICORN})
    assert refused.status_code == 422
    names_the_words(refused.json()["detail"])
    begun = await http.post("/v1/refinements", json={"triplets": PINK, "rounds": 1})
    assert begun.status_code == 202
    (warning,) = begun.json()["warnings"]
    assert "1 of 4 facts is outside what the profile miniature knows" in warning
    names_the_words(warning)
    told = await finished(http, begun.json()["id"])
    assert told["warnings"] == [warning]
    states = {v["fact_id"]: v["state"] for v in told["rounds"][-1]["loop_card"]["verdicts"]}
    assert states["a:dog.1:color"] == "unscored"
    assert (await http.get("/v1/refinements")).json()["items"][0]["id"] == told["id"]
    page = (await http.get(f"/runs/{told['id']}", headers=HTML)).text
    assert "1 of 4 facts is outside" in page
    assert "All 4 facts hold" not in page


async def test_a_score_warns(http: httpx2.AsyncClient) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (16, 16), (255, 0, 0)).save(picture, "PNG")
    reply = await http.post(
        "/v1/scores", files={"image": picture.getvalue()}, data={"triplets": UNICORN}
    )
    assert reply.status_code == 200
    assert reply.json()["sgscore"] is None
    names_the_words(reply.json()["warnings"][0])


async def test_the_start_page_and_its_reader_warn(http: httpx2.AsyncClient) -> None:
    page = (await http.get("/", params={"text": "a pink dog"}, headers=HTML)).text
    assert "1 of 2 facts is outside what the profile miniature knows" in page
    plain = (await http.get("/", params={"text": "a red dog"}, headers=HTML)).text
    assert "is outside what" not in plain
    form = await http.post("/runs", data={"text": "A unicorn rides a horse."}, headers=HTML)
    assert form.status_code == 422
    names_the_words(form.text)
    asked = {"triplets": PINK, "drawn_by": "miniature"}
    (warning,) = (await http.post("/v1/parse", json=asked)).json()["warnings"]
    assert "the color 'pink'" in warning
    without = await http.post("/v1/parse", json={"triplets": PINK})
    assert without.json()["warnings"] == []


async def test_the_openai_routes_tell_it(http: httpx2.AsyncClient) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{http.base_url}/v1", api_key="none", max_retries=0
    ) as client:
        reply = await client.images.generate(prompt="A pink dog is left of a table.")
        assert reply.model_extra is not None
        (run,) = reply.model_extra["scenewright"]["runs"]
        assert "the color 'pink'" in run["warnings"][0]
        assert {f["statement"]: f["verdict"] for f in run["facts"]}["dog is pink"] == "unscored"
        with pytest.raises(openai.APIStatusError, match="unicorn") as raised:
            await client.images.generate(prompt="A unicorn rides a horse.")
        assert raised.value.status_code == 400
        names_the_words(str(raised.value))


async def test_the_automatic1111_routes_tell_it(http: httpx2.AsyncClient) -> None:
    reply = await http.post("/sdapi/v1/txt2img", json={"prompt": "A pink dog is left of a table."})
    info = json.loads(reply.json()["info"])
    assert "the color 'pink'" in info["scenewright"][0]["warnings"][0]
    assert "Not judged: dog is pink" in info["infotexts"][0]
    refused = await http.post("/sdapi/v1/txt2img", json={"prompt": "A unicorn rides a horse."})
    assert refused.status_code == 422
    names_the_words(refused.text)


async def test_the_tools_of_mcp_tell_it(tmp_path: Path) -> None:
    async with held(tmp_path / "data", scripted(words=JUDGE_VOCABULARY)) as at:
        client = Calls(at)
        told = data(await client.call_tool("refine_scene", {"triplets": PINK, "rounds": 1}))
        names_the_words(told["warnings"][0])
        pink = next(fact for fact in told["facts"] if fact["says"] == "dog is pink")
        assert pink["state"] == "unscored"
        assert "outside its vocabulary" in pink["reason"]
        assert told["satisfied"] is False
        names_the_words(refusal(await client.call_tool("refine_scene", {"triplets": UNICORN})))
        opened = data(await client.call_tool("open_scene", {"triplets": PINK}))
        names_the_words(opened["warnings"][0])
        names_the_words(refusal(await client.call_tool("open_scene", {"triplets": UNICORN})))


async def test_a_kind_of_a_known_class_is_drawn_as_it_and_told(http: httpx2.AsyncClient) -> None:
    said = "An astronaut is left of a table."
    told = "'astronaut' (characters 3 to 12: drawn and checked as a person)"
    asked = {"text": said, "drawn_by": "miniature"}
    read = (await http.post("/v1/parse", json=asked)).json()
    assert [item["name"] for item in read["scene"]["objects"]] == ["person", "table"]
    assert (read["drawable"], len(read["warnings"])) == (True, 1)
    assert told in read["warnings"][0]
    assert "drawn and checked as a person" in (await http.get("/", params={"text": said})).text
    begun = (await http.post("/v1/refinements", json={"text": said, "rounds": 1})).json()
    assert told in begun["warnings"][0]
    assert told in (await finished(http, begun["id"]))["warnings"][0]

"""What of a text is not read, must not be there or is doubtful, on every door of the service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.intent import Choice, Doubt
from scenewright.core.scene import SceneGraph
from scenewright.miniature.world import JUDGE_VOCABULARY
from scenewright.service.app import create_app
from scenewright.service.core import requests
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.service.mcping import Calls, data, held, refusal
from tests.service.serving import scripted, serving

WITHOUT = "a red dog and a tree, no cats"
DOUBTFUL = "a red dog and a tree in two places"
CLEAR = "two red dogs and two trees"
GERMAN = "ein roter Hund auf dem Tisch"
PARTLY = "a red dog glancing furtively. Ein Hund mit dem Ball."
HTML = {"Accept": "text/html,application/xhtml+xml"}
PASSAGES = [
    {"start": 19, "end": 28, "text": "furtively", "reason": "not understood"},
    {"start": 30, "end": 51, "text": "Ein Hund mit dem Ball", "reason": "not English"},
]


DOUBT = Doubt(
    kind="count",
    start=21,
    end=34,
    text="in two places",
    question="one tree, or one in each place?",
    choices=(
        Choice(label="one tree", sentence="a red dog and one tree"),
        Choice(label="one in each place", sentence=CLEAR),
    ),
)
TOLD = "not sure: 'in two places': one tree, or one in each place? (read as: one tree)"


@pytest.fixture
def doubting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the reader doubt one sentence."""

    def read(text: str) -> SceneGraph:
        scene = parse_caption(text)
        if text != DOUBTFUL:
            return scene
        return scene.said_as(scene.intent.model_copy(update={"doubts": (DOUBT,)}))

    monkeypatch.setattr(requests, "parse_caption", read)


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


async def ended(http: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    async with http.stream("GET", f"/v1/refinements/{run}/events") as reply:
        async for _ in reply.aiter_lines():
            pass
    found: dict[str, Any] = (await http.get(f"/v1/refinements/{run}")).json()
    return found


async def test_a_text_is_parsed_with_its_unread_passages(http: httpx2.AsyncClient) -> None:
    found: dict[str, Any] = (await http.post("/v1/parse", json={"text": PARTLY})).json()
    assert found["unread"] == PASSAGES
    assert [PARTLY[p["start"] : p["end"]] for p in found["unread"]] == [
        p["text"] for p in found["unread"]
    ]
    tells_the_places(found["warnings"][0])
    refused = await http.post("/v1/parse", json={"text": GERMAN})
    assert refused.status_code == 422
    refuses(refused.json()["detail"], GERMAN, 0)


async def test_what_must_not_be_there_is_no_reason_to_refuse(http: httpx2.AsyncClient) -> None:
    found = (await http.post("/v1/parse", json={"text": WITHOUT, "drawn_by": "miniature"})).json()
    assert found["unread"] == []
    assert found["drawable"] is True
    assert [one["name"] for one in found["scene"]["intent"]["exclusions"]] == ["cat"]
    assert found["facts"][-1]["expected"] == "no"
    unknown = {"text": "a unicorn", "drawn_by": "miniature"}
    assert (await http.post("/v1/parse", json=unknown)).json()["drawable"] is False


async def test_a_run_keeps_what_was_not_read_of_its_text(http: httpx2.AsyncClient) -> None:
    begun = await http.post("/v1/refinements", json={"text": PARTLY, "rounds": 1})
    assert begun.status_code == 202
    tells_the_places(begun.json()["warnings"][0])
    told = await ended(http, begun.json()["id"])
    tells_the_places(told["warnings"][0])
    # Said once: the request has the scene, and the scene its sentence.
    assert not {"sentence", "unread"} & set(told["request"])
    intent = told["request"]["scene"]["intent"]
    assert (intent["sentence"], intent["unread"]) == (PARTLY, PASSAGES)
    plain = await http.post("/v1/refinements", json={"text": "a red dog", "rounds": 1})
    assert plain.json()["warnings"] == []


async def test_a_request_that_was_stored_before_still_opens(http: httpx2.AsyncClient) -> None:
    scene = parse_caption("a red dog").graph
    before = {
        "scene": scene.model_dump(mode="json"),
        "sentence": PARTLY,
        "unread": PASSAGES,
        "profile": "miniature",
    }
    request = RefinementRequest.model_validate(before)
    assert requests.sentence_of(request) == PARTLY
    assert requests.title_of(request) == PARTLY
    tells_the_places(requests.stored_intent(before).warnings[0])
    tells_the_places(requests.reading_warnings(before, scene)[0])
    # Drawn again, it is a request of today.
    begun = await http.post("/v1/refinements", json={**before, "rounds": 1})
    assert begun.status_code == 202
    assert begun.json()["title"] == PARTLY
    assert begun.json()["request"]["scene"]["intent"]["sentence"] == PARTLY


@pytest.mark.usefixtures("doubting")
async def test_a_doubt_comes_with_sentences_to_send_back(http: httpx2.AsyncClient) -> None:
    found = (await http.post("/v1/parse", json={"text": DOUBTFUL})).json()
    assert found["doubts"] == [DOUBT.model_dump(mode="json")]
    assert TOLD in found["warnings"]
    begun = (await http.post("/v1/refinements", json={"text": DOUBTFUL, "rounds": 1})).json()
    assert begun["doubts"] == found["doubts"]
    assert TOLD in begun["warnings"]
    told = await ended(http, begun["id"])
    assert told["doubts"] == found["doubts"]
    assert TOLD in told["warnings"]
    page = (await http.get(f"/runs/{begun['id']}", headers=HTML)).text
    assert "Not sure: &#39;in two places&#39;" in page
    # The graph of an edit is what the person means.
    edit = {"add": "hat on dog", "rounds": 1}
    await http.post(f"/v1/refinements/{begun['id']}/edits", json=edit)
    edited = await ended(http, begun["id"])
    assert edited["doubts"] == []
    assert TOLD not in edited["warnings"]
    chosen = {"text": found["doubts"][0]["choices"][1]["sentence"]}
    clear = (await http.post("/v1/parse", json=chosen)).json()
    assert clear["doubts"] == []
    assert len(clear["scene"]["objects"]) == 4


@pytest.mark.usefixtures("doubting")
async def test_the_start_page_offers_what_a_sentence_may_mean(http: httpx2.AsyncClient) -> None:
    page = (await http.get("/", params={"text": DOUBTFUL}, headers=HTML)).text
    assert "“in two places”: one tree, or one in each place?" in page
    link = '<a class="example" href="/?text=two%20red%20dogs%20and%20two%20trees">'
    assert f"{link}one in each place</a>" in page
    clear = (await http.get("/", params={"text": CLEAR}, headers=HTML)).text
    assert 'aria-label="What is meant" hidden' in clear


async def test_the_start_page_tells_it(http: httpx2.AsyncClient) -> None:
    tells_the_places((await http.get("/", params={"text": PARTLY}, headers=HTML)).text)
    form = {"text": WITHOUT, "rounds": "1"}
    assert (await http.post("/runs", data=form, headers=HTML)).status_code == 303
    german = (await http.post("/runs", data={"text": GERMAN}, headers=HTML)).text
    assert "is not English: write the sentence in English." in german
    # The page underlines it, and people do not count characters.
    assert "characters" not in german


async def test_the_openai_routes_tell_it(http: httpx2.AsyncClient, doubting: None) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{http.base_url}/v1", api_key="none", max_retries=0
    ) as client:
        reply = await client.images.generate(prompt=PARTLY)
        assert reply.model_extra is not None
        (run,) = reply.model_extra["scenewright"]["runs"]
        tells_the_places(run["warnings"][0])
        doubtful = await client.images.generate(prompt=DOUBTFUL)
        assert doubtful.model_extra is not None
        assert TOLD in doubtful.model_extra["scenewright"]["runs"][0]["warnings"]
        joined = await client.images.generate(
            prompt=WITHOUT, extra_body={"scenewright": {"negative_prompt": "blurry"}}
        )
        assert joined.model_extra is not None
        (run,) = joined.model_extra["scenewright"]["runs"]
        assert await avoided(http, run["id"]) == "blurry, cat"
        with pytest.raises(openai.APIStatusError, match="not in English") as raised:
            await client.images.generate(prompt=GERMAN)
        assert raised.value.status_code == 400


async def avoided(http: httpx2.AsyncClient, run: str) -> str:
    """Return the negative prompt of the first picture of a run."""
    async with http.stream("GET", f"/v1/refinements/{run}/events") as reply:
        lines = [line async for line in reply.aiter_lines()]
    events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
    drawn = next(event for event in events if event.get("type") == "generated")
    return str(drawn["request"]["negative_prompt"])


async def test_the_automatic1111_routes_tell_it(http: httpx2.AsyncClient, doubting: None) -> None:
    reply = await http.post("/sdapi/v1/txt2img", json={"prompt": PARTLY})
    tells_the_places(json.loads(reply.json()["info"])["scenewright"][0]["warnings"][0])
    doubtful = await http.post("/sdapi/v1/txt2img", json={"prompt": DOUBTFUL})
    assert TOLD in json.loads(doubtful.json()["info"])["scenewright"][0]["warnings"]
    asked = {"prompt": WITHOUT, "negative_prompt": "blurry"}
    joined = json.loads((await http.post("/sdapi/v1/txt2img", json=asked)).json()["info"])
    assert await avoided(http, joined["scenewright"][0]["run"]) == "blurry, cat"
    refused = await http.post("/sdapi/v1/txt2img", json={"prompt": GERMAN})
    assert refused.status_code == 422
    refuses(refused.text, GERMAN, 0)


@pytest.mark.usefixtures("doubting")
async def test_the_tools_of_mcp_tell_it(tmp_path: Path) -> None:
    async with held(tmp_path / "data", scripted(words=JUDGE_VOCABULARY)) as at:
        client = Calls(at)
        parsed = data(await client.call_tool("parse_scene", {"text": PARTLY}))
        assert parsed["unread"] == PASSAGES
        told = data(await client.call_tool("refine_scene", {"text": PARTLY, "rounds": 1}))
        tells_the_places(told["warnings"][0])
        opened = data(await client.call_tool("open_scene", {"text": PARTLY}))
        tells_the_places(opened["warnings"][0])
        doubts = [DOUBT.model_dump(mode="json")]
        for tool in ("parse_scene", "refine_scene", "open_scene"):
            found = data(await client.call_tool(tool, {"text": DOUBTFUL}))
            assert found["doubts"] == doubts
            assert TOLD in found["warnings"]
            refuses(refusal(await client.call_tool(tool, {"text": GERMAN})), GERMAN, 0)

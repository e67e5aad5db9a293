"""Requests name judges of other models than the loop's, or say that the loop reports itself; on
every door such a result is labelled."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from PIL import Image

from scenewright.config.settings import Settings, load_settings
from scenewright.runs.api import refine
from scenewright.service.api.common import Extension
from scenewright.service.app import create_app
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.requests import profile_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.worker import summary_of
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.service.serving import scripted, serving


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings() -> Settings:
    account = {"provider": "openai", "base_url": "http://127.0.0.1:9", "key_variable": ""}
    profiles = {
        "mine": {
            "extends": "openai",
            "judges": ["openai:gpt-4.1"],
            "report_judges": ["openai:gpt-5.4", "openai:gpt-4o"],
        },
        "theirs": {
            "extends": "openai",
            "judges": ["work:gpt-4o"],
            "report_judges": ["openai:gpt-5.4"],
            "chat": "work:gpt-5.4",
        },
    }
    return load_settings(accounts={"work": account}, profiles=profiles)


def asked(**changes: object) -> RefinementRequest:
    return RefinementRequest.model_validate({"text": "A ball.", "profile": "mine", **changes})


def test_judges_of_a_request_leave_the_report_without_their_models() -> None:
    found = profile_of(asked(judges=["work:gpt-4o"]), settings())
    assert found.report_judges == ("openai:gpt-5.4",)


def test_a_request_cannot_have_one_model_on_both_sides() -> None:
    both = asked(judges=["work:gpt-4o"], report_judges=["openai:gpt-4o"])
    with pytest.raises(Unprocessable, match="work:gpt-4o and openai:gpt-4o are the same model"):
        profile_of(both, settings())
    directed = asked(profile="theirs", strategy="director")
    with pytest.raises(Unprocessable, match=r"director's chat work:gpt-5\.4"):
        profile_of(directed, settings())


def test_a_request_says_that_the_loop_reports_itself() -> None:
    found = profile_of(asked(self_report=True), settings())
    assert (found.self_report, found.report_judges) == (True, ())
    same = asked(judges=["work:gpt-4o"], report_judges=["openai:gpt-4o"], self_report=True)
    assert profile_of(same, settings()).report_judges == ("openai:gpt-4o",)
    assert Extension(self_report=True).model_dump()["self_report"]
    # Stored requests of before say nothing of it, and are as they were.
    assert "self_report" not in asked().model_dump(mode="json")


async def test_a_summary_labels_a_self_report(tmp_path: Path) -> None:
    result = await refine(
        "red ball",
        out=tmp_path / "run",
        backend=ScriptedBackend(lambda request: 120),
        composer=ScriptedComposer(),
        judges=[ScriptedJudge("a")],
        self_report=True,
        rounds=1,
    )
    assert summary_of(result).reporting == "self"
    assert summary_of(result).report_score == summary_of(result).loop_score


def own(request: RefinementRequest) -> dict[str, Any]:
    """Models for a request whose loop reports itself: nobody else's judges."""
    found = dict(scripted()(request))
    return {name: model for name, model in found.items() if name != "report_judges"}


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(create_app(ServiceSettings(data=tmp_path), models=own)) as address:
        yield address


async def test_a1111s_route_labels_a_self_report(url: str) -> None:
    body = {"prompt": "a red ball", "scenewright": {"rounds": 1, "self_report": True}}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        reply = (await http.post("/sdapi/v1/txt2img", json=body)).raise_for_status().json()
    info = json.loads(reply["info"])
    label = 'SGScore by: "self-report, by models of the loop"'
    assert label in info["infotexts"][0]
    picture = Image.open(io.BytesIO(base64.b64decode(reply["images"][0])))
    assert label in picture.info["parameters"]
    (told,) = info["scenewright"]
    assert told["sgscore"]["reporting"]["kind"] == "self"
    assert told["sgscore"]["report"] == told["sgscore"]["loop"]


async def test_openais_route_labels_a_self_report(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        reply = await client.images.generate(
            prompt="A red ball.", extra_body={"scenewright": {"rounds": 1, "self_report": True}}
        )
    (run,) = (reply.model_extra or {})["scenewright"]["runs"]
    assert run["sgscore"]["reporting"]["kind"] == "self"
    assert run["sgscore"]["reporting"]["models"] == ["scripted:a", "scripted:b"]


async def test_the_api_its_page_and_the_gallery_label_a_self_report(url: str) -> None:
    body = {"text": "A red ball.", "rounds": 1, "self_report": True}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        run = (await http.post("/v1/refinements", json=body)).raise_for_status().json()["id"]
        async with asyncio.timeout(60):
            told = {"status": ""}
            while told["status"] != "finished":
                told = (await http.get(f"/v1/refinements/{run}")).json()
        page = (await http.get(f"/runs/{run}")).text
        gallery = (await http.get("/runs")).text
    assert told["reporting"]["kind"] == "self"
    assert "This is a self-report" in page
    assert "self-report" in gallery


async def test_only_an_agent_names_itself_as_the_director(url: str) -> None:
    body = {"text": "A red ball.", "director": "gpt-4o"}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        refused = await http.post("/v1/refinements", json=body)
    assert refused.status_code == 422
    assert "open_scene" in refused.json()["detail"]


def test_a_model_that_directs_over_mcp_is_none_of_the_report() -> None:
    directed = asked(director="gpt-4o-2024-11-20")
    with pytest.raises(Unprocessable, match=r"director's chat mcp:gpt-4o-2024-11-20 and .*gpt-4o"):
        profile_of(directed, settings())
    # The profile's own language model does not direct such a run.
    assert (
        profile_of(asked(profile="theirs", director="unknown"), settings()).strategy == "director"
    )
    allowed = asked(director="gpt-4o", self_report=True, report_judges=["openai:gpt-4o"])
    assert profile_of(allowed, settings()).self_report

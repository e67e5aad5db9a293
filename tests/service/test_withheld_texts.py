"""What libraries say in their errors reaches the log of the service and no client."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright import refine
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import JudgeError
from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge, painted
from tests.graphs.test_realism import real
from tests.service.mcping import Calls, data, held
from tests.service.serving import serving
from tests.service.test_refinements import SCENE, begin, heard

PATH = "/srv/secret-models/judge"
LIBRARY = f"CUDA kernel image is missing in {PATH}/vision.py"


def broken(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
    raise RuntimeError(LIBRARY)


def wrapped(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
    try:
        raise OSError(LIBRARY)
    except OSError as error:
        raise JudgeError(f"the weights cannot be read ({error}): copy them again") from error


def given() -> dict[str, Any]:
    """Models of which one judge a group fails."""
    return {
        "backend": ScriptedBackend(lambda asked: 255),
        "judges": [ScriptedJudge("a"), ScriptedJudge("b", behave=broken)],
        "report_judges": [ScriptedJudge("c", behave=wrapped)],
        "composer": ScriptedComposer(),
    }


def models(request: RefinementRequest) -> dict[str, Any]:
    if not request.realism:
        return given()
    failing = real()
    failing.behave = broken
    return given() | {"realism_judges": [failing], "realism_report_judges": [real("last")]}


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(create_app(settings, models=models)) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as made,
    ):
        yield made


def picture() -> bytes:
    file = io.BytesIO()
    painted((16, 16), (255, 100, 0)).save(file, "PNG")
    return file.getvalue()


def withheld(text: str) -> bool:
    """Whether nothing of the library's text is in ``text``."""
    return not any(part in text for part in ("CUDA", "kernel", "secret", "vision.py"))


async def test_a_failed_judge_is_told_without_its_librarys_text(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    run = (await begin(client, rounds=2, realism=True))["id"]
    events = await heard(client, run)
    answered = [data for kind, _, data in events if kind == "answered"]
    reasons = {a["reason"] for one in answered for a in one["answers"] if a["reason"]}
    assert reasons == {
        "RuntimeError: the service's log says more",
        "the weights cannot be read: copy them again",
    }
    assert {one["judge_id"] for one in answered if one["answers"][0]["reason"]} >= {
        "scripted:b", "scripted:c", "scripted:real",
    }  # fmt: skip
    cards = [data["card"] for kind, _, data in events if kind == "judged"]
    told = [v["reason"] for card in cards for v in card["verdicts"] if "judges" in v["reason"]]
    assert told
    assert all("log says more" in one or "copy them again" in one for one in told)
    assert withheld(json.dumps([one for _, _, one in events]))
    for place in ("", "/events", "/result"):
        assert withheld((await client.get(f"/v1/refinements/{run}{place}")).text), place
    for place in ("", "/main", "/page.html"):
        shown = await client.get(f"/runs/{run}{place}")
        assert shown.status_code == 200, place
        assert withheld(shown.text), place
    assert "log says more" in (await client.get(f"/runs/{run}")).text
    logged = [one.getMessage() for one in caplog.records if LIBRARY in one.getMessage()]
    assert sorted(logged) == [
        f"a model or library failed: RuntimeError: {LIBRARY}",
        f"a model or library failed: the weights cannot be read ({LIBRARY}): copy them again",
    ]


async def test_a_score_and_an_agent_are_told_without_it(
    client: httpx2.AsyncClient, settings: ServiceSettings, tmp_path: Path
) -> None:
    reply = await client.post(
        "/v1/scores",
        files={"image": ("x.png", picture(), "image/png")},
        data={**SCENE, "realism": "true"},
    )
    assert reply.status_code == 200, reply.text
    assert "RuntimeError: the service's log says more" in reply.text
    assert withheld(reply.text)
    silent = given() | {"judges": [ScriptedJudge("b", behave=broken)]}
    async with held(tmp_path / "agent", lambda request: silent) as at:
        agent = Calls(at)
        shown = base64.b64encode(picture()).decode()
        scored = await agent.call_tool("score_image", {**SCENE, "image": shown})
        assert not scored.is_error
        assert "log says more" in scored.model_dump_json()
        assert withheld(scored.model_dump_json())
        opened = data(await agent.call_tool("open_scene", SCENE))
        run = opened["run"]
        await agent.call_tool("generate_image", {"run": run})
        verified = await agent.call_tool("verify_facts", {"run": run, "image": "r0"})
        assert withheld(verified.model_dump_json())
        asked = {"run": run, "image": "r0", "question": "Is there a dog?"}
        looked = await agent.call_tool("look", asked)
        assert "log says more" in looked.model_dump_json()
        assert withheld(looked.model_dump_json())


async def test_a_failed_backend_is_told_without_it(
    settings: ServiceSettings, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(request: RefinementRequest) -> dict[str, Any]:
        def quality(asked: Any) -> int:
            raise RuntimeError(LIBRARY)

        return given() | {"backend": ScriptedBackend(quality)}

    async with (
        serving(create_app(settings, models=failing)) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as client,
    ):
        run = (await begin(client))["id"]
        events = await heard(client, run)
        assert events[-1][2]["status"] == "failed"
        assert "(RuntimeError)" in events[-1][2]["error"]
        assert withheld(json.dumps([one for _, _, one in events]))
        assert withheld((await client.get(f"/runs/{run}")).text)
    assert LIBRARY in "".join(str(one.exc_info) for one in caplog.records)


async def test_python_is_told_the_whole_text(tmp_path: Path) -> None:
    result = await refine(
        load_scene(SCENE["triplets"]), out=tmp_path / "run", rounds=1, page=True, **given()
    )
    reasons = {
        answer.reason
        for round in result.rounds
        for one in round.answers
        for answer in one.answers
        if answer.reason
    }
    assert f"RuntimeError: {LIBRARY}" in reasons
    assert any("the weights cannot be read" in one and LIBRARY in one for one in reasons)

"""Realism over HTTP: asked for by one field, told in rounds, and absent where nobody asks."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from scenewright.config.settings import load_settings
from scenewright.service.app import create_app
from scenewright.service.core.requests import run_arguments
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge, painted
from tests.graphs.test_realism import by_round, real
from tests.service.serving import serving
from tests.service.test_refinements import SCENE, begin, ended


def models(request: RefinementRequest) -> dict[str, Any]:
    """A picture that holds everything, and looks real once an object is drawn anew."""
    found: dict[str, Any] = {
        "backend": ScriptedBackend(lambda asked: 255, masks=True, realism=by_round(60, 130)),
        "judges": [ScriptedJudge("a")],
        "report_judges": [ScriptedJudge("c")],
        "composer": ScriptedComposer(),
    }
    if request.realism:
        found |= {"realism_judges": [real()], "realism_report_judges": [real("last")]}
    return found


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(create_app(settings, models=models)) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as made,
    ):
        yield made


async def test_a_run_judges_realism_if_the_request_says_so(client: httpx2.AsyncClient) -> None:
    plain = await ended(client, (await begin(client, rounds=3))["id"])
    assert len(plain["rounds"]) == 1
    assert plain["rounds"][0]["loop_card"]["realism"]["yes"] == 0
    done = await ended(client, (await begin(client, rounds=3, realism=True))["id"])
    assert done["status"] == "finished", done["error"]
    (first,) = done["rounds"]
    assert first["loop_card"]["realism"]["no"] == 4
    assert first["report_card"]["realism"]["no"] == 4


async def test_a_picture_is_scored_with_realism(client: httpx2.AsyncClient) -> None:
    file = io.BytesIO()
    painted((16, 16), (255, 100, 0)).save(file, "PNG")
    for realism, count in (("true", 12), ("false", 6)):
        reply = await client.post(
            "/v1/scores",
            files={"image": ("x.png", file.getvalue(), "image/png")},
            data={**SCENE, "realism": realism},
        )
        assert reply.status_code == 200, reply.text
        assert len(reply.json()["facts"]) == count


def test_a_request_without_realism_is_stored_as_it_always_was() -> None:
    request = RefinementRequest.model_validate(SCENE)
    assert "realism" not in request.model_dump(mode="json")
    asked = RefinementRequest.model_validate({**SCENE, "realism": True})
    stored = RefinementRequest.model_validate(asked.model_dump(mode="json"))
    assert stored.realism
    from scenewright.core.formats import load_scene

    whole = stored.model_copy(update={"scene": load_scene(SCENE["triplets"])})
    assert run_arguments(whole, load_settings())["options"].realism is True

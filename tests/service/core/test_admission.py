"""What would fail later is refused at submit, with the remedy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.config.settings import Settings
from scenewright.core.ports import MAX_PROMPT
from scenewright.core.scene import MAX_OBJECTS, SceneGraph
from scenewright.service.app import create_app
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.requests import check_models, check_prompt, check_run, named_profile
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving

COLORS = ("red", "blue", "green", "yellow", "black", "white", "purple", "orange")


def large(attributes: int = 8) -> dict[str, Any]:
    """The most objects that a scene may have, each with so many attributes."""
    values = {f"k{at}": COLORS[at] for at in range(attributes)}
    return {
        "objects": [
            {"id": f"o{at}", "name": "ball", "attributes": values} for at in range(MAX_OBJECTS)
        ]
    }


def models(request: Any) -> dict[str, Any]:
    """Scripted models; the profile's own composer writes the prompt."""
    given = dict(scripted()(request))
    del given["composer"]
    return given


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as made,
    ):
        yield made


async def test_a_scene_that_no_prompt_holds_is_refused_at_every_door(
    client: httpx2.AsyncClient,
) -> None:
    scene = large()
    for path, body in (
        ("/v1/refinements", {"scene": scene}),
        ("/v1/images/generations", {"prompt": "x", "scenewright": {"scene": scene}}),
        ("/sdapi/v1/txt2img", {"prompt": "x", "scenewright": {"scene": scene}}),
    ):
        reply = await client.post(path, json=body)
        assert reply.status_code in (400, 422), (path, reply.text[:300])
        assert f"the limit is {MAX_PROMPT}: leave some objects or attributes out" in reply.text
    assert (await client.get("/v1/refinements")).json()["items"] == []


async def test_an_edit_to_such_a_scene_is_refused_too(client: httpx2.AsyncClient) -> None:
    asked = {"triplets": "red ball on table", "rounds": 1}
    run = (await client.post("/v1/refinements", json=asked)).json()
    await client.get(run["links"]["events"])
    reply = await client.post(run["links"]["edit"], json={"scene": large()})
    assert reply.status_code == 422, reply.text
    assert str(MAX_PROMPT) in reply.json()["detail"]
    assert (await client.get(run["links"]["self"])).json()["status"] == "finished"


def test_a_model_that_reads_little_gets_a_prompt_of_its_size() -> None:
    scene = SceneGraph.model_validate(large())
    profile = named_profile("miniature", Settings()).model_copy(update={"composer": "sentences"})
    # Equal things are counted in one phrase.
    check_prompt(scene, 0, profile, Settings(), {})
    alone = scene.model_copy(
        update={
            "objects": tuple(
                item.model_copy(update={"name": f"ball {at}"})
                for at, item in enumerate(scene.objects)
            )
        }
    )
    backend = scripted()(RefinementRequest(scene=scene))["backend"]
    with pytest.raises(Unprocessable, match=f"the limit is {MAX_PROMPT}"):
        check_prompt(alone, 0, profile, Settings(), {"backend": backend})


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            "openai",
            "cannot run here: it needs a key for openai: set it with `scenewright keys set",
        ),
        ("gemini", "a key for gemini"),
        ("sdxl", "models pull sdxl"),
    ],
)
def test_a_profile_whose_models_are_not_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str, said: str
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    settings = Settings()
    found = named_profile(profile, settings)
    with pytest.raises(Unavailable, match=said) as caught:
        check_models(found, settings, {})
    assert str(tmp_path) not in str(caught.value)
    asked = RefinementRequest.model_validate({"text": "A ball.", "profile": profile})
    asked = asked.model_copy(
        update={"scene": SceneGraph.model_validate({"objects": [{"id": "a", "name": "ball"}]})}
    )
    given = scripted()(asked)
    # Models that replace the profile's own need neither keys nor files; workers have their own.
    check_run(asked, settings, given)
    check_run(asked, settings, {}, here=False)


async def test_a_size_that_the_backend_does_not_draw_is_refused(settings: ServiceSettings) -> None:
    def fixed(request: Any) -> dict[str, Any]:
        given = dict(scripted()(request))
        backend = given["backend"]
        features = replace(backend.features, sizes=((64, 64), (64, 128)))
        kind = type("Fixed", (type(backend),), {"features": features})
        given["backend"] = kind(backend.quality)
        return given

    async with (
        serving(create_app(settings, models=fixed)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        asked = {"triplets": "red ball on table", "rounds": 1}
        wrong = await client.post("/v1/refinements", json={**asked, "width": 128, "height": 64})
        assert wrong.status_code == 422
        assert "does not draw 128×64 pixels: use one of 64×64, 64×128" in wrong.json()["detail"]
        right = await client.post("/v1/refinements", json={**asked, "width": 64, "height": 128})
        assert right.status_code == 202


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"images": 0}, "budget.images: must be at least 1"),
        ({"images": 10**30}, "budget.images: must be at most 1000000"),
        ({"usd": 0}, "budget.usd: must be greater than 0"),
        ({"usd": 1e300}, "budget.usd: must be at most"),
        ({"seconds": -1}, "budget.seconds: must be greater than 0"),
        ({"tokens": 10**20}, "budget.tokens: must be at most"),
        ({"tool_calls": 0}, "budget.tool_calls: must be at least 1"),
    ],
)
async def test_a_budget_that_cannot_work_is_refused(
    client: httpx2.AsyncClient, budget: dict[str, Any], said: str
) -> None:
    reply = await client.post("/v1/refinements", json={"triplets": "a on b", "budget": budget})
    assert reply.status_code == 422
    assert said in reply.json()["detail"]

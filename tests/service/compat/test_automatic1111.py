"""Plug-ins for AUTOMATIC1111 draw with the service: plain HTTP, as they speak it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from PIL import Image

from scenewright.service.app import create_app
from scenewright.service.compat.automatic1111.bodies import plain_words
from scenewright.service.core.settings import ServiceSettings
from tests.service.compat.test_openai_images import broken, held
from tests.service.serving import serving

PROMPT = "a (red ball:1.3) on a table, <lora:shiny:0.8> ((best quality))"


class Plugin:
    """What an older plug-in does: it asks for what is there, then draws and polls."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON at ``path``."""
        found = await self.http.get(f"/sdapi/v1/{path}", params=query)
        found.raise_for_status()
        return found.json()

    async def post(self, path: str, body: Any = None) -> Any:
        """The JSON that ``path`` answers ``body`` with."""
        found = await self.http.post(f"/sdapi/v1/{path}", json=body)
        found.raise_for_status()
        return found.json()

    async def refused(self, path: str, body: Any) -> tuple[int, str]:
        """Status and words of a refusal."""
        found = await self.http.post(f"/sdapi/v1/{path}", json=body)
        return found.status_code, found.json()["detail"]


@pytest.fixture
async def plugin(url: str) -> AsyncIterator[Plugin]:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        yield Plugin(http)


def opened(content: str) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    image.load()
    return image


async def test_a_plugin_starts_draws_and_shows(plugin: Plugin) -> None:
    for path, kind in (
        ("cmd-flags", dict),
        ("loras", list),
        ("upscalers", list),
        ("samplers", list),
        ("embeddings", dict),
        ("schedulers", list),
        ("scripts", dict),
    ):
        assert isinstance(await plugin.get(path), kind)
    titles = [model["title"] for model in await plugin.get("sd-models")]
    assert "miniature" in titles
    assert (await plugin.get("options"))["sd_model_checkpoint"] in titles
    body = {
        "prompt": PROMPT,
        "negative_prompt": "fog",
        "seed": 11,
        "steps": 4,
        "cfg_scale": 6.5,
        "width": 64,
        "height": 48,
        "batch_size": 2,
        "n_iter": 1,
        "sampler_name": "Euler a",
        "enable_hr": False,
        "restore_faces": False,
        "override_settings": {},
    }
    reply = await plugin.post("txt2img", body)
    assert [opened(one).size for one in reply["images"]] == [(64, 48)] * 2
    info = json.loads(reply["info"])
    assert info["all_seeds"] == [11, 12]
    assert info["seed"] == 11
    # The scripted backend does two steps, whatever it is asked for.
    assert (info["width"], info["height"], info["steps"], info["cfg_scale"]) == (64, 48, 2, 6.5)
    assert info["sd_model_name"] == "miniature"
    first, run = info["infotexts"][0], reply["scenewright"][0]
    # The sampler is the one that drew, not the one that was asked for.
    assert first.startswith(f"{PROMPT}\nNegative prompt: fog\nSteps: 2, Sampler: Automatic, ")
    assert "Seed: 11, Size: 64x48, Model: miniature" in first
    assert reply["ignored"] == {"sampler_name": "the profile's model has its own scheduler"}
    assert opened(reply["images"][0]).info["parameters"] == first
    assert reply["parameters"]["prompt"] == PROMPT
    assert {fact["statement"] for fact in run["facts"]} >= {"ball", "table", "ball is red"}
    assert info["scenewright"][0]["sgscore"] == run["sgscore"]
    events = (await plugin.http.get(f"/v1/refinements/{run['id']}/events")).text
    assert '"negative_prompt":"fog"' in events
    assert '"steps":4' in events
    assert '"guidance":6.5' in events


async def test_a_random_seed_is_told(plugin: Plugin) -> None:
    body = {"prompt": "a red ball", "scenewright": {"rounds": 1}}
    seeds = [json.loads((await plugin.post("txt2img", body))["info"])["seed"] for _ in range(2)]
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert seeds[0] != seeds[1]


async def test_the_model_switches_the_profile_and_stays(
    settings: ServiceSettings, plugin: Plugin
) -> None:
    assert await plugin.post("options", {"sd_model_checkpoint": "sd15.safetensors [abc]"}) is None
    assert await plugin.post("options", {"CLIP_stop_at_last_layers": 2}) is None
    assert (await plugin.get("options"))["sd_model_checkpoint"] == "sd15"
    drawn = {"prompt": "a red ball", "scenewright": {"rounds": 1}}
    reply = await plugin.post("txt2img", drawn)
    assert json.loads(reply["info"])["sd_model_name"] == "sd15"
    override = {"override_settings": {"sd_model_checkpoint": "sdxl"}}
    reply = await plugin.post("txt2img", drawn | override)
    assert json.loads(reply["info"])["sd_model_name"] == "sdxl"
    status, told = await plugin.refused("options", {"sd_model_checkpoint": "none such"})
    assert status == 422
    assert "miniature" in told
    # A service that starts again knows it still.
    async with (
        serving(create_app(settings)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        assert (await Plugin(http).get("options"))["sd_model_checkpoint"] == "sd15"


async def until(plugin: Plugin, run: str, kind: str) -> None:
    """Wait until ``run`` has told an event of that kind."""
    address = f"/v1/refinements/{run}/events"
    async with plugin.http.stream("GET", address) as stream:
        async for line in stream.aiter_lines():
            if line == f"event: {kind}":
                return


async def job_of(plugin: Plugin) -> str:
    """The run at work, once there is one."""
    async with asyncio.timeout(60):
        while True:
            found = (await plugin.get("progress", skip_current_image=True))["state"]["job"]
            if found:
                return str(found)
            await asyncio.sleep(0.01)


async def test_progress_shows_the_newest_candidate_and_interrupt_keeps_it(
    settings: ServiceSettings,
) -> None:
    gate = asyncio.Event()
    async with (
        serving(create_app(settings, models=held(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        plugin = Plugin(http)
        idle = await plugin.get("progress")
        assert idle["progress"] == 0
        assert idle["state"]["job_count"] == 0
        drawing = asyncio.create_task(plugin.post("txt2img", {"prompt": "a red ball on a table"}))
        run = await job_of(plugin)
        await until(plugin, run, "planned")
        found = await plugin.get("progress")
        assert found["progress"] == pytest.approx(1 / 3)
        assert found["eta_relative"] > 0
        assert found["state"]["job_count"] == 1
        assert (found["state"]["sampling_step"], found["state"]["sampling_steps"]) == (1, 3)
        assert opened(found["current_image"]).size == (16, 16)
        assert (await plugin.get("progress", skip_current_image=True))["current_image"] is None
        assert await plugin.post("interrupt") == {}
        reply = await drawing
        (image,) = reply["images"]
        assert opened(image).tobytes() == opened(found["current_image"]).tobytes()
        assert reply["scenewright"][0]["status"] == "cancelled"
        assert (await plugin.get("progress"))["progress"] == 0
        gate.set()


async def test_the_same_idempotency_key_gives_the_runs_that_are_there(plugin: Plugin) -> None:
    body = {"prompt": "a red ball", "batch_size": 2, "scenewright": {"rounds": 1}}
    headers = {"Idempotency-Key": "once"}
    found = [
        (await plugin.http.post("/sdapi/v1/txt2img", json=body, headers=headers)).json()
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len((await plugin.http.get("/v1/refinements")).json()["items"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "the text"),
        ({"prompt": "masterpiece, best quality"}, "the text cannot be read"),
        ({"prompt": "a ball", "batch_size": 4, "n_iter": 3}, "at most 10"),
        ({"prompt": "a ball", "width": 8}, "width: must be at least 16"),
        ({"prompt": "a ball", "width": 99999, "height": 0}, "height: must be at least 16"),
        ({"prompt": "a ball", "batch_size": 0}, "batch_size: must be at least 1"),
        ({"prompt": "a ball on a table. " * 540}, "the limit is 5000"),
        ({"prompt": "a ball", "enable_hr": True, "width": 2304}, "hires fix asks for 4608x1024"),
        ({"prompt": "a ball", "script_name": "X/Y/Z plot"}, "no script 'X/Y/Z plot' here"),
        ({"prompt": "a ball", "alwayson_scripts": {"controlnet": {}}}, "no script 'controlnet'"),
        ([1], "the body: must be an object"),
        ({"prompt": "a ball", "override_settings": {"sd_model_checkpoint": 3}}, "no model '3'"),
        ({"prompt": "a ball", "scenewright": {"profile": "none such"}}, "no model 'none such'"),
        ({"prompt": "a ball", "scenewright": {"wrong": 1}}, "scenewright.wrong"),
    ],
)
async def test_what_is_wrong_is_refused(plugin: Plugin, body: Any, told: str) -> None:
    status, words = await plugin.refused("txt2img", body)
    assert status == 422
    assert "Input should" not in words
    assert told in words
    assert (await plugin.http.get("/v1/refinements")).json()["items"] == []


async def test_a_run_that_fails_says_why(settings: ServiceSettings) -> None:
    async with (
        serving(create_app(settings, models=broken)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        status, told = await Plugin(http).refused("txt2img", {"prompt": "a red ball"})
        assert status == 500
        assert "the lamp is out" in told


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("a (red ball:1.2) on a ((table))", "a red ball on a table"),
        ("a [blue] dog, <lora:x:1>, ", "a blue dog"),
        ("a [dog:cat:0.5] by a [tree|bush]", "a cat by a tree"),
        ("a [dog::0.5]", "a dog"),
        ("a dog BREAK a cat AND a bird", "a dog. a cat, a bird"),
        ("a sign \\(old\\)", "a sign (old)"),
        ("(a (red:1.1) ball:1.3)", "a red ball"),
        ("an (open one", "an (open one"),
        ("", ""),
    ],
)
def test_the_syntax_of_prompts_is_read_as_words(prompt: str, words: str) -> None:
    assert plain_words(prompt) == words

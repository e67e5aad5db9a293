"""AUTOMATIC1111's routes say what was really done, and what of a request had no effect."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from PIL import Image, PngImagePlugin

from scenewright.core.ports.backend import GeneratedImage
from scenewright.graphs.state import round_seed
from scenewright.service.app import create_app
from scenewright.service.compat.automatic1111.infotexts import parameters_of, written
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend
from tests.service.compat.test_automatic1111 import Plugin, job_of, opened, until
from tests.service.compat.test_openai_images import held
from tests.service.serving import scripted, serving

SCENE = "a red ball on a table"
WEBUIAPI: dict[str, Any] = {
    "enable_hr": False, "hr_scale": 2, "hr_upscaler": "Latent", "hr_second_pass_steps": 0,
    "hr_resize_x": 0, "hr_resize_y": 0, "denoising_strength": 0.7, "firstphase_width": 0,
    "firstphase_height": 0, "styles": [], "seed": -1, "subseed": -1, "subseed_strength": 0.0,
    "seed_resize_from_h": -1, "seed_resize_from_w": -1, "batch_size": 1, "n_iter": 1, "steps": 2,
    "cfg_scale": 7.0, "width": 512, "height": 512, "restore_faces": False, "tiling": False,
    "do_not_save_samples": False, "do_not_save_grid": False, "negative_prompt": "", "eta": 1.0,
    "s_churn": 0, "s_tmax": 0, "s_tmin": 0, "s_noise": 1, "override_settings": {},
    "override_settings_restore_afterwards": True, "sampler_name": "Automatic",
    "scheduler": "Automatic", "refiner_checkpoint": None, "refiner_switch_at": 0.8,
    "script_name": None, "script_args": [], "send_images": True, "save_images": False,
    "alwayson_scripts": {},
}  # fmt: skip
"""What the Python client ``webuiapi`` sends with its defaults, but for the sampler."""


class Telling(ScriptedBackend):
    """Draws better from references, and tells its scheduler and how many steps it did."""

    async def generate(self, *given: Any, **named: Any) -> GeneratedImage:
        drawn = await super().generate(*given, **named)
        return replace(drawn, steps=5, details={"scheduler": "EulerDiscreteScheduler"})


def telling(request: Any) -> dict[str, Any]:
    """Scripted models whose second picture is the best."""
    found = dict(scripted()(request))
    return {**found, "backend": Telling(found["backend"].quality)}


@pytest.fixture
async def plugin(settings: ServiceSettings) -> AsyncIterator[Plugin]:
    async with (
        serving(create_app(settings, models=telling)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        yield Plugin(http)


async def drawn(plugin: Plugin, **asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A reply and its ``info``."""
    body = {"prompt": SCENE, "seed": 11, "scenewright": {"rounds": 2}} | asked
    reply = await plugin.post("txt2img", body)
    return reply, json.loads(reply["info"])


async def test_the_infotext_tells_what_drew_the_kept_picture(plugin: Plugin) -> None:
    reply, info = await drawn(plugin, steps=30, sampler_name="DPM++ 2M", width=64, height=48)
    (run,) = reply["scenewright"]
    assert run["best_round"] == 1
    told = parameters_of(info["infotexts"][0])
    assert told["Steps"] == "5"
    assert told["Sampler"] == info["sampler_name"] == "EulerDiscreteScheduler"
    assert info["steps"] == 5
    assert told["Seed"] == "11"
    assert told["Drawn with seed"] == str(round_seed(11, 1, "candidate"))
    assert (told["Size-1"], told["Size-2"]) == ("64", "48")
    assert (told["Drawn at-1"], told["Drawn at-2"]) == ("16", "16")
    assert told["Scaled by"] == "Lanczos"
    assert (told["Model"], told["Drawn by"]) == ("miniature", "diffusers:miniature")
    assert told["Drawn from"] == run["prompt"]
    assert told["Prompt"] == SCENE
    assert float(told["SGScore"]) == pytest.approx(run["sgscore"]["report"], abs=0.001)


async def test_a_picture_of_its_own_size_was_not_scaled(plugin: Plugin) -> None:
    _, info = await drawn(plugin, scenewright={"rounds": 1})
    told = parameters_of(info["infotexts"][0])
    assert (told["Size-1"], info["width"]) == ("16", 16)
    assert not {"Scaled by", "Drawn at", "Drawn with seed"} & set(told)


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ({"width": 64, "height": 48}, (128, 96)),
        ({"width": 64, "height": 48, "hr_scale": 1.5}, (96, 72)),
        ({"width": 64, "height": 48, "hr_resize_x": 200}, (200, 150)),
        ({"width": 64, "height": 48, "hr_resize_x": 80, "hr_resize_y": 90}, (80, 90)),
        ({}, (32, 32)),
    ],
)
async def test_the_hires_fix_gives_larger_pictures_without_a_second_pass(
    plugin: Plugin, asked: dict[str, Any], size: tuple[int, int]
) -> None:
    second = {"hr_upscaler": "Latent", "hr_second_pass_steps": 10, "denoising_strength": 0.5}
    reply, info = await drawn(plugin, enable_hr=True, **second, **asked)
    assert opened(reply["images"][0]).size == size
    assert (info["width"], info["height"]) == size
    one_pass = "the hires fix has no second pass"
    assert reply["ignored"] == {
        "hr_upscaler": "pictures are scaled with Lanczos",
        "hr_second_pass_steps": one_pass,
        "denoising_strength": one_pass,
    }
    names = [one["name"] for one in await plugin.get("upscalers")]
    assert "Lanczos" in names
    assert "hr_upscaler" not in (await drawn(plugin, enable_hr=True, hr_upscaler="Lanczos"))[0]


async def test_what_asks_for_nothing_is_not_named(plugin: Plugin) -> None:
    reply, info = await drawn(plugin, **{**WEBUIAPI, "eta": 0})
    assert reply["ignored"] == info["ignored"] == {}
    assert reply["parameters"]["hr_upscaler"] == "Latent"


async def test_what_has_no_effect_is_named_in_reply_info_and_header(plugin: Plugin) -> None:
    body = {
        "prompt": SCENE, "tiling": True, "styles": ["anime"], "subseed": 3, "fancy\nname": 1,
        "override_settings": {"CLIP_stop_at_last_layers": 2}, "negative_prompt": None,
        "scenewright": {"rounds": 1},
    }  # fmt: skip
    found = await plugin.http.post("/sdapi/v1/txt2img", json=body)
    ignored = found.json()["ignored"]
    assert set(ignored) == {
        "tiling", "styles", "fancy\nname", "override_settings.CLIP_stop_at_last_layers",
    }  # fmt: skip
    assert json.loads(found.json()["info"])["ignored"] == ignored
    assert found.headers["x-scenewright-ignored"] == (
        "tiling, styles, override_settings.CLIP_stop_at_last_layers"
    )
    options = await plugin.http.post("/sdapi/v1/options", json={"live_previews_enable": False})
    assert options.json() is None
    assert options.headers["x-scenewright-ignored"] == "live_previews_enable"


async def test_fields_without_effect_may_hold_anything(plugin: Plugin) -> None:
    content = (
        '{"prompt": "a red ball", "eta": NaN, "note": "\\ud800", "hr_scale": 0,'
        ' "alwayson_scripts": [], "override_settings": [], "scenewright": {"rounds": 1}}'
    )
    headers = {"Content-Type": "application/json"}
    found = await plugin.http.post("/sdapi/v1/txt2img", content=content, headers=headers)
    assert found.status_code == 200, found.text
    assert found.json()["parameters"]["eta"] is None
    assert set(found.json()["ignored"]) == {"eta", "note"}


async def test_a_model_without_seeds_and_negative_prompts_says_so(
    settings: ServiceSettings,
) -> None:
    class Plain(ScriptedBackend):
        @property
        def features(self) -> Any:
            return replace(super().features, seeds=False, negative_prompt=False)

    def models(request: Any) -> Any:
        return {**scripted()(request), "backend": Plain(lambda asked: 250)}

    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        reply, _ = await drawn(Plugin(http), negative_prompt="fog")
        assert set(reply["ignored"]) == {"seed", "negative_prompt"}


async def test_png_info_reads_what_txt2img_wrote(plugin: Plugin) -> None:
    reply, info = await drawn(plugin, negative_prompt="fog, rain: heavy")
    for begins in ("", "data:image/png;base64,"):
        found = await plugin.post("png-info", {"image": begins + reply["images"][0]})
        assert found["info"] == info["infotexts"][0]
        assert found["items"] == {}
        assert found["parameters"]["Negative prompt"] == "fog, rain: heavy"
        assert found["parameters"]["Seed"] == "11"


async def test_png_info_of_a_picture_from_elsewhere(plugin: Plugin) -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Software", "a camera")
    buffer = io.BytesIO()
    # Larger than any other JSON body may be.
    Image.effect_noise((1500, 1500), 90).save(buffer, "PNG", pnginfo=notes)
    assert len(buffer.getvalue()) > 2 * 2**20
    image = base64.b64encode(buffer.getvalue()).decode()
    found = await plugin.post("png-info", {"image": image})
    assert found == {"info": "", "items": {"Software": "a camera"}, "parameters": {}}
    for wrong, words in (("%%%", "not valid base64"), ("AAAA", "the image is damaged")):
        status, told = await plugin.refused("png-info", {"image": wrong})
        assert (status, words in told) == (422, True)


def test_an_infotext_is_read_as_it_was_written() -> None:
    told = {
        "Steps": 4,
        "Sampler": "Euler a",
        "Size": "64x48",
        "Missing": 'a "red", ball',
        "No": None,
    }
    text = written("a ball\nin a box", "fog", told)
    assert parameters_of(text) == {
        "Prompt": "a ball\nin a box",
        "Negative prompt": "fog",
        "Steps": "4",
        "Sampler": "Euler a",
        "Size-1": "64",
        "Size-2": "48",
        "Missing": 'a "red", ball',
    }
    assert parameters_of("a dog, at night: 3") == {
        "Prompt": "a dog, at night: 3",
        "Negative prompt": "",
    }


async def test_memory_tells_of_this_process(plugin: Plugin) -> None:
    found = await plugin.get("memory")
    assert 0 < found["ram"]["used"] < found["ram"]["total"]
    assert 0 < found["ram"]["free"] < found["ram"]["total"]
    assert found["cuda"] == {"error": "unavailable"} or found["cuda"]["system"]["total"] > 0


async def test_skip_ends_one_picture_and_the_others_go_on(settings: ServiceSettings) -> None:
    gate = asyncio.Event()
    settings = settings.model_copy(update={"running": 1})
    async with (
        serving(create_app(settings, models=held(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        plugin = Plugin(http)
        assert await plugin.post("skip") == {}
        body = {"prompt": SCENE, "batch_size": 2, "seed": 1, "scenewright": {"rounds": 2}}
        drawing = asyncio.create_task(plugin.post("txt2img", body))
        await job_of(plugin)
        async with asyncio.timeout(60):
            while (await plugin.get("progress"))["state"]["sampling_step"] == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        run = await job_of(plugin)
        await until(plugin, run, "planned")
        assert await plugin.post("skip") == {}
        gate.set()
        reply = await drawing
        assert len(reply["images"]) == 2
        states = {one["id"]: one["status"] for one in reply["scenewright"]}
        assert states.pop(run) == "cancelled"
        assert list(states.values()) == ["finished"]


async def test_errors_have_the_form_of_the_api(plugin: Plugin) -> None:
    for method, path, status, words in (
        ("GET", "nothing", 404, "there is nothing at /sdapi/v1/nothing"),
        ("POST", "img2img", 404, "POST /v1/images/edits"),
        ("GET", "txt2img", 405, ""),
        ("POST", "txt2img", 422, "the body: is required"),
    ):
        found = await plugin.http.request(method, f"/sdapi/v1/{path}")
        assert found.status_code == status, found.text
        assert set(found.json()) == {"error", "detail", "body", "errors"}
        assert words in found.json()["detail"]
        assert found.json()["errors"] == found.json()["detail"]

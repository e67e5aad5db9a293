"""Only profiles that can run here are models, and asking for another one says what it lacks."""

from __future__ import annotations

from pathlib import Path

import httpx2
import openai
import pytest
from huggingface_hub import constants

from scenewright.config.settings import load_profiles, load_settings
from scenewright.runs.readiness import lacking
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.compat.test_openai_images import SENTENCE, runs_of
from tests.service.serving import serving


@pytest.fixture(autouse=True)
def _a_bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def test_models_that_cannot_run_are_no_models(settings: ServiceSettings) -> None:
    async with (
        serving(create_app(settings)) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        names = [model.id async for model in client.models.list()]
        assert "miniature" in names
        assert not {"sdxl", "flux2-klein", "openai", "gemini"} & set(names)
        titles = [one["title"] for one in (await http.get("/sdapi/v1/sd-models")).json()]
        assert titles == names
        for model, words in (
            ("sdxl", "`scenewright models pull sdxl`"),
            ("openai", "or OPENAI_API_KEY"),
            ("nothing", "there are miniature"),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                await client.models.retrieve(model)
            assert caught.value.code == "model_not_found"
            assert words in caught.value.message
        with pytest.raises(openai.NotFoundError, match="cannot run here") as refused:
            await client.images.generate(model="sdxl", prompt=SENTENCE)
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
        chosen = await http.post("/sdapi/v1/options", json={"sd_model_checkpoint": "sdxl"})
        assert chosen.status_code == 422
        assert "models pull sdxl" in chosen.json()["detail"]
        assert await runs_of(url) == []


def test_what_is_there_or_replaced_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    profiles = load_profiles(settings)
    assert lacking(profiles["miniature"], settings) == ()
    assert any("OPENAI_API_KEY" in one for one in lacking(profiles["openai"], settings))
    (told,) = lacking(profiles["sdxl"], settings, replaced=("judges", "report_judges"))
    assert "stable-diffusion-xl" in told
    every = ("backend", "judges", "report_judges")
    assert lacking(profiles["sdxl"], settings, replaced=every) == ()
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    assert not any("OPENAI_API_KEY" in one for one in lacking(profiles["openai"], settings))

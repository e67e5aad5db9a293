"""Models, adapters and settings that do not belong together: told before weights are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.local_images import AdapterSpec, CacheSpec, LoraSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends import diffusers as module
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny, tiny_families, tiny_modern
from tests.tools.backends.conformance import with_references


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*args: Any, **options: Any) -> None:
        pytest.fail("the weights were read")

    monkeypatch.setattr(module, "build", build)


async def refused(message: str, model: Path | str, **options: Any) -> None:
    backend = DiffusersBackend(str(model), **options)
    with pytest.raises(BackendError, match=message):
        await backend.load()
    await backend.aclose()


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.usefixtures("empty_hub")
async def test_a_gate_says_where_to_ask_for_access() -> None:
    name = "black-forest-labs/FLUX.1-dev"
    await refused(
        f"gated: first accept its licence on https://huggingface.co/{name}, and log in", name
    )
    open_one = DiffusersBackend("black-forest-labs/FLUX.2-klein-4B")
    with pytest.raises(BackendError, match="is not on this machine") as told:
        _ = open_one.features
    assert "gated" not in str(told.value)


async def test_a_denoiser_of_another_family(tmp_path: Path) -> None:
    model = tiny_modern.build_klein(tmp_path / "model")
    other = tiny_modern.build_z_image(tmp_path / "other")
    shutil.rmtree(model / "transformer")
    shutil.copytree(other / "transformer", model / "transformer")
    await refused(
        "holds a ZImageTransformer2DModel, and model_index.json asks for a Flux2Transformer2DModel",
        model,
    )


async def test_an_adapter_of_another_family(tmp_path: Path, tiny_adapter: Path) -> None:
    xl = tiny.build_xl_model(tmp_path / "xl")
    source = AdapterSpec(repository=str(tiny_adapter))
    await refused(
        r"IP-Adapter ip-adapter.safetensors does not fit this model \(its layers have 32 channels, "
        "those of the StableDiffusionXLPipeline 64",
        xl,
        ip_adapter=source,
    )
    flux = tiny_families.build_flux(tmp_path / "flux")
    files = tiny_families.build_flux_adapter(tmp_path / "files")
    config = flux / "transformer" / "config.json"
    wide = json.loads(config.read_text()) | {"num_attention_heads": 64}
    config.write_text(json.dumps(wide))
    source = AdapterSpec(
        repository=str(files / "adapter"),
        weight_name="ip_adapter.safetensors",
        image_encoder=str(files / "clip"),
    )
    await refused("does not fit this model .*FluxPipeline 1024", flux, ip_adapter=source)


async def test_settings_that_the_model_does_not_know(tmp_path: Path, tiny_model: Path) -> None:
    await refused("has no cache 'first-block'", tiny_model, cache=CacheSpec(kind="first-block"))
    lora = [LoraSpec(repository=str(tiny_model / "unet" / "diffusion_pytorch_model.safetensors"))]
    await refused("is not (made for|one that) StableDiffusionPipeline", tiny_model, loras=lora)


async def test_more_references_than_it_takes(
    tmp_path: Path, store: ImageStore, pictures: list[str]
) -> None:
    model = tiny_families.build_kontext(tmp_path / "model")
    backend = DiffusersBackend(str(model), max_references=4)
    request = with_references(pictures[:2], 1.0, 1.0)
    with pytest.raises(BackendError, match=r"2 references were given, .* takes at most 1"):
        await backend.generate(request, store.get)
    await backend.aclose()

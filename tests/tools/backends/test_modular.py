"""Pipelines that diffusers composes of blocks, on a small FLUX 3."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
from diffusers import FlowMatchEulerDiscreteScheduler
from PIL import Image

from scenewright.config.local_images import CacheSpec, QuantizationSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Start
from scenewright.tools.backends import modular
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import MemoryPlan
from scenewright.tools.backends.pipeline import call_options
from tests.tools.backends import tiny, tiny_modern
from tests.tools.backends.conformance import RED, drawn, no_images, with_references


@pytest.fixture(scope="module")
def flux3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_flux3(tmp_path_factory.mktemp("flux3") / "model")


@pytest.fixture(scope="module")
def backend(flux3: Path) -> Iterator[DiffusersBackend]:
    shared = DiffusersBackend(str(flux3), max_references=20)
    yield shared
    asyncio.run(shared.aclose())


@pytest.fixture
def copied(flux3: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flux3, tmp_path / "copy"))


def changed(folder: Path, **entries: Any) -> None:
    """Changes entries of the index; None removes one."""
    file = folder / "modular_model_index.json"
    index = json.loads(file.read_text()) | entries
    file.write_text(json.dumps({key: value for key, value in index.items() if value is not None}))


async def refused(folder: Path, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def assembled(*given: Any) -> None:
        pytest.fail("the weights were read")

    monkeypatch.setattr("scenewright.tools.backends.pipeline.assemble_pipeline", assembled)
    backend = DiffusersBackend(str(folder))
    with pytest.raises(BackendError, match=message):
        await backend.load()
    await backend.aclose()


def test_the_options_are_those_of_the_blocks_without_a_rewriter_of_prompts() -> None:
    options = call_options("Flux3ModularPipeline")
    assert {"prompt", "negative_prompt", "image", "width", "num_inference_steps"} <= options.keys()
    assert not {"boxes", "max_new_tokens"} & options.keys()
    # The library's own class keeps it.
    assert "prompt_upsampler" in diffusers.Flux3AutoBlocks().sub_blocks
    with pytest.raises(BackendError, match="has no pipeline 'ModularPipeline'"):
        call_options("ModularPipeline")


async def test_ten_pictures_are_seen_at_once_and_cost_work(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    features = backend.features
    assert (features.references, features.edit_references) == (10, 9)
    plain = await backend.generate(RED, no_images)
    ten = await backend.generate(with_references(pictures[2:] * 10, *[1.0] * 10), store.get)
    # Each reference is at least 64 pixels wide and high: four times the picture or more.
    assert ten.work is not None
    assert plain.work is not None
    assert ten.work >= 41 * plain.work
    start = Start(image=pictures[0], strength=1.0, instruct=True)
    many = with_references(pictures[:1] * 10, *[1.0] * 10, start=start)
    with pytest.raises(BackendError, match="sees 10 pictures at once, 11 were given"):
        await backend.generate(many, store.get)


async def test_an_edit_keeps_what_the_mask_leaves_out(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    mask = Image.new("L", tiny.SIZE)
    mask.paste(255, (0, 0, 16, 32))
    start = Start(image=pictures[0], strength=1.0, instruct=True, mask=store.put(mask))
    image = (await backend.generate(RED.model_copy(update={"start": start}), store.get)).image
    before = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE, Image.Resampling.LANCZOS)
    assert image.crop((24, 0, 32, 32)).tobytes() == before.crop((24, 0, 32, 32)).tobytes()
    assert image.crop((0, 0, 8, 32)).tobytes() != before.crop((0, 0, 8, 32)).tobytes()


async def test_the_library_says_nothing(
    flux3: Path, store: ImageStore, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = DiffusersBackend(str(flux3))
    await backend.generate(RED, no_images)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await backend.generate(RED.model_copy(update={"steps": 900}), no_images)
    await backend.aclose()
    assert capfd.readouterr() == ("", "")


async def test_a_copy_of_the_folder_has_the_same_fingerprint(
    backend: DiffusersBackend, copied: Path
) -> None:
    other = DiffusersBackend(str(copied))
    assert other.fingerprint == backend.fingerprint
    (copied / "transformer" / "config.json").write_text("{}")
    with pytest.raises(BackendError, match=r"transformer"):
        await DiffusersBackend(str(copied)).load()


async def test_a_part_that_the_index_names_is_loaded_and_not_made(
    backend: DiffusersBackend, copied: Path, store: ImageStore
) -> None:
    FlowMatchEulerDiscreteScheduler(shift=1.0).save_pretrained(copied / "scheduler")
    hint = ["diffusers", "FlowMatchEulerDiscreteScheduler"]
    changed(copied, scheduler=[*hint, {"type_hint": hint, "subfolder": "scheduler"}])
    other = DiffusersBackend(str(copied))
    assert await drawn(other, RED, store) != await drawn(backend, RED, store)
    await other.aclose()


async def test_what_is_missing_is_told_before_weights_are_read(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vae = json.loads((copied / "modular_model_index.json").read_text())["vae"]
    changed(copied, vae=None)
    await refused(copied, r"modular_model_index.json does not name vae, which Flux3", monkeypatch)
    changed(copied, vae=vae)
    (copied / "vae").rename(copied / "elsewhere")
    await refused(copied, "'vae' that modular_model_index.json names is missing", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("offload", ["parts", "layers"])
async def test_placement_does_not_change_the_picture(
    backend: DiffusersBackend, flux3: Path, store: ImageStore, pictures: list[str], offload: Any
) -> None:
    """Main memory stands for the device too."""
    placed = DiffusersBackend(str(flux3), device="cpu")
    placed.__dict__["plan"] = MemoryPlan("float32", offload, False, 2**20, 2**30)
    for request in (RED, with_references(pictures, 1.0), RED):
        expected = (await backend.generate(request, store.get)).image
        image = (await placed.generate(request, store.get)).image
        assert np.abs(np.asarray(image, int) - np.asarray(expected, int)).max() <= 1
    await placed.aclose()


async def test_narrow_weights_serve_too_and_caches_are_refused(
    backend: DiffusersBackend, flux3: Path, store: ImageStore
) -> None:
    narrow = DiffusersBackend(str(flux3), quantization=QuantizationSpec(method="layerwise-float8"))
    assert await drawn(narrow, RED, store) != await drawn(backend, RED, store)
    await narrow.aclose()
    with pytest.raises(BackendError, match="has no cache 'first-block'"):
        _ = DiffusersBackend(str(flux3), cache=CacheSpec(kind="first-block")).features


def test_the_configuration_of_a_quantized_part_reaches_it(
    flux3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diffusers import PipelineQuantizationConfig, QuantoConfig
    from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec

    given: dict[str, Any] = {}
    load = ComponentSpec.load

    def watched(self: Any, **options: Any) -> Any:
        given[self.name] = options.pop("quantization_config", None)
        return load(self, **options)

    monkeypatch.setattr(ComponentSpec, "load", watched)
    config = QuantoConfig(weights_dtype="int8")
    parts = ("transformer", "vae")
    mapping = {"transformer": config}
    options = {"quantization_config": PipelineQuantizationConfig(quant_mapping=mapping)}
    kind = diffusers.Flux3DistilledModularPipeline
    modular.assemble_pipeline(kind, flux3, parts, options)
    assert given == {"transformer": config, "vae": None}
    given.clear()
    loaded = tiny_modern.flux2_autoencoder()
    assert modular.assemble_pipeline(kind, flux3, parts, {"vae": loaded}).vae is loaded
    assert given == {"transformer": None}

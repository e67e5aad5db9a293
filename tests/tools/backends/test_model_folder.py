"""What is said when a model's files are missing, damaged or of another kind."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants as hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    content_files,
    digest_files,
    find,
)
from tests.tools.backends import tiny
from tests.tools.backends.conformance import RED, drawn

UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "model")


@pytest.fixture
def adapter(tiny_adapter: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_adapter, tmp_path / "adapter")


async def refusal(model: Path | str, adapter: Path | None = None, **source: Any) -> str:
    """What ``load`` says when it refuses."""
    ip_adapter = AdapterSpec(repository=str(adapter), **source) if adapter else None
    backend = DiffusersBackend(str(model), ip_adapter=ip_adapter)
    try:
        with pytest.raises(BackendError) as caught:
            await backend.load()
    finally:
        await backend.aclose()
    return str(caught.value)


def edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def test_a_whole_folder_is_read(model: Path) -> None:
    folder = ModelFolder.open(model)
    assert folder.pipeline_class == "StableDiffusionPipeline"
    assert set(folder.parts) == {"vae", "text_encoder", "tokenizer", "unet", "scheduler"}
    assert (folder.multiple, folder.native_size) == (8, tiny.SIZE)
    assert (folder.defaults.steps, folder.defaults.guidance) == (3, 4.0)


NOWHERE = ["./nowhere", "/nowhere/model", "a/b/c", "just-a-name", "", "a b/c"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOWHERE)
async def test_a_path_that_is_not_there_never_asks_the_hub(name: str) -> None:
    assert "there is no model folder" in await refusal(name)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a network that may be asked but fails the test when it is."""

    def asked(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", asked)
    monkeypatch.setattr(socket, "getaddrinfo", asked)


@pytest.mark.usefixtures("no_network")
async def test_an_absent_hub_model_is_told_without_the_network() -> None:
    said = await refusal("somebody/absent-model")
    assert "'somebody/absent-model' is not on this machine (size unknown" in said
    assert "get it with `scenewright models pull diffusers:somebody/absent-model`" in said
    said = await refusal("stabilityai/stable-diffusion-xl-base-1.0")
    assert "(about 13.9 GB, licence openrail++; not here)" in said


@pytest.mark.usefixtures("no_network")
async def test_an_absent_adapter_is_told_without_the_network(model: Path) -> None:
    backend = DiffusersBackend(
        str(model), ip_adapter=AdapterSpec(repository="somebody/absent-adapter")
    )
    with pytest.raises(BackendError, match="'somebody/absent-adapter' is not on this machine"):
        await backend.load()
    await backend.aclose()


async def test_a_cached_hub_model_loads_without_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_model: Path, store: ImageStore
) -> None:
    """The cache keeps contents as blobs named by their SHA-256 and links to them."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "models--somebody--tiny"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    (cache / "blobs").mkdir()
    for file in content_files(tiny_model):
        data = file.read_bytes()
        blob = cache / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        link = cache / "snapshots" / commit / file.relative_to(tiny_model)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))

    cached, local = DiffusersBackend("somebody/tiny"), DiffusersBackend(str(tiny_model))
    assert cached.id == local.id == "diffusers:tiny"
    assert cached.fingerprint == local.fingerprint
    assert await drawn(cached, RED, store) == await drawn(local, RED, store)
    await cached.aclose()
    await local.aclose()
    assert find("somebody/tiny") == cache / "snapshots" / commit


def test_a_blob_in_a_hub_cache_is_not_read_to_be_named(tmp_path: Path) -> None:
    blob = tmp_path / ("ab" * 32)
    blob.write_bytes(b"1")
    link = tmp_path / "model.safetensors"
    link.symlink_to(blob)
    first = digest_files(tmp_path, [link])
    blob.write_bytes(b"2")
    assert digest_files(tmp_path, [link]) == first


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "garbage", "empty"])
@pytest.mark.parametrize("part", [UNET, "vae/diffusion_pytorch_model.safetensors"])
async def test_damaged_weights_are_named(model: Path, part: str, how: str) -> None:
    data = (model / part).read_bytes()
    (model / part).write_bytes({"cut": data[:-9], "garbage": b"?" * 99, "empty": b""}[how])
    said = await refusal(model)
    assert str(model / part) in said
    assert "damaged" in said


@pytest.mark.slow
async def test_missing_files_are_named(tiny_model: Path, tmp_path: Path) -> None:
    for name, words in {
        UNET: "holds no *.safetensors weights",
        "model_index.json": "is missing: is this the folder of a diffusers model",
        "unet/config.json": "is missing",
        "unet": "the part 'unet' that model_index.json names is missing",
        "tokenizer/tokenizer.json": "holds no vocabulary",
        "scheduler/scheduler_config.json": "scheduler",
    }.items():
        model = shutil.copytree(tiny_model, tmp_path / name.replace("/", "-"))
        gone = model / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        said = await refusal(model)
        assert words in said, name
        assert str(model) in said, name


async def test_weights_of_another_shape_are_told(model: Path) -> None:
    edit(model / "unet" / "config.json", lambda config: config.update(cross_attention_dim=48))
    assert f"the model in {model} does not load" in await refusal(model)


@pytest.mark.slow
async def test_an_index_that_is_none_is_told(model: Path) -> None:
    index = model / "model_index.json"
    edit(index, lambda value: value.update(_class_name="NoSuchPipeline"))
    assert "has no pipeline 'NoSuchPipeline'" in await refusal(model)
    edit(index, lambda value: value.update(_class_name="UNet2DConditionModel"))
    assert "has no pipeline" in await refusal(model)
    index.write_text("[]")
    assert f"{index} must hold a JSON object" in await refusal(model)
    index.write_text("{")
    assert f"{index} cannot be read" in await refusal(model)
    index.write_text("{}")
    assert "'_class_name' must name" in await refusal(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "defaults",
    [
        {"stepz": 3},
        {"steps": 0},
        {"guidance": -1},
        {"size": [64]},
        {"size": [0, 64]},
        {"size": "L"},
    ],
)
async def test_bad_defaults_name_their_file(model: Path, defaults: dict[str, Any]) -> None:
    (model / "scenewright.json").write_text(json.dumps(defaults))
    assert str(model / "scenewright.json") in await refusal(model)


@pytest.mark.slow
async def test_adapters_that_are_none_are_named(model: Path, adapter: Path) -> None:
    weights = adapter / "ip-adapter.safetensors"
    tensors = load_file(weights)
    assert "no folder" in await refusal(model, adapter / "nowhere")
    assert "is missing" in await refusal(model, adapter, weight_name="other.safetensors")
    assert "only *.safetensors" in await refusal(model, adapter, weight_name="ip-adapter.bin")
    assert "holds no image encoder" in await refusal(model, adapter, image_encoder="eye")
    save_file({key: value for key, value in tensors.items() if "proj" not in key}, weights)
    assert f"{weights} is not an IP-Adapter checkpoint" in await refusal(model, adapter)
    faces = {key.replace("image_proj.proj.", "image_proj.proj.0."): v for key, v in tensors.items()}
    save_file(faces, weights)
    assert "needs face embeddings" in await refusal(model, adapter)
    save_file({key: value for key, value in tensors.items() if ".3.to_k" not in key}, weights)
    assert "does not fit this model" in await refusal(model, adapter)
    weights.write_bytes(weights.read_bytes()[:-5])
    assert f"{weights} is damaged" in await refusal(model, adapter)


async def test_an_encoder_of_another_width_is_told(model: Path, adapter: Path) -> None:
    weights = adapter / "ip-adapter.safetensors"
    tensors = load_file(weights)
    wide = tensors["image_proj.proj.weight"]
    tensors["image_proj.proj.weight"] = torch.zeros(wide.shape[0], wide.shape[1] + 8)
    save_file(tensors, weights)
    said = await refusal(model, adapter)
    assert "gives 24 numbers an image, the IP-Adapter takes 32" in said


async def test_a_damaged_encoder_is_named(model: Path, adapter: Path) -> None:
    file = adapter / "image_encoder" / "model.safetensors"
    file.write_bytes(b"")
    assert str(file) in await refusal(model, adapter)


async def test_references_need_a_family_that_takes_them(model: Path, adapter: Path) -> None:
    edit(model / "model_index.json", lambda index: index.pop("unet"))
    assert "takes no IP-Adapter" in await refusal(model, adapter)


@pytest.mark.slow
async def test_a_variant_is_used_where_a_part_has_it(model: Path) -> None:
    plain, both = DiffusersBackend(str(model)), DiffusersBackend(str(model), variant="fp16")
    await both.load()
    await both.aclose()
    unet = model / UNET
    unet.rename(unet.with_name("diffusion_pytorch_model.fp16.safetensors"))
    mixed = DiffusersBackend(str(model), variant="fp16")
    await mixed.load()
    await mixed.aclose()
    with pytest.raises(BackendError, match="does not load"):
        await plain.load()
    await plain.aclose()

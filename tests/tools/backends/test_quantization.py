"""Weights stored in few bits, on tiny models of the real classes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline
from safetensors.torch import load_file

from scenewright.config.local_images import AdapterSpec, LoraSpec, QuantizationSpec
from scenewright.config.profiles import BackendSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.providers.hub.needs import Need, missing_files, wanted_files
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import ITEM_BYTES, Needs, plan_memory
from tests.tools.backends import tiny_modern
from tests.tools.backends.conformance import RED, BackendConformance, drawn
from tests.tools.backends.test_loras import build_lora

WEIGHTS = "diffusion_pytorch_model.safetensors"
LAYERWISE = QuantizationSpec(method="layerwise-float8")


@pytest.fixture(scope="module")
def klein(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_klein(tmp_path_factory.mktemp("model") / "klein")


@pytest.fixture(scope="module")
def z_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_z_image(tmp_path_factory.mktemp("model") / "z-image")


def distance(one: Any, other: Any) -> float:
    first, second = (np.asarray(image, dtype=float) for image in (one, other))
    return float(np.abs(first - second).mean())


async def compared(
    model: Path, spec: QuantizationSpec, store: ImageStore, request: GenerationRequest = RED
) -> float:
    """Mean difference to the plain model's picture; checks what is told of the weights."""
    plain, narrow = DiffusersBackend(str(model)), DiffusersBackend(str(model), quantization=spec)
    assert plain.fingerprint != narrow.fingerprint
    assert narrow.plan.need <= plain.plan.need
    told = await narrow.generate(request, store.get)
    assert told.details["quantization"] == narrow.loading
    found = distance(told.image, (await plain.generate(request, store.get)).image)
    assert await drawn(narrow, request, store) == await drawn(narrow, request, store)
    for backend in (plain, narrow):
        await backend.aclose()
    return found


class TestLayerwise(BackendConformance):
    """References compute with the narrow layers too."""

    @pytest.fixture(scope="class")
    @classmethod
    def make_backend(cls, tiny_model: Path, tiny_adapter: Path) -> Callable[[], DiffusersBackend]:
        adapter = AdapterSpec(repository=str(tiny_adapter))
        return lambda: DiffusersBackend(str(tiny_model), ip_adapter=adapter, quantization=LAYERWISE)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls, make_backend: Callable[[], DiffusersBackend]) -> Iterator[DiffusersBackend]:
        shared = make_backend()
        yield shared
        asyncio.run(shared.aclose())


@pytest.mark.slow
async def test_layers_wait_in_eight_bits(klein: Path, store: ImageStore) -> None:
    assert 0 < await compared(klein, LAYERWISE, store) < 20
    backend = DiffusersBackend(str(klein), quantization=LAYERWISE)
    assert backend.loading == "transformer in float8 (layerwise)"
    await backend.load()
    assert backend._ready is not None
    layer = backend._ready.pipe.transformer.transformer_blocks[0].attn.to_q
    assert layer.weight.dtype == torch.float8_e4m3fn
    await backend.aclose()


async def test_a_lora_is_added_before_weights_are_narrowed(
    tmp_path: Path, klein: Path, store: ImageStore
) -> None:
    lora = build_lora(tmp_path / "lora", klein, Flux2KleinPipeline, "transformer")
    loras = [LoraSpec(repository=str(lora))]
    both = DiffusersBackend(str(klein), loras=loras, quantization=LAYERWISE)
    assert (
        both.loading
        == "transformer in float8 (layerwise), LoRA pytorch_lora_weights × 1 (2 layers)"
    )
    assert both.features.references
    wide = DiffusersBackend(str(klein), loras=loras)
    name, stored = "transformer_blocks.0.attn.to_q", []
    for backend in (both, wide):
        await backend.load()
        assert backend._ready is not None
        stored.append(backend._ready.pipe.transformer.get_submodule(name).weight)
    assert torch.equal(stored[0], stored[1].to(torch.float8_e4m3fn))
    assert await drawn(both, RED, store)
    for backend in (both, wide):
        await backend.aclose()


@pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
async def test_torchao_narrows_denoiser_and_text_encoder(
    tmp_path: Path, klein: Path, store: ImageStore
) -> None:
    parts = ("transformer", "text_encoder")
    spec = QuantizationSpec(method="torchao-int8", parts=parts)
    assert 0 < await compared(klein, spec, store) < 20
    lora = build_lora(tmp_path / "lora", klein, Flux2KleinPipeline, "transformer")
    backend = DiffusersBackend(
        str(klein), quantization=spec, loras=[LoraSpec(repository=str(lora))]
    )
    assert backend.loading.startswith("transformer and text_encoder in int8 (torchao), LoRA")
    plain = DiffusersBackend(str(klein), quantization=spec)
    # The LoRA computes beside the narrow layers, and takes memory there.
    assert (
        backend._needs((64, 64)).weights["transformer"]
        > (plain._needs((64, 64)).weights["transformer"])
    )
    assert await drawn(backend, RED, store) != await drawn(plain, RED, store)
    for one in (backend, plain):
        await one.aclose()


def gguf_file(file: Path, tensors: dict[str, torch.Tensor], kind: str = "Q8_0") -> Path:
    """Writes ``tensors`` as the converters of published models do: matrices quantized."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(file, "image")
    for name, tensor in tensors.items():
        array = tensor.float().numpy()
        narrow = name.endswith(".weight") and array.ndim == 2 and array.shape[-1] % 32 == 0
        of = gguf.GGMLQuantizationType[kind if narrow else "F32"]
        writer.add_tensor(name, gguf.quantize(array, of), raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def published_z_image(folder: Path) -> dict[str, torch.Tensor]:
    """The denoiser's weights in the layout that Z-Image was published in."""
    weights = load_file(folder / "transformer" / WEIGHTS)
    for name in [name for name in weights if name.endswith(".to_q.weight")]:
        stem = name.removesuffix(".to_q.weight")
        rows = [weights.pop(f"{stem}.to_{which}.weight") for which in "qkv"]
        weights[f"{stem}.qkv.weight"] = torch.cat(rows)
    pairs = (
        ("all_final_layer.2-1.", "final_layer."), ("all_x_embedder.2-1.", "x_embedder."),
        (".to_out.0.", ".out."), (".norm_k.", ".k_norm."), (".norm_q.", ".q_norm."),
    )  # fmt: skip
    renamed = {}
    for name, tensor in weights.items():
        for ours, theirs in pairs:
            name = name.replace(ours, theirs)
        renamed[f"model.diffusion_model.{name}"] = tensor
    return renamed


@pytest.mark.slow
async def test_a_gguf_file_of_the_published_layout_draws(
    tmp_path: Path, z_image: Path, store: ImageStore
) -> None:
    file = gguf_file(tmp_path / "z-image-Q8_0.gguf", published_z_image(z_image))
    spec = QuantizationSpec(method="gguf", repository=str(tmp_path))
    assert 0 < await compared(z_image, spec, store) < 10
    # The denoiser's own weights are not needed.
    bare = tmp_path / "bare"
    shutil.copytree(z_image, bare)
    (bare / "transformer" / WEIGHTS).unlink()
    backend = DiffusersBackend(
        str(bare), quantization=QuantizationSpec(method="gguf", repository=str(file))
    )
    assert backend.loading == "transformer of z-image-Q8_0.gguf"
    whole = DiffusersBackend(str(z_image), quantization=spec)
    assert await drawn(backend, RED, store) == await drawn(whole, RED, store)
    for one in (backend, whole):
        await one.aclose()
    with pytest.raises(BackendError, match=r"holds no .*safetensors weights"):
        _ = DiffusersBackend(str(bare)).features


@pytest.mark.slow
async def test_a_lora_computes_beside_a_gguf_file(
    tmp_path: Path, klein: Path, store: ImageStore
) -> None:
    file = gguf_file(tmp_path / "klein.gguf", load_file(klein / "transformer" / WEIGHTS))
    spec = QuantizationSpec(method="gguf", repository=str(file))
    assert 0 < await compared(klein, spec, store) < 10
    lora = build_lora(tmp_path / "lora", klein, Flux2KleinPipeline, "transformer")
    with_lora = DiffusersBackend(
        str(klein), quantization=spec, loras=[LoraSpec(repository=str(lora))]
    )
    without = DiffusersBackend(str(klein), quantization=spec)
    assert await drawn(with_lora, RED, store) != await drawn(without, RED, store)
    for one in (with_lora, without):
        await one.aclose()


def test_a_gguf_file_of_another_model_is_refused_before_weights_are_read(
    tmp_path: Path, klein: Path, z_image: Path
) -> None:
    file = gguf_file(tmp_path / "z.gguf", published_z_image(z_image))
    spec = QuantizationSpec(method="gguf", repository=str(file))
    with pytest.raises(BackendError, match=r"is not of a Flux2Transformer2DModel.*use one of this"):
        _ = DiffusersBackend(str(klein), quantization=spec).features
    weights = published_z_image(z_image)
    name = next(name for name in weights if name.endswith("qkv.weight"))
    weights[name] = torch.cat([weights[name]] * 2, dim=1)
    file = gguf_file(tmp_path / "wide.gguf", weights)
    spec = QuantizationSpec(method="gguf", repository=str(file))
    with pytest.raises(BackendError, match="is of another size of ZImageTransformer2DModel"):
        _ = DiffusersBackend(str(z_image), quantization=spec).features
    for place, message in (
        (tmp_path / "none.gguf", "none.gguf is missing"),
        (tmp_path, r"needs weight_name: the folder has 2 \*.gguf files"),
        ("city96/FLUX.1-dev-gguf", "needs weight_name"),
    ):
        spec = QuantizationSpec(method="gguf", repository=str(place))
        with pytest.raises(BackendError, match=message):
            _ = DiffusersBackend(str(z_image), quantization=spec).features


def test_a_bad_gguf_file_is_named_as_one(tmp_path: Path, z_image: Path) -> None:
    whole = gguf_file(tmp_path / "whole.gguf", published_z_image(z_image)).read_bytes()
    language = {"token_embd.weight": torch.ones(32, 32), "blk.0.attn_q.weight": torch.ones(32, 32)}
    words = gguf_file(tmp_path / "words.gguf", language).read_bytes()
    for name, content, message in (
        ("other", b"not a file of this kind", "other.gguf is not a GGUF file: it begins with"),
        ("empty", b"", "empty.gguf is not a GGUF file"),
        ("short", whole[:10], "short.gguf is damaged or was not copied whole"),
        ("header", whole[: len(whole) // 20], "header.gguf is damaged or was not copied whole"),
        ("end", whole[:-4000], "end.gguf is damaged or was not copied whole"),
        ("version", b"GGUF" + b"\xff" * 60, "version.gguf is damaged"),
        ("language", words, "language.gguf is a language model or a text encoder, not a denoiser"),
    ):
        file = tmp_path / f"{name}.gguf"
        file.write_bytes(content)
        spec = QuantizationSpec(method="gguf", repository=str(file))
        with pytest.raises(BackendError, match=message):
            _ = DiffusersBackend(str(z_image), quantization=spec).features


def test_a_class_without_gguf_files_is_told(tmp_path: Path, tiny_model: Path) -> None:
    pytest.importorskip("gguf")
    spec = QuantizationSpec(method="gguf", repository=str(tmp_path / "a.gguf"))
    with pytest.raises(BackendError, match="StableDiffusionPipeline has no transformer"):
        _ = DiffusersBackend(str(tiny_model), quantization=spec).features
    longcat = tiny_modern.build_longcat(tmp_path / "model")
    (tmp_path / "a.gguf").write_bytes(b"")
    with pytest.raises(BackendError, match="reads no GGUF file of a LongCatImageTransformer2DMo"):
        _ = DiffusersBackend(str(longcat), quantization=spec).features


def test_what_a_method_needs_is_told_before_weights_are_read(
    klein: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scenewright.tools.backends import quantization

    def refused(message: str, **spec: Any) -> None:
        backend = DiffusersBackend(str(klein), device="cpu", quantization=QuantizationSpec(**spec))
        with pytest.raises(BackendError, match=message):
            _ = backend.features

    refused("no part 'unet' with weights: name some of", method="layerwise-float8", parts=("unet",))
    refused("does not serve the text_encoder", method="layerwise-float8", parts=("text_encoder",))
    monkeypatch.setattr(quantization, "_is_installed", lambda package: True)
    refused("needs a GPU, and the model runs on the CPU", method="bitsandbytes-4bit")
    monkeypatch.undo()
    monkeypatch.setattr(quantization, "find_spec", lambda package: None)
    for method, package in (
        ("bitsandbytes-8bit", r"bitsandbytes: install it with .*scenewright\[quantization\]"),
        ("torchao-int8", r"torchao: install it with .*scenewright\[quantization\]"),
        ("quanto-int4", r"optimum.quanto: install it with .*optimum-quanto"),
    ):
        refused(f"{method!r} needs the package {package}", method=method)
    refused(r"needs the package gguf: .*scenewright\[gguf\]", method="gguf", repository="a.gguf")


def test_the_profile_names_a_method_in_short_or_with_its_parts() -> None:
    short = BackendSpec.model_validate({"model": "m", "quantization": "torchao-int8"})
    assert short.quantization == QuantizationSpec(method="torchao-int8")
    for wrong, message in (
        ("gguf", "gguf needs a file"),
        ({"method": "gguf", "repository": "a.gguf", "parts": ["vae"]}, "leave parts out"),
        ({"method": "torchao-int8", "repository": "a/b"}, "leave repository out"),
        ("int3", "bitsandbytes-8bit"),
    ):
        with pytest.raises(ValueError, match=message):
            BackendSpec.model_validate({"model": "m", "quantization": wrong})
    with pytest.raises(ValueError, match="quantization: only for models on this machine"):
        BackendSpec.model_validate({"kind": "openai", "model": "m", "quantization": "torchao-int8"})


def test_narrow_weights_count_by_their_bytes() -> None:
    wide = Needs({"unet": 1000, "vae": 100}, "unet", 10, steps=0, decoding=0, tile=0)
    narrow = Needs(
        wide.weights, "unet", 10, steps=0, decoding=0, tile=0, narrow={"unet": (800, 0.5)}
    )
    for dtype, size in ITEM_BYTES.items():
        plan = plan_memory(narrow, 10**6, dtypes=(dtype,))
        assert plan.need == 300 * size + 400
        assert plan_memory(wide, 10**6, dtypes=(dtype,)).need == 1100 * size


def test_a_repository_lends_all_but_the_weights_that_a_file_replaces() -> None:
    index = {"transformer": ["diffusers", "T"], "vae": ["diffusers", "V"]}
    names = [
        f"{part}/{file}"
        for part in index
        for file in ("config.json", "diffusion_pytorch_model-00001-of-00002.safetensors",
                     "diffusion_pytorch_model.safetensors.index.json")
    ]  # fmt: skip
    need = Need("a/b", ("backend",), "pipeline", without=("transformer",))
    found = wanted_files(need, ["model_index.json", *names], index)
    assert [name for name in found if name.startswith("transformer")] == ["transformer/config.json"]
    assert sum(name.startswith("vae") for name in found) == 3
    assert missing_files(need, found, index) == ()
    assert missing_files(Need("a/b", ("backend",), "pipeline"), found, index) != ()

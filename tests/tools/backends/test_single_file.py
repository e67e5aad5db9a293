"""Models in one file, as fine-tunes are kept: whole, in eight bits, or refused with reasons."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import ZImagePipeline
from huggingface_hub import constants
from PIL import Image, ImageChops

from benchmarks.rehearse.tensors import Tensor, tensors_of
from benchmarks.rehearse.weights import write_weights
from scenewright.config.local_images import LoraSpec, QuantizationSpec
from scenewright.config.profiles import BackendSpec, Profile
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.architectures import Architecture, read_architectures
from scenewright.providers.hub.cache import require_models
from scenewright.providers.hub.needs import needs_of_spec
from scenewright.providers.hub.single_file import LAYOUTS, Stored, read_header
from scenewright.runs.readiness import memory_needed
from scenewright.tools.backends import single_file as module
from scenewright.tools.backends.clip_tokenizer import clip_tokenizer
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import single_files, tiny, tiny_families, tiny_modern
from tests.tools.backends.conformance import RED, drawn
from tests.tools.backends.test_loras import build_lora

BUILDERS: dict[str, Callable[..., Path]] = {
    "sd15": tiny.build_model,
    "sdxl": tiny.build_xl_model,
    "sd3": tiny_families.build_sd3,
    "flux": tiny_families.build_flux,
    "klein": tiny_modern.build_klein,
    "z-image": tiny_modern.build_z_image,
}
FAMILIES = sorted(BUILDERS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A whole small pipeline of each family."""
    folder, built = tmp_path_factory.mktemp("models"), dict[str, Path]()

    def model(family: str) -> Path:
        if family not in built:
            built[family] = BUILDERS[family](folder / family)
        return built[family]

    return model


def bare(model: Path, folder: Path, parts: list[str]) -> Path:
    """A copy of ``model`` without the weights of ``parts``."""
    shutil.copytree(model, folder)
    for part in parts:
        for file in (folder / part).glob("*.safetensors"):
            file.unlink()
    return folder


async def same_picture(one: DiffusersBackend, other: DiffusersBackend, store: ImageStore) -> bool:
    """Whether both draw alike: weights that lie elsewhere in memory may round another way."""
    pictures = [await drawn(backend, RED, store) for backend in (one, other)]
    for backend in (one, other):
        await backend.aclose()
    first, second = (Image.open(io.BytesIO(data)) for data in pictures)
    extrema = ImageChops.difference(first, second).getextrema()
    return first.size == second.size and all(most <= 1 for _, most in extrema)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_file_with_all_weights_draws_as_the_folder(
    models: Callable[[str], Path], tmp_path: Path, store: ImageStore, family: str
) -> None:
    model = models(family)
    file = single_files.save(single_files.whole(family, model), tmp_path / "fine-tune.safetensors")
    rest = bare(
        model, tmp_path / "rest", ["unet", "transformer", "vae", *single_files.ENCODERS[family]]
    )
    backend = DiffusersBackend(str(file), base_model=str(rest))
    assert backend.id == "diffusers:fine-tune"
    folder = DiffusersBackend(str(model))
    assert backend.plan.need == folder.plan.need
    assert backend.features == folder.features
    assert backend.fingerprint != folder.fingerprint
    assert await same_picture(backend, folder, store)


@pytest.mark.parametrize("prefix", ["", "diffusion_model.", "model.diffusion_model."])
async def test_the_denoiser_alone_takes_the_rest_from_the_base_model(
    models: Callable[[str], Path], tmp_path: Path, store: ImageStore, prefix: str
) -> None:
    model = models("flux")
    other = tiny_families.build_flux(tmp_path / "other", seed=1)
    weights = single_files.prefixed(prefix, single_files.DENOISERS["flux"](other))
    file = single_files.save(weights, tmp_path / "other.safetensors")
    rest = bare(model, tmp_path / "rest", ["transformer"])
    whole = shutil.copytree(model, tmp_path / "whole")
    shutil.copytree(other / "transformer", whole / "transformer", dirs_exist_ok=True)
    backend = DiffusersBackend(str(file), base_model=str(rest))
    assert await same_picture(backend, DiffusersBackend(str(whole)), store)


@pytest.mark.parametrize(
    "ends", [("scale_weight", "scale_input"), ("weight_scale", "input_scale")], ids=lambda e: e[0]
)
async def test_eight_bits_are_multiplied_by_their_factors(
    models: Callable[[str], Path], tmp_path: Path, store: ImageStore, ends: tuple[str, str]
) -> None:
    model = models("klein")
    narrow = single_files.scaled(single_files.DENOISERS["klein"](model), ends)
    wide = {
        name: (
            tensor.float() * narrow[f"{name.removesuffix('weight')}{ends[0]}"]
            if tensor.dtype == torch.float8_e4m3fn
            else tensor.float()
        )
        for name, tensor in narrow.items()
        if not name.endswith((*ends, "scaled_fp8"))
    }
    files = [
        single_files.save(weights, tmp_path / f"{name}.safetensors")
        for name, weights in (("narrow", narrow), ("wide", wide))
    ]
    assert files[0].stat().st_size < files[1].stat().st_size / 2
    first, second = (DiffusersBackend(str(file), base_model=str(model)) for file in files)
    assert first.plan.need == second.plan.need
    assert await same_picture(first, second, store)


async def test_eight_bits_without_factors_and_lora_and_narrow_layers(
    models: Callable[[str], Path], tmp_path: Path, store: ImageStore
) -> None:
    model = models("z-image")
    weights = {
        name: tensor.to(torch.float8_e5m2) if tensor.ndim == 2 else tensor
        for name, tensor in single_files.whole("z-image", model).items()
    }
    file = single_files.save(weights, tmp_path / "narrow.safetensors")
    lora = build_lora(tmp_path / "lora", model, ZImagePipeline, "transformer")
    options: dict[str, Any] = {"base_model": str(model), "device": "cpu"}
    plain = DiffusersBackend(str(file), **options)
    changed = DiffusersBackend(
        str(file), loras=[LoraSpec(repository=str(lora))],
        quantization=QuantizationSpec(method="layerwise-float8"), **options,
    )  # fmt: skip
    assert re.fullmatch(r"transformer in float8 .*, LoRA \w+ × 1 \(\d+ layers\)", changed.loading)
    assert not await same_picture(plain, changed, store)


def small_architecture(model: Path, repository: str) -> Architecture:
    """The architecture of a small pipeline, whose tokenizers are CLIP's own."""
    index = json.loads((model / "model_index.json").read_text())
    parts = {}
    for name, entry in index.items():
        if not isinstance(entry, list) or entry[1] is None:
            continue
        place = model / name / "config.json"
        if not place.is_file():
            place = model / name / "scheduler_config.json"
        config = {} if "tokenizer" in name else json.loads(place.read_text())
        parts[name] = {"class": ".".join(entry), "config": config}
    return Architecture.model_validate(
        {
            "repository": repository, "source": "", "format": "F32", "parts": parts,
            "pipeline": index["_class_name"],
        }
    )  # fmt: skip


@pytest.mark.parametrize("family", ["sd15", pytest.param("sdxl", marks=pytest.mark.slow)])
async def test_a_file_of_stable_diffusion_needs_nothing_besides(
    tmp_path: Path, store: ImageStore, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = BUILDERS[family](tmp_path / "model", words=clip_tokenizer())
    (layout,) = (
        one for one in LAYOUTS if one.built_in and ("XL" in one.title) == (family == "sdxl")
    )
    repository = layout.repository({}, "")
    known = {repository: small_architecture(model, repository)}
    monkeypatch.setattr(module, "read_architectures", lambda: known)
    file = single_files.save(single_files.whole(family, model), tmp_path / "mine.safetensors")
    backends = [
        DiffusersBackend(str(place), default_steps=2, default_size=tiny.SIZE, default_guidance=3.0)
        for place in (file, model)
    ]
    assert await same_picture(*backends, store)
    assert needs_of_spec(f"diffusers:{file}") == ()
    # Written once: the next one reads it.
    (place,) = (tmp_path / "cache").rglob("model_index.json")
    before = place.stat().st_mtime_ns
    assert DiffusersBackend(str(file)).fingerprint == DiffusersBackend(str(file)).fingerprint
    assert place.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("repository", "levels", "size"),
    [
        ("stable-diffusion-v1-5/stable-diffusion-v1-5", 4, 512),
        ("stabilityai/stable-diffusion-xl-base-1.0", 3, 1024),
    ],
)
def test_published_checkpoints_fit_the_configurations_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str, levels: int, size: int
) -> None:
    """Of the names and shapes of the whole models; their numbers are holes in the file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    parts = read_architectures()[repository].parts
    empty = {
        name: {
            tensor: torch.empty(one.shape, device="meta")
            for tensor, one in tensors_of(part, "F16").items()
        }
        for name, part in parts.items()
        if part.weighs
    }
    weights = single_files.prefixed(
        "model.diffusion_model.", single_files.unet(empty["unet"], levels, 2)
    )
    weights |= single_files.prefixed(
        "first_stage_model.", single_files.autoencoder(empty["vae"], 4)
    )
    family = "sdxl" if levels == 3 else "sd15"
    for part, (prefix, layout) in single_files.ENCODERS[family].items():
        weights |= single_files.prefixed(prefix, layout(empty[part]))
    weights["model_ema.decay"] = torch.empty((), device="meta")
    marks = {"v_pred": torch.empty(0), "ztsnr": torch.empty(0)} if family == "sdxl" else {}
    file = tmp_path / "Dream v8.safetensors"
    held = (weights | marks).items()
    write_weights(file, {name: Tensor(tuple(one.shape), "F16") for name, one in held})
    spec = {"name": "x", "judges": ["replay:x"], "backend": f"diffusers:{file}"}
    needed = memory_needed(Profile.model_validate(spec), 2**34)
    weights16 = 2 * sum(part.parameters or 0 for part in parts.values())
    assert needed is not None
    assert needed["bytes"] == pytest.approx(1.1 * weights16, rel=1e-3)
    backend = DiffusersBackend(str(file), device="cpu")
    assert backend.features.default_size == (size, size)
    counts = {name: part.parameters for name, part in parts.items() if part.parameters}
    assert backend._needs((size, size)).weights == pytest.approx(counts, rel=1e-3)
    assert backend.count_prompt("a photo of a cat").tokens == 5
    scheduler = json.loads((backend._folder.folder / "scheduler/scheduler_config.json").read_text())
    told = (scheduler.get("prediction_type"), scheduler.get("rescale_betas_zero_snr"))
    assert told == (("v_prediction", True) if marks else (None, None))


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


PUBLISHED = {
    "sd3": "stabilityai/stable-diffusion-3-medium-diffusers",
    "flux": "black-forest-labs/FLUX.1-dev",
    "klein": "black-forest-labs/FLUX.2-klein-4B",
    "z-image": "Tongyi-MAI/Z-Image-Turbo",
}


@pytest.mark.parametrize("family", sorted(PUBLISHED))
def test_what_a_denoiser_lacks_is_told_with_the_command_that_gets_it(
    models: Callable[[str], Path], tmp_path: Path, empty_hub: Path, family: str
) -> None:
    weights = single_files.DENOISERS[family](models(family))
    file = single_files.save(weights, tmp_path / "mine.safetensors")
    with pytest.raises(BackendError) as told:
        _ = DiffusersBackend(str(file)).features
    said = str(told.value)
    assert f"{file} holds the denoiser alone of a " in said
    assert f"the rest comes from {PUBLISHED[family]}, or from a whole model of the family" in said
    assert f"`scenewright models pull diffusers:{file}`" in said
    (need,) = needs_of_spec(f"diffusers:{file}")
    assert (need.repository, need.without) == (PUBLISHED[family], ("transformer",))
    profile = Profile.model_validate(
        {"name": "diffusers:mine", "judges": ["replay:x"], "backend": f"diffusers:{file}"}
    )
    with pytest.raises(BackendError, match=f"models pull diffusers:{file}"):
        require_models(profile, judges=False, report_judges=False)
    assert memory_needed(profile, 2**34) is None


GUIDANCE = {"guidance_in.in_layer.weight": (3072, 256)}
MODULATION = "single_stream_modulation.lin.weight"
LAST_LARGE = "joint_blocks.37.x_block.attn.qkv.weight"


@pytest.mark.parametrize(
    ("family", "tensors", "file", "repository"),
    [
        ("FLUX.2", GUIDANCE | {MODULATION: (18432, 6144)}, "mine", "FLUX.2-dev"),
        ("FLUX.2", {MODULATION: (12288, 4096)}, "mine", "FLUX.2-klein-9B"),
        ("FLUX.2", {MODULATION: (12288, 4096)}, "mine-base", "FLUX.2-klein-base-9B"),
        ("FLUX.2", {MODULATION: (9216, 3072)}, "mine", "FLUX.2-klein-4B"),
        ("FLUX.2", {MODULATION: (9216, 3072)}, "mine-base", "FLUX.2-klein-base-4B"),
        ("FLUX.1", GUIDANCE, "mine", "FLUX.1-dev"),
        ("FLUX.1", GUIDANCE, "my-kontext", "FLUX.1-Kontext-dev"),
        ("FLUX.1", {}, "mine", "FLUX.1-schnell"),
        ("Stable Diffusion 3", {LAST_LARGE: (7296, 2432)}, "a", "stable-diffusion-3.5-large"),
        ("Stable Diffusion 3", {LAST_LARGE: (7296, 2432)}, "turbo", "diffusion-3.5-large-turbo"),
        ("Stable Diffusion 3", {"pos_embed": (1, 384**2, 1536)}, "a", "diffusion-3.5-medium"),
        ("Stable Diffusion 3", {"pos_embed": (1, 192**2, 1536)}, "a", "3-medium-diffusers"),
    ],
)
def test_the_variant_of_a_family_tells_the_repository(
    family: str, tensors: dict[str, tuple[int, ...]], file: str, repository: str
) -> None:
    (layout,) = (one for one in LAYOUTS if one.title == family)
    stored = {name: Stored("F16", shape) for name, shape in tensors.items()}
    assert layout.repository(stored, file).endswith(repository)


async def test_the_rest_comes_from_the_hubs_cache(
    models: Callable[[str], Path], tmp_path: Path, empty_hub: Path, store: ImageStore
) -> None:
    model = models("z-image")
    storage = empty_hub / "models--Tongyi-MAI--Z-Image-Turbo"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs" / "main").write_text("0" * 40)
    bare(model, storage / "snapshots" / ("0" * 40), ["transformer"])
    weights = single_files.DENOISERS["z-image"](model)
    file = single_files.save(weights, tmp_path / "mine.safetensors")
    backend = DiffusersBackend(str(file))
    # The family's distilled model is known by the repository.
    assert backend._folder.distilled
    backends = [backend, DiffusersBackend(str(model))]
    request = RED.model_copy(update={"steps": 2, "guidance": 1.0})
    assert len({await drawn(one, request, store) for one in backends}) == 1
    for one in backends:
        await one.aclose()


def refusal(file: Path, **options: Any) -> str:
    with pytest.raises(BackendError) as told:
        _ = DiffusersBackend(str(file), **options).features
    return str(told.value)


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    def of(name: str, content: bytes) -> str:
        file = tmp_path / name
        file.write_bytes(content)
        said = refusal(file)
        assert said.startswith(str(file))
        return said

    assert "is a pickle, and reading one runs whatever code" in of("a.ckpt", b"PK\x03\x04rest")
    spec = {"name": "x", "judges": ["replay:x"], "backend": f"diffusers:{tmp_path}/a.ckpt"}
    with pytest.raises(BackendError, match="is a pickle"):
        require_models(Profile.model_validate(spec), judges=False, report_judges=False)
    assert "convert it with torch.load(FILE, weights_only=True)" in of("b.pt", b"\x80\x02}q")
    assert "is a pickle" in of("renamed.safetensors", b"PK\x03\x04" + b"0" * 90)
    assert "is a GGUF file" in of("c.gguf", b"GGUF\x03\x00\x00\x00")
    assert "method = 'gguf'" in of("d.safetensors", b"GGUF\x03\x00\x00\x00")
    assert "is a web page in place of a model" in of("e.safetensors", b"<!DOCTYPE html><html>")
    assert "git lfs pull" in of("f.safetensors", b"version https://git-lfs.github.com/spec/v1\n")
    assert "its header should have" in of("g.safetensors", b'{"error": "login needed"}')
    assert "is damaged" in of("h.safetensors", b"")
    assert "is damaged" in of("i.safetensors", (4).to_bytes(8, "little") + b"[{}]")


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path: Path) -> None:
    file, length = tmp_path / "small.safetensors", int.from_bytes(b"\x80\x02", "little")
    header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    text = json.dumps(header).ljust(length)
    file.write_bytes(length.to_bytes(8, "little") + text.encode() + bytes(4))
    assert read_header(file) == {"a": Stored("F32", (1,))}


def test_a_file_that_is_not_there_is_no_repository() -> None:
    assert "there is no model folder 'models/mine.safetensors'" in refusal(
        Path("models/mine.safetensors")
    )
    assert needs_of_spec("diffusers:models/mine.safetensors") == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["lora_unet_a.lora_down.weight"], "is a LoRA, not a model that draws: name it in 'loras'"),
        (["image_proj.proj.weight", "ip_adapter.1.to_k_ip.weight"], "is an IP-Adapter"),
        (["control_model.input_blocks.0.0.weight"], "is a ControlNet"),
        (["encoder.conv_in.weight", "decoder.conv_in.weight"], r"is an autoencoder \(VAE\) alone"),
        (["text_model.encoder.layers.0.mlp.fc1.weight"], "is a text encoder alone"),
        (
            ["double_blocks.0.img_attn.qkv.weight", "double_blocks.0.img_attn.qkv.weight_scale_2"],
            "is a model in four bits",
        ),
        (["something.else.weight"], "is of a family that single files are not read of"),
        (
            ["label_emb.0.0.weight", "conditioner.embedders.0.model.ln_final.weight"],
            "is the refiner of Stable Diffusion XL",
        ),
    ],
)
def test_other_models_are_named(tmp_path: Path, names: list[str], message: str) -> None:
    weights = {name: torch.ones(4, 4) for name in names}
    file = single_files.save(weights, tmp_path / "other.safetensors")
    assert re.search(message, refusal(file))


def test_an_inpainting_model_and_integers_are_refused(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    weights = single_files.whole("sd15", models("sd15"))
    name = "model.diffusion_model.input_blocks.0.0.weight"
    wide = weights | {name: torch.ones(16, 9, 3, 3)}
    said = refusal(single_files.save(wide, tmp_path / "a.safetensors"))
    assert "is an inpainting model, which does not draw from a prompt alone" in said
    whole = weights | {name: weights[name].to(torch.int8)}
    said = refusal(single_files.save(whole, tmp_path / "b.safetensors"))
    assert "stores weights as I8, which is not read" in said


def test_a_file_of_another_size_or_family_or_cut_short_is_told(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    weights = single_files.DENOISERS["klein"](models("klein"))
    file = single_files.save(weights, tmp_path / "klein.safetensors")
    said = refusal(file, base_model=str(models("sd15")))
    assert "is a FLUX.2 model, and" in said
    assert "holds a StableDiffusionPipeline" in said
    assert "is not a ZImageTransformer2DModel" in refusal(
        file, base_model=str(models("z-image"))
    ) or "is not of a ZImage" in refusal(file, base_model=str(models("z-image")))
    name = "img_in.weight"
    wide = weights | {name: torch.cat([weights[name]] * 2, dim=1)}
    said = refusal(
        single_files.save(wide, tmp_path / "wide.safetensors"), base_model=str(models("klein"))
    )
    assert "is of another size of Flux2Transformer2DModel: x_embedder.weight" in said
    lost = {key: one for key, one in weights.items() if "linear2" not in key}
    said = refusal(
        single_files.save(lost, tmp_path / "lost.safetensors"), base_model=str(models("klein"))
    )
    assert "1 of" in said
    assert "tensors are missing" in said
    file.write_bytes(file.read_bytes()[:-100])
    assert "is damaged (it has" in refusal(file, base_model=str(models("klein")))


def test_settings_that_a_file_does_not_take(models: Callable[[str], Path], tmp_path: Path) -> None:
    model = models("klein")
    weights = single_files.DENOISERS["klein"](model)
    file = single_files.save(weights, tmp_path / "klein.safetensors")
    narrow = QuantizationSpec(method="gguf", repository="a.gguf")
    said = refusal(file, base_model=str(model), quantization=narrow)
    assert "use 'layerwise-float8', or name the whole model" in said
    assert "is no single file" in refusal(model, base_model=str(model))
    spec = BackendSpec.model_validate({"model": str(file), "base_model": "a/b"})
    assert BackendSpec.model_validate(spec.model_dump()) == spec
    with pytest.raises(ValueError, match="base_model: only for models on this machine"):
        BackendSpec.model_validate({"kind": "openai", "model": "m", "base_model": "a/b"})

"""LoRAs made by peft, on tiny models."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from diffusers import (
    DiffusionPipeline,
    Flux2KleinPipeline,
    QwenImagePipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    ZImagePipeline,
)
from peft import LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file, save_file

from scenewright.agents.panel.panel import Panel
from scenewright.config.local_images import LoraSpec, QuantizationSpec
from scenewright.config.profiles import BUILT_IN, BackendSpec
from scenewright.config.settings import Settings
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.runs.model_factory.profiles import build_run_models
from scenewright.runs.session import models_of
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import needs_of
from scenewright.tools.backends.model_folder import ModelFolder
from tests.tools.backends import tiny, tiny_families, tiny_modern
from tests.tools.backends.conformance import RED, BackendConformance, drawn

FILE = "pytorch_lora_weights.safetensors"


def build_lora(
    folder: Path, model: Path, kind: type[DiffusionPipeline], part: str, **changes: Any
) -> Path:
    """Saves a LoRA of random weights for a part of ``model``, as peft and diffusers do."""
    index = json.loads((model / "model_index.json").read_text())
    denoiser = getattr(diffusers, index[part][1]).from_pretrained(model / part)
    options: dict[str, Any] = {"r": 2, "lora_alpha": 2, "target_modules": ["to_q", "to_v"]}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        denoiser.add_adapter(LoraConfig(init_lora_weights=False, **options | changes))
        layers = get_peft_model_state_dict(denoiser)
    kind.save_lora_weights(folder, **{f"{part}_lora_layers": layers})
    return folder


def layers(folder: Path) -> int:
    """How many layers the LoRA in ``folder`` changes."""
    return sum("lora_A" in name for name in load_file(folder / FILE))


@pytest.fixture(scope="module")
def xl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny SDXL and a LoRA for it; its tokenizers are as long as the published ones'."""
    folder = tmp_path_factory.mktemp("lora")
    model = tiny.build_xl_model(folder / "model", words=tiny.tokenizer(77))
    return model, build_lora(folder / "lora", model, StableDiffusionXLPipeline, "unet")


@pytest.fixture(scope="module")
def klein(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("lora")
    model = tiny_modern.build_klein(folder / "model")
    return model, build_lora(folder / "lora", model, Flux2KleinPipeline, "transformer")


def backend_of(files: tuple[Path, Path], **lora: Any) -> DiffusersBackend:
    model, folder = files
    return DiffusersBackend(str(model), loras=[LoraSpec(repository=str(folder), **lora)])


class WithLora(BackendConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls, make_backend: Callable[[], DiffusersBackend]) -> Iterator[DiffusersBackend]:
        shared = make_backend()
        yield shared
        asyncio.run(shared.aclose())


class TestSdxlWithLora(WithLora):
    @pytest.fixture(scope="class")
    @classmethod
    def make_backend(cls, xl: tuple[Path, Path]) -> Callable[[], DiffusersBackend]:
        return lambda: backend_of(xl, weight=0.8)


class TestKleinWithLora(WithLora):
    @pytest.fixture(scope="class")
    @classmethod
    def make_backend(cls, klein: tuple[Path, Path]) -> Callable[[], DiffusersBackend]:
        return lambda: backend_of(klein, weight_name=FILE, triggers=("pixel art",))


@pytest.mark.slow
@pytest.mark.parametrize("files", ["xl", "klein"])
async def test_a_lora_changes_pictures_by_its_weight_and_is_told(
    files: str, store: ImageStore, request: pytest.FixtureRequest
) -> None:
    model, lora = request.getfixturevalue(files)
    backends = [
        DiffusersBackend(str(model)),
        *(backend_of((model, lora), weight=weight) for weight in (0.0, 0.5, 1.0)),
    ]
    plain, nothing, half, whole = [await drawn(backend, RED, store) for backend in backends]
    assert plain == nothing
    assert len({plain, half, whole}) == 3
    assert len({backend.fingerprint for backend in backends}) == 4
    count = layers(lora)
    assert (backends[0].loading, backends[2].loading) == (
        "",
        f"LoRA {Path(FILE).stem} × 0.5 ({count} layers)",
    )
    told = await backends[2].generate(RED, store.get)
    assert told.details["loras"] == backends[2].loading
    for backend in backends:
        await backend.aclose()


async def test_the_manifest_and_so_the_page_tell_how_a_profile_loads(
    xl: tuple[Path, Path],
) -> None:
    spec = BackendSpec(
        model=str(xl[0]), loras=(LoraSpec(repository=str(xl[1])),), device="cpu",
        quantization=QuantizationSpec(method="layerwise-float8"),
    )  # fmt: skip
    profile = BUILT_IN["miniature"].model_copy(update={"backend": spec})
    run_models = await build_run_models(profile, settings=Settings())
    found = models_of(run_models, Panel.of(profile, run_models.loop_judges), realism=False)
    told = f"unet in float8 (layerwise), LoRA {Path(FILE).stem} × 1 ({layers(xl[1])} layers)"
    assert found["backend"]["loading"] == told


async def test_the_weights_are_those_of_the_formula(xl: tuple[Path, Path]) -> None:
    model, lora = xl
    backend = backend_of(xl, weight=0.5)
    await backend.load()
    assert backend._ready is not None
    name = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
    fused = backend._ready.pipe.unet.get_submodule(name).weight
    before = load_file(model / "unet" / "diffusion_pytorch_model.safetensors")[f"{name}.weight"]
    found = load_file(lora / FILE)
    change = found[f"unet.{name}.lora_B.weight"] @ found[f"unet.{name}.lora_A.weight"]
    torch.testing.assert_close(fused, before + 0.5 * change)
    await backend.aclose()


@pytest.mark.slow
async def test_several_loras_add_up(xl: tuple[Path, Path], store: ImageStore) -> None:
    model, lora = xl
    half = LoraSpec(repository=str(lora), weight=0.5)
    twice = DiffusersBackend(str(model), loras=[half, half])
    image = (await twice.generate(RED, store.get)).image
    assert twice.loading.count("× 0.5") == 2
    once = backend_of(xl)
    other = (await once.generate(RED, store.get)).image
    difference = max(abs(a - b) for a, b in zip(image.tobytes(), other.tobytes(), strict=True))
    assert difference <= 2
    for backend in (twice, once):
        await backend.aclose()


@pytest.mark.slow
async def test_trigger_words_stand_at_the_end_and_are_counted(
    klein: tuple[Path, Path], store: ImageStore
) -> None:
    plain, worded = backend_of(klein), backend_of(klein, triggers=("pixel art", "dot"))
    end = ", pixel art, dot"
    reader = plain.features.prompt_tokens
    needed = plain.count_prompt(end).tokens
    assert reader is not None
    assert worded.features.prompt_tokens == reader - needed
    told = await worded.generate(RED, store.get)
    assert told.prompt == "red dog" + end
    assert told.count == plain.count_prompt("red dog")
    same = RED.model_copy(update={"prompt": "red dog" + end})
    assert await drawn(worded, RED, store) == await drawn(plain, same, store)
    # What is too long is cut before the words, so that they are always read.
    long = await worded.generate(RED.model_copy(update={"prompt": "red dog " * reader}), store.get)
    assert long.prompt.endswith(end)
    assert plain.count_prompt(long.prompt).dropped == 0
    assert long.count is not None
    assert long.count.dropped == long.count.tokens - worded.features.prompt_tokens
    for backend in (plain, worded):
        await backend.aclose()


def test_trigger_words_without_room_are_refused(klein: tuple[Path, Path]) -> None:
    backend = backend_of(klein, triggers=("word " * 500,))
    with pytest.raises(BackendError, match=r"trigger words of the LoRAs have \d+ tokens"):
        _ = backend.features


def test_a_lora_of_another_family_is_refused_before_weights_are_read(
    tmp_path: Path, xl: tuple[Path, Path], klein: tuple[Path, Path]
) -> None:
    z_image = tiny_modern.build_z_image(tmp_path / "z")
    for_z = build_lora(tmp_path / "lora", z_image, ZImagePipeline, "transformer")
    for model, lora in ((xl[0], klein[1]), (klein[0], xl[1]), (klein[0], for_z), (z_image, xl[1])):
        with pytest.raises(BackendError, match=r"is not (made for|one that) \w+Pipeline"):
            _ = backend_of((model, lora)).features


def test_a_lora_of_another_width_is_refused(tmp_path: Path, xl: tuple[Path, Path]) -> None:
    """As one for SD 1.5 on SDXL: names of layers that agree, with other widths."""
    weights = load_file(xl[1] / FILE)
    wide = {name: torch.cat([one, one], dim=1) for name, one in weights.items() if "lora_A" in name}
    save_file(weights | wide, tmp_path / FILE)
    with pytest.raises(BackendError, match=r"channels in the model and \d+ in the LoRA"):
        _ = backend_of((xl[0], tmp_path)).features


OUTSIDE = Path(__file__).parents[4] / "shared/data/outside/lora-half-foreign/half.safetensors"


async def half_taken(lora: Path, model: Path, store: ImageStore) -> None:
    """Asserts that half of the four layers of ``lora`` fit ``model``, and what is told of it."""
    with pytest.raises(BackendError, match=r"2 of the 4 layers of the LoRA .*, such as text_enc"):
        _ = backend_of((model, lora)).features
    backend, plain = backend_of((model, lora), partial=True), DiffusersBackend(str(model))
    assert backend.loading == f"LoRA {lora.stem} × 1 (2 of 4 layers)"
    told = await backend.generate(RED, store.get)
    assert told.details["loras"] == backend.loading
    assert told.image.tobytes() != (await plain.generate(RED, store.get)).image.tobytes()
    for one in (backend, plain):
        await one.aclose()


async def test_a_lora_of_which_half_belongs_to_the_model_is_refused_unless_told(
    tmp_path: Path, xl: tuple[Path, Path], store: ImageStore
) -> None:
    weights = list(load_file(xl[1] / FILE).items())[:4]
    foreign = {name.replace("unet.", "text_encoder_3."): one.clone() for name, one in weights}
    file = tmp_path / "half.safetensors"
    save_file(dict(weights) | foreign, file)
    await half_taken(file, xl[0], store)


@pytest.mark.skipif(not OUTSIDE.is_file(), reason="the file from outside is not here")
async def test_the_half_lora_from_outside(tmp_path: Path, store: ImageStore) -> None:
    wide = tiny.unet(block_out_channels=(48, 48))
    model = tiny.build_model(tmp_path / "model")
    wide.save_pretrained(model / "unet")
    await half_taken(OUTSIDE, model, store)


async def test_layers_of_the_text_encoder_count(tmp_path: Path, tiny_model: Path) -> None:
    """As kohya names them; the count is that of the layers that compute with the LoRA."""
    stems = [
        "lora_te_text_model_encoder_layers_0_self_attn_q_proj",
        "lora_te_text_model_encoder_layers_0_self_attn_out_proj",
        "lora_te_text_model_encoder_layers_1_mlp_fc1",
        "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q",
    ]
    widths = [(tiny.TEXT_WIDTH, tiny.TEXT_WIDTH)] * 2 + [(tiny.TEXT_WIDTH, 32), (16, 16)]
    weights = {}
    for stem, (into, out) in zip(stems, widths, strict=True):
        weights[f"{stem}.lora_down.weight"] = torch.ones(2, into)
        weights[f"{stem}.lora_up.weight"] = torch.ones(out, 2)
        weights[f"{stem}.alpha"] = torch.tensor(2.0)
    file = tmp_path / "kohya.safetensors"
    save_file(weights, file)
    backend = backend_of((tiny_model, file))
    assert backend.loading == "LoRA kohya × 1 (4 layers)"
    pipe = StableDiffusionPipeline.from_pretrained(tiny_model)
    pipe.load_lora_weights(str(tmp_path), weight_name=file.name)
    found = [
        name
        for part in (pipe.unet, pipe.text_encoder)
        for name, module in part.named_modules()
        if hasattr(module, "lora_A")
    ]
    assert len(found) == 4


@pytest.mark.slow
async def test_the_layout_of_kohya_is_read(
    tmp_path: Path, xl: tuple[Path, Path], store: ImageStore
) -> None:
    """The layout of most published LoRAs, SDXL-Lightning's too."""
    weights = {}
    for name, tensor in load_file(xl[1] / FILE).items():
        layer, _, side = name.removeprefix("unet.").removesuffix(".weight").rpartition(".")
        stem = f"lora_unet_{layer.replace('.', '_')}"
        weights[f"{stem}.{'lora_down' if side == 'lora_A' else 'lora_up'}.weight"] = tensor
        weights[f"{stem}.alpha"] = torch.tensor(2.0)
    save_file(weights, tmp_path / "kohya.safetensors")
    kohya, peft = backend_of((xl[0], tmp_path / "kohya.safetensors")), backend_of(xl)
    assert await drawn(kohya, RED, store) == await drawn(peft, RED, store)
    for backend in (kohya, peft):
        await backend.aclose()


def test_a_class_that_takes_no_lora_is_refused(tmp_path: Path, xl: tuple[Path, Path]) -> None:
    model = tiny_modern.build_longcat(tmp_path / "model")
    with pytest.raises(BackendError, match="LongCatImagePipeline takes no LoRA"):
        _ = backend_of((model, xl[1])).features


def test_a_lora_that_is_not_there_is_told(tmp_path: Path, xl: tuple[Path, Path]) -> None:
    model, lora = xl
    empty = tmp_path / "empty"
    empty.mkdir()
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(b"no tensors")
    for place, name, message in (
        (lora, "other.safetensors", "other.safetensors is missing"),
        (lora, "weights.bin", r"is not a \*.safetensors file, and only these are loaded"),
        (tmp_path / "none.safetensors", "", "none.safetensors is missing"),
        (lora / FILE, FILE, "is a file: leave weight_name out"),
        (empty, "", r"needs weight_name: the folder has 0 \*.safetensors files"),
        ("ByteDance/SDXL-Lightning", "", "needs weight_name"),
        ("ByteDance/SDXL-Lightning", "a.safetensors", "is not on this machine"),
        (damaged, "", "is damaged"),
    ):
        spec = LoraSpec(repository=str(place), weight_name=name)
        with pytest.raises(BackendError, match=message):
            _ = DiffusersBackend(str(model), loras=[spec]).features


def test_the_profile_names_loras_in_short_or_with_their_numbers() -> None:
    spec = BackendSpec.model_validate(
        {"model": "m", "loras": ["a/b", {"repository": "c/d", "weight": 0.5}]}
    )
    assert [one.repository for one in spec.loras] == ["a/b", "c/d"]
    assert spec.loras[1].weight == 0.5
    for wrong in ({"weight": math.inf}, {"weight": 5}, {"triggers": [" "]}, {"repository": ""}):
        with pytest.raises(ValueError, match="loras"):
            BackendSpec.model_validate({"model": "m", "loras": [{"repository": "a"} | wrong]})
    with pytest.raises(ValueError, match="loras: only for models on this machine"):
        BackendSpec.model_validate({"kind": "openai", "model": "m", "loras": ["a/b"]})


def test_weights_beside_the_denoiser_count_in_the_plan(xl: tuple[Path, Path]) -> None:
    model = ModelFolder.open(xl[0])
    plain = needs_of(model, tiny.SIZE)
    beside = needs_of(model, tiny.SIZE, beside=[xl[1] / FILE])
    numbers = sum(tensor.numel() for tensor in load_file(xl[1] / FILE).values())
    assert beside.weights["unet"] == plain.weights["unet"] + numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "guidance", "scheduler"),
    [
        ("sdxl_lightning_4step_lora", 4, 0.0, "EulerDiscreteScheduler"),
        ("Hyper-SDXL-8steps-lora", 8, 0.0, "DDIMScheduler"),
        ("Hyper-SDXL-8steps-CFG-lora", 8, 5.0, "DDIMScheduler"),
        ("dmd2_sdxl_4step_lora_fp16", 4, 0.0, "LCMScheduler"),
    ],
)
async def test_a_lora_for_few_steps_brings_its_schedule(
    tmp_path: Path, xl: tuple[Path, Path], store: ImageStore, name: str, steps, guidance, scheduler
) -> None:
    file = tmp_path / f"{name}.safetensors"
    file.write_bytes((xl[1] / FILE).read_bytes())
    backend, plain = backend_of((xl[0], file)), backend_of(xl)
    features = backend.features
    assert (features.default_steps, features.default_guidance) == (steps, guidance)
    told = await backend.generate(RED, store.get)
    assert (told.steps, told.details["scheduler"]) == (steps, scheduler)
    assert backend._ready is not None
    # The steps that these models were distilled at: from the noisiest in equal strides.
    times = [int(at) for at in backend._ready.pipe.scheduler.timesteps]
    assert times == [999 - at * 1000 // steps for at in range(steps)]
    assert backend.fingerprint != plain.fingerprint
    # What is asked for has precedence.
    own = DiffusersBackend(
        str(xl[0]), loras=[LoraSpec(repository=str(file))], default_steps=3,
        default_guidance=2.0, scheduler="HeunDiscreteScheduler",
    )  # fmt: skip
    assert (own.features.default_steps, own.features.default_guidance) == (3, 2.0)
    assert (await own.generate(RED, store.get)).details["scheduler"] == "HeunDiscreteScheduler"
    for one in (backend, own):
        await one.aclose()


async def test_qwen_image_lightning_ends_where_the_noise_ends(
    tmp_path: Path, store: ImageStore
) -> None:
    model = tiny_families.build_qwen(tmp_path / "model")
    made = build_lora(tmp_path / "made", model, QwenImagePipeline, "transformer")
    file = (made / FILE).rename(made / "Qwen-Image-Lightning-4steps-V1.0.safetensors")
    backend = backend_of((model, file))
    assert (backend.features.default_steps, backend.features.default_guidance) == (4, 1.0)
    assert (await backend.generate(RED, store.get)).steps == 4
    assert backend._ready is not None
    # A shift of 3: s = 3 t / (1 + 2 t) at t = 1, 3/4, 1/2, 1/4.
    sigmas = backend._ready.pipe.scheduler.sigmas.tolist()
    assert sigmas == pytest.approx([1.0, 0.9, 0.75, 0.5, 0.0], abs=1e-4)
    await backend.aclose()

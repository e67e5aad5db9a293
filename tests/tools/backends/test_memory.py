"""Plans of memory: what fits, what is chosen, what overrides it, and that pictures stay equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, UNet2DConditionModel
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch._subclasses.fake_tensor import FakeTensorMode

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, GenerationRequest, Reference, Start
from scenewright.tools.backends.adapter import AdapterFolder
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import (
    ITEM_BYTES,
    MemoryPlan,
    Needs,
    free_memory,
    needs_of,
    plan_memory,
    usable,
)
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.placing import slice_up
from tests.tools.backends import tiny
from tests.tools.backends.live_memory import LiveMemory

SIZES = st.integers(0, 2**40)
NEEDS = st.builds(
    Needs,
    weights=st.dictionaries(
        st.sampled_from(["unet", "vae", "text_encoder", "image_encoder"]),
        SIZES,
        min_size=1,
    ),
    denoiser=st.just("unet"),
    largest=SIZES,
    steps=SIZES,
    decoding=SIZES,
    tile=SIZES,
    matrix=SIZES,
)
DTYPES = st.sampled_from([("float32", "bfloat16"), ("float16",), ("float32",)])
XL_UNET: dict[str, Any] = {
    "sample_size": 128,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "attention_head_dim": (5, 10, 20),
    "block_out_channels": (320, 640, 1280),
    "cross_attention_dim": 2048,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "projection_class_embeddings_input_dim": 2816,
    "transformer_layers_per_block": (1, 2, 10),
    "use_linear_projection": True,
}


def needs(**changes: Any) -> Needs:
    options: dict[str, Any] = {
        "weights": {"unet": 2_500, "vae": 80, "text_encoder": 800},
        "denoiser": "unet",
        "largest": 40,
        "steps": 200,
        "decoding": 1_000,
        "tile": 250,
    }
    return Needs(**options | changes)


@given(NEEDS, SIZES, DTYPES, st.booleans())
def test_a_plan_that_was_chosen_fits(
    wanted: Needs, free: int, dtypes: tuple[str, ...], accelerator: bool
) -> None:
    try:
        plan = plan_memory(wanted, free, dtypes=dtypes, accelerator=accelerator)
    except BackendError:
        everything = [
            wanted.peak(offload, sliced) * ITEM_BYTES[dtype]
            for offload in (("none", "parts", "layers") if accelerator else ("none",))
            for sliced in (False, True)
            for dtype in dtypes
        ]
        assert min(everything) > usable(free)
    else:
        assert plan.fits
        assert plan.need == wanted.peak(plan.offload, plan.slicing) * ITEM_BYTES[plan.dtype]
        assert accelerator or plan.offload == "none"


@given(NEEDS, SIZES, SIZES, DTYPES)
def test_less_memory_never_chooses_more(
    wanted: Needs, one: int, other: int, dtypes: tuple[str, ...]
) -> None:
    plans = []
    for free in sorted((one, other)):
        try:
            plans.append(plan_memory(wanted, free, dtypes=dtypes))
        except BackendError:
            plans.append(None)
    little, much = plans
    assert much is not None or little is None
    if little is not None and much is not None:
        assert little.need <= much.need
        assert not (little.offload == "none" and much.offload != "none")


@given(NEEDS, SIZES, st.sampled_from(["none", "parts", "layers"]), st.booleans())
def test_overrides_win(wanted: Needs, free: int, offload: Any, slicing: bool) -> None:
    plan = plan_memory(wanted, free, dtypes=("float16",), offload=offload, slicing=slicing)
    assert (plan.offload, plan.slicing, plan.dtype) == (offload, slicing, "float16")
    assert ("more than fits" in plan.describe()) is not plan.fits


@pytest.mark.parametrize(
    ("free", "offload", "slicing"),
    [
        (10_000, "none", False),
        (8_500, "none", True),
        (6_200, "parts", False),
        (1_200, "layers", True),
    ],
)
def test_the_fastest_plan_that_fits_is_chosen(free: int, offload: str, slicing: bool) -> None:
    plan = plan_memory(needs(), free, dtypes=("bfloat16",))
    assert (plan.offload, plan.slicing) == (offload, slicing)


def test_the_cpu_takes_a_smaller_format_before_it_gives_up() -> None:
    both = ("float32", "bfloat16")
    chosen = [
        plan_memory(needs(), free, dtypes=both, accelerator=False).dtype
        for free in (30_000, 10_000)
    ]
    assert chosen == ["float32", "bfloat16"]
    with pytest.raises(BackendError, match=r"about 0 MiB .*\(bfloat16\).*smaller size"):
        plan_memory(needs(), 5_000, dtypes=both, accelerator=False)
    with pytest.raises(BackendError, match="offload is 'parts', but the model runs in main memory"):
        plan_memory(needs(), 10**9, dtypes=both, accelerator=False, offload="parts")


@given(NEEDS, SIZES, st.integers(1, 8))
def test_a_batch_fits_or_is_one_picture(wanted: Needs, free: int, most: int) -> None:
    plan = MemoryPlan("float16", "none", False, 0, free)
    count = plan.images_at_once(wanted, most)
    assert 1 <= count <= most
    assert count == 1 or wanted.peak("none", False, count) * 2 <= usable(free)


def test_needs_are_read_from_headers(tiny_model: Path, tiny_adapter: Path) -> None:
    folder = ModelFolder.open(tiny_model)
    adapter = AdapterFolder.open(AdapterSpec(repository=str(tiny_adapter)))
    plain, adapted = needs_of(folder, (32, 32)), needs_of(folder, (32, 32), adapter)
    unet = sum(tensor.numel() for tensor in tiny.unet().state_dict().values())
    added = [
        t.numel() for part in tiny.adapter_weights(tiny.unet()).values() for t in part.values()
    ]
    encoder = sum(tensor.numel() for tensor in tiny.image_encoder().state_dict().values())
    assert plain.weights["unet"] == unet
    assert set(plain.weights) == {"unet", "vae", "text_encoder"}
    assert adapted.weights["unet"] == unet + sum(added)
    assert adapted.weights["image_encoder"] == encoder
    assert adapted.largest >= plain.largest >= max(t.numel() for t in tiny.unet().parameters())
    twice = needs_of(folder, (64, 32))
    assert (twice.steps, twice.decoding) == (2 * plain.steps, 2 * plain.decoding)
    assert plain.matrix == 0
    assert needs_of(folder, (32, 32), device="mps").matrix == 8 * 64**2


def test_a_damaged_header_is_told(tiny_model: Path, tmp_path: Path) -> None:
    folder = ModelFolder.open(tiny_model)
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{broken}")
    broken = folder.model_copy(update={"folder": tmp_path, "parts": ("unet",)})
    with pytest.raises(BackendError, match=r"model\.safetensors is damaged"):
        needs_of(broken, (32, 32))


def test_free_main_memory_is_what_the_system_says() -> None:
    assert 2**20 < free_memory(torch.device("cpu")) < psutil.virtual_memory().total


@pytest.mark.parametrize("size", [(32, 32), (64, 64), (96, 32)])
def test_the_estimate_is_not_below_what_a_drawing_holds(
    tiny_model: Path, size: tuple[int, int]
) -> None:
    from scenewright.tools.backends.pipeline import build

    folder = ModelFolder.open(tiny_model)
    pipe = build(folder, torch.device("cpu"), torch.float32)
    with (
        torch.no_grad(),
        LiveMemory(*(m for m in pipe.components.values() if _is_model(m))) as live,
    ):
        pipe("red dog", num_inference_steps=2, width=size[0], height=size[1], output_type="np")
    wanted = needs_of(folder, size)
    estimate = (wanted.peak("none", False) - wanted.total) * 4
    # Prompts, schedulers and small constants weigh in a tiny model.
    assert 0.3 * estimate < live.peak < estimate + 2**17


@pytest.mark.parametrize("kind", ["sdxl", "flux", "vae"])
def test_estimates_hold_at_published_sizes(kind: str, tmp_path: Path) -> None:
    """The real classes at 1024×1024 pixels, run without numbers."""
    cls: Any
    part, cls, options = {
        "sdxl": ("unet", UNet2DConditionModel, XL_UNET),
        "flux": ("transformer", FluxTransformer2DModel, {"num_layers": 2, "num_single_layers": 2}),
        "vae": (
            "vae",
            AutoencoderKL,
            {
                "block_out_channels": (128, 256, 512, 512),
                "down_block_types": ("DownEncoderBlock2D",) * 4,
                "up_block_types": ("UpDecoderBlock2D",) * 4,
                "layers_per_block": 2,
            },
        ),
    }[kind]
    zeros = torch.zeros
    calls: dict[str, Callable[[Any], Any]] = {
        "sdxl": lambda m: m(
            zeros(2, 4, 128, 128),
            torch.tensor(7),
            zeros(2, 77, 2048),
            added_cond_kwargs={"text_embeds": zeros(2, 1280), "time_ids": zeros(2, 6)},
        ),
        "flux": lambda m: m(
            zeros(1, 4096, 64),
            zeros(1, 512, 4096),
            zeros(1, 768),
            zeros(1),
            img_ids=zeros(4096, 3),
            txt_ids=zeros(512, 3),
        ),
        "vae": lambda m: m.decode(zeros(1, 4, 128, 128)),
    }
    with FakeTensorMode():
        model = cls(**options).eval().requires_grad_(False)
        with torch.no_grad(), LiveMemory(model) as live:
            calls[kind](model)
        model.save_config(tmp_path / part)
    folder = ModelFolder(
        folder=tmp_path,
        pipeline_class="",
        parts=(part,),
        multiple=8,
        native_size=(1024, 1024),
        defaults={},
    )
    wanted = needs_of(folder, (1024, 1024))
    # A step is estimated for both halves of the guidance; Flux has one.
    estimate = {"sdxl": wanted.steps, "flux": wanted.steps // 2, "vae": wanted.decoding}[kind] * 4
    assert 0.4 * estimate < live.peak < estimate


def test_a_large_autoencoder_works_in_tiles_below_its_native_size() -> None:
    torch.manual_seed(0)
    options = {"block_out_channels": (8, 8, 8), "norm_num_groups": 4, "sample_size": 1024}
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        **options,
    )
    slice_up(SimpleNamespace(vae=vae))
    assert (vae.tile_sample_min_size, vae.tile_latent_min_size) == (512, 128)
    with torch.no_grad():
        latents = torch.randn(2, 4, 144, 16)
        tiled = vae.decode(latents).sample
        vae.disable_tiling()
        whole = vae.decode(latents).sample
    assert tiled.shape == whole.shape == (2, 3, 576, 64)
    assert 0 < (tiled - whole).abs().max() < 0.5


def _is_model(part: Any) -> bool:
    return isinstance(part, torch.nn.Module)


@pytest.fixture
async def plain(tiny_model: Path, tiny_adapter: Path) -> Any:
    backend = DiffusersBackend(
        str(tiny_model), ip_adapter=AdapterSpec(repository=str(tiny_adapter)), device="cpu"
    )
    yield backend
    await backend.aclose()


def asked(pictures: list[str]) -> list[GenerationRequest]:
    both = (Reference(image=pictures[0], weight=0.5), Reference(image=pictures[1], weight=0.3))
    return [
        GenerationRequest(prompt="red dog", seed=1),
        GenerationRequest(prompt="red dog", seed=1, references=both),
        GenerationRequest(
            prompt="red dog",
            seed=2,
            start=Start(image=pictures[0], strength=0.8, mask=pictures[1]),
        ),
        GenerationRequest(prompt="red dog", seed=1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offload", "slicing"), [("parts", False), ("layers", False), ("none", True), ("layers", True)]
)
async def test_placement_does_not_change_the_picture(
    plain: DiffusersBackend,
    tiny_model: Path,
    tiny_adapter: Path,
    store: ImageStore,
    pictures: list[str],
    offload: Any,
    slicing: bool,
) -> None:
    """Main memory stands for the device too: what moves, and when, is the same."""
    placed = DiffusersBackend(
        str(tiny_model), ip_adapter=AdapterSpec(repository=str(tiny_adapter)), device="cpu"
    )
    placed.__dict__["plan"] = MemoryPlan("float32", offload, slicing, 2**20, 2**30)
    try:
        for request in asked(pictures):
            expected = await plain.generate(request, store.get)
            drawn = await placed.generate(request, store.get)
            far = np.abs(np.asarray(drawn.image, int) - np.asarray(expected.image, int)).max()
            assert far <= 1
            assert drawn.details["offload"] == offload
            assert drawn.details["slicing"] == slicing
            assert drawn.details["memory_estimate_mib"] == 1
    finally:
        await placed.aclose()


async def test_what_changes_pixels_changes_the_fingerprint(tiny_model: Path) -> None:
    options: list[dict[str, Any]] = [{}, {"slicing": True}, {"compile": True}, {"slicing": False}]
    prints = [DiffusersBackend(str(tiny_model), device="cpu", **o).fingerprint for o in options]
    assert len(set(prints)) == 3
    assert prints[0] == prints[3]


async def test_a_model_that_fits_nowhere_is_told_before_it_is_loaded(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenewright.tools.backends.diffusers.free_memory", lambda device: 10_000)
    backend = DiffusersBackend(str(tiny_model), device="cpu")
    with pytest.raises(BackendError, match="smallest form"):
        await backend.generate(
            GenerationRequest(prompt="x", seed=0), lambda name: Image.new("L", (1, 1))
        )
    await backend.aclose()

"""The diffusers backend over tiny pipelines of the real classes."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline, StableDiffusionPipeline, StableDiffusionXLPipeline
from PIL import Image
from safetensors.torch import load_file, save_file

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, GenerationRequest, PromptCount, Reference
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny
from tests.tools.backends.conformance import (
    RED,
    BackendConformance,
    drawn,
    no_images,
    with_references,
)


@pytest.fixture(scope="module")
def make_backend(tiny_model: Path, tiny_adapter: Path) -> Callable[..., DiffusersBackend]:
    def make(**options: Any) -> DiffusersBackend:
        source = AdapterSpec(repository=str(tiny_adapter))
        return DiffusersBackend(str(tiny_model), **{"ip_adapter": source, **options})

    return make


@pytest.fixture(scope="module")
def backend(make_backend: Callable[..., DiffusersBackend]) -> Iterator[DiffusersBackend]:
    shared = make_backend()
    yield shared
    asyncio.run(shared.aclose())


class TestWithReferences(BackendConformance):
    """The pipeline with its IP-Adapter."""


class TestWithoutAdapter(BackendConformance):
    """The pipeline alone, with a small decoder."""

    @pytest.fixture(scope="class")
    @classmethod
    def make_backend(
        cls, tmp_path_factory: pytest.TempPathFactory
    ) -> Callable[..., DiffusersBackend]:
        folder = tiny.build_model(tmp_path_factory.mktemp("model") / "small-decoder", "tiny")
        return lambda **options: DiffusersBackend(str(folder), **options)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls, make_backend: Callable[..., DiffusersBackend]) -> Iterator[DiffusersBackend]:
        shared = make_backend()
        yield shared
        asyncio.run(shared.aclose())


async def test_two_text_encoders_work_alike(
    tmp_path: Path, store: ImageStore, pictures: list[str]
) -> None:
    model = tiny.build_xl_model(tmp_path / "xl")
    adapter = tiny.build_adapter(tmp_path / "xl-adapter", tiny.xl_unet())
    backend = DiffusersBackend(str(model), ip_adapter=AdapterSpec(repository=str(adapter)))
    plain = await drawn(backend, RED, store)
    request = with_references(pictures, 0.5, -0.75)
    ours = await backend.generate(request, store.get)
    assert await drawn(backend, RED, store) == plain != await drawn(backend, request, store)

    pipe = StableDiffusionXLPipeline.from_pretrained(model, local_files_only=True)
    weights = ["ip-adapter.safetensors"] * 2
    pipe.load_ip_adapter([str(adapter)] * 2, "", weights, local_files_only=True)
    pipe.set_ip_adapter_scale([0.5, -0.75])
    images = [store.get(name) for name in pictures[:2]]
    expected = official_call(pipe, ip_adapter_image=images, width=32, height=32)
    assert difference(ours.image, expected) <= 1
    await backend.aclose()


def official(model: Path, **options: Any) -> Image.Image:
    """The picture that a plain diffusers pipeline gives."""
    pipe = StableDiffusionPipeline.from_pretrained(model, local_files_only=True)
    return official_call(pipe, **options)


def official_call(pipe: DiffusionPipeline, **options: Any) -> Image.Image:
    pipe.set_progress_bar_config(disable=True)
    return pipe(
        prompt=RED.prompt,
        num_inference_steps=3,
        guidance_scale=4.0,
        generator=torch.Generator("cpu").manual_seed(RED.seed),
        **options,
    ).images[0]


def difference(one: Image.Image, two: Image.Image) -> int:
    """Largest difference of any channel of any pixel, 0 to 255."""
    return int(np.abs(np.asarray(one).astype(int) - np.asarray(two).astype(int)).max())


async def test_without_references_it_is_the_pipeline_without_adapter(
    backend: DiffusersBackend,
    tiny_model: Path,
    store: ImageStore,
    pictures: list[str],
) -> None:
    bare = DiffusersBackend(str(tiny_model))
    expected = await drawn(bare, RED, store)
    await bare.aclose()
    await drawn(backend, with_references(pictures, 0.5, 0.5), store)
    assert await drawn(backend, RED, store) == expected
    assert difference((await backend.generate(RED, no_images)).image, official(tiny_model)) <= 1


@pytest.mark.parametrize("weights", [(0.5,), (0.5, -0.75)])
async def test_references_give_what_one_loaded_adapter_each_gives(
    backend: DiffusersBackend,
    tiny_model: Path,
    tiny_adapter: Path,
    store: ImageStore,
    pictures: list[str],
    weights: tuple[float, ...],
) -> None:
    count = len(weights)
    pipe = StableDiffusionPipeline.from_pretrained(tiny_model, local_files_only=True)
    pipe.load_ip_adapter(
        [str(tiny_adapter)] * count,
        subfolder="",
        weight_name=["ip-adapter.safetensors"] * count,
        local_files_only=True,
    )
    pipe.set_ip_adapter_scale(list(weights))
    images = [store.get(name) for name in pictures[:count]]
    expected = official_call(pipe, ip_adapter_image=images)
    result = await backend.generate(with_references(pictures, *weights), store.get)
    assert difference(result.image, expected) <= 1
    assert difference(expected, official(tiny_model)) > 5


async def test_without_guidance_references_work_too(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    plain = await drawn(backend, RED.model_copy(update={"guidance": 0.0}), store)
    changed = await drawn(backend, with_references(pictures, 0.5, guidance=0.0), store)
    assert changed != plain


async def test_masks_bound_a_reference(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    black = store.put(Image.new("RGB", (64, 64), "black"))
    white = store.put(Image.new("RGB", (64, 64), "white"))

    async def masked(mask: str | None) -> bytes:
        one = Reference(image=pictures[0], weight=0.5, mask=mask)
        return await drawn(backend, RED.model_copy(update={"references": (one,)}), store)

    assert await masked(black) == await drawn(backend, RED, store)
    assert await masked(white) == await masked(None) != await masked(black)


async def test_texts_and_pictures_are_encoded_once(
    make_backend: Callable[..., DiffusersBackend], store: ImageStore, pictures: list[str]
) -> None:
    backend = make_backend()
    await backend.load()
    counts = {"text_encoder": 0, "image_encoder": 0}
    for name in counts:

        def count(*_: Any, part: str = name) -> None:
            counts[part] += 1

        getattr(backend._load_pipeline().pipe, name).register_forward_hook(count)
    request = with_references(pictures, 0.5, 0.5)
    first = await backend.generate(request, store.get)
    assert counts == {"text_encoder": 2, "image_encoder": 2}
    again = await backend.generate(
        request.model_copy(update={"references": request.references[::-1], "seed": 99}), no_images
    )
    assert counts == {"text_encoder": 2, "image_encoder": 2}
    assert [first.details[k] for k in ("prompts_reused", "references_reused")] == [0, 0]
    assert [again.details[k] for k in ("prompts_reused", "references_reused")] == [1, 2]
    await backend.generate(request.model_copy(update={"prompt": "a cat"}), no_images)
    assert counts["image_encoder"] == 2
    assert counts["text_encoder"] > 2
    await backend.aclose()


async def test_lost_words_are_counted(backend: DiffusersBackend) -> None:
    short = await backend.generate(RED, no_images)
    long = await backend.generate(RED.model_copy(update={"prompt": "red dog " * 20}), no_images)
    assert short.count == PromptCount(2)
    assert backend.features.prompt_tokens == 16 - 2
    assert long.count == PromptCount(40, 40 - 14, read=len("red dog " * 7) - 1)
    assert long.count.tail("red dog " * 20) == ("red dog " * 13).strip()
    assert backend.count_prompt("red dog " * 20) == long.count
    assert (short.steps, long.steps) == (3, 3)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (GenerationRequest(prompt="x", seed=0, width=32), "give both or none"),
        (GenerationRequest(prompt="x", seed=0, height=32), "give both or none"),
        (
            RED.model_copy(
                update={"references": (Reference.model_construct(image="0" * 64, weight=np.nan),)}
            ),
            "finite",
        ),
        (RED.model_copy(update={"width": 36, "height": 32}), "multiple of 8"),
    ],
)
async def test_what_cannot_be_served_is_told(
    backend: DiffusersBackend, store: ImageStore, request_: GenerationRequest, words: str
) -> None:
    with pytest.raises(BackendError, match=words):
        await backend.generate(request_, store.get)


async def test_a_coarser_decoder_needs_coarser_sizes(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "coarse")
    config = json.loads((folder / "vae" / "config.json").read_text())
    config["block_out_channels"] = [8] * 5
    (folder / "vae" / "config.json").write_text(json.dumps(config))
    backend = DiffusersBackend(str(folder))
    with pytest.raises(BackendError, match=r"not a multiple of 16 pixels.*use 48"):
        await backend.generate(RED.model_copy(update={"width": 40, "height": 32}), no_images)
    await backend.aclose()


async def test_references_without_an_adapter_are_told(tiny_model: Path, store: ImageStore) -> None:
    backend = DiffusersBackend(str(tiny_model))
    with pytest.raises(BackendError, match="give it an IP-Adapter"):
        await backend.generate(with_references(["0" * 64], 0.5), store.get)
    await backend.aclose()


async def test_more_references_can_be_allowed(
    make_backend: Callable[..., DiffusersBackend], store: ImageStore, pictures: list[str]
) -> None:
    backend = make_backend(max_references=3)
    three = await drawn(backend, with_references(pictures, 0.5, 0.5, 0.5), store)
    assert three != await drawn(backend, with_references(pictures, 0.5, 0.5), store)
    await backend.aclose()


async def test_broken_numbers_are_told(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "nan")
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    tensors["conv_out.bias"] = torch.full_like(tensors["conv_out.bias"], float("nan"))
    save_file(tensors, file, {"format": "pt"})
    backend = DiffusersBackend(str(folder))
    with pytest.raises(BackendError, match="not numbers"):
        await backend.generate(RED, no_images)
    await backend.aclose()


async def test_defaults_come_from_the_call_then_the_file_then_the_class(
    tiny_model: Path, tmp_path: Path
) -> None:
    given = DiffusersBackend(
        str(tiny_model), default_steps=5, default_guidance=0.0, default_size=(64, 32)
    ).features
    assert (given.default_steps, given.default_guidance, given.default_size) == (5, 0.0, (64, 32))
    filed = DiffusersBackend(str(tiny_model)).features
    assert (filed.default_steps, filed.default_guidance, filed.default_size) == (3, 4.0, (32, 32))
    folder = shutil.copytree(tiny_model, tmp_path / "bare")
    (folder / "scenewright.json").unlink()
    bare = DiffusersBackend(str(folder)).features
    assert (bare.default_steps, bare.default_guidance, bare.default_size) == (50, 7.5, (32, 32))


async def test_the_fingerprint_follows_what_decides_the_picture(
    make_backend: Callable[..., DiffusersBackend], tiny_model: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "copy")
    here = make_backend().fingerprint
    bare = DiffusersBackend(str(folder)).fingerprint
    assert bare == DiffusersBackend(str(tiny_model)).fingerprint
    (folder / "README.md").write_text("words")
    assert bare == DiffusersBackend(str(folder)).fingerprint
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    tensors["conv_out.bias"] += 1e-3
    save_file(tensors, file, {"format": "pt"})
    others = [
        DiffusersBackend(str(folder)).fingerprint,
        make_backend(default_steps=4).fingerprint,
        make_backend(dtype="bfloat16").fingerprint,
        make_backend(scheduler="DPMSolverMultistepScheduler").fingerprint,
    ]
    assert len({here, bare, *others}) == 6


async def test_schedulers_and_dtypes_can_be_chosen(
    make_backend: Callable[..., DiffusersBackend], store: ImageStore, pictures: list[str]
) -> None:
    backend = make_backend(scheduler="EulerAncestralDiscreteScheduler", dtype="bfloat16")
    request = with_references(pictures, 0.5)
    result = await backend.generate(request, store.get)
    assert result.details["scheduler"] == "EulerAncestralDiscreteScheduler"
    assert result.details["dtype"] == "bfloat16"
    assert await drawn(backend, request, store) == await drawn(backend, request, store)
    await backend.aclose()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scheduler": "NoSuchScheduler"}, "DDIMScheduler"),
        ({"dtype": "float8"}, "unknown dtype"),
        ({"device": "nowhere"}, "cannot be used here"),
    ],
)
async def test_bad_options_are_told(
    make_backend: Callable[..., DiffusersBackend], options: dict[str, Any], words: str
) -> None:
    backend = make_backend(**options)
    with pytest.raises(BackendError, match=words):
        await backend.load()
    await backend.aclose()


def test_no_references_allowed_is_no_choice(make_backend: Callable[..., DiffusersBackend]) -> None:
    with pytest.raises(BackendError, match="at least 1"):
        make_backend(max_references=0)


async def test_loading_and_drawing_are_silent(
    make_backend: Callable[..., DiffusersBackend], capfd: pytest.CaptureFixture[str]
) -> None:
    backend = make_backend()
    await backend.generate(RED.model_copy(update={"prompt": "dog " * 40}), no_images)
    await backend.aclose()
    assert capfd.readouterr() == ("", "")


def test_one_backend_serves_several_event_loops(
    make_backend: Callable[..., DiffusersBackend], store: ImageStore
) -> None:
    backend = make_backend()
    assert asyncio.run(drawn(backend, RED, store)) == asyncio.run(drawn(backend, RED, store))
    asyncio.run(backend.aclose())


async def test_closing_waits_for_the_drawing(
    make_backend: Callable[..., DiffusersBackend],
) -> None:
    backend = make_backend()
    drawing = asyncio.create_task(backend.generate(RED, no_images))
    await asyncio.sleep(0)
    await backend.aclose()
    assert (await drawing).image.size == tiny.SIZE


async def test_closing_frees_the_model_and_searches_for_nothing_where_none_was_loaded(
    make_backend: Callable[..., DiffusersBackend],
) -> None:
    unused, used = make_backend(), make_backend()
    assert unused.features.references
    await used.generate(RED, no_images)
    assert used._ready is not None
    model = weakref.ref(used._ready.pipe.unet)
    searches: list[str] = []

    def heard(phase: str, info: dict[str, int]) -> None:
        searches.append(phase)

    gc.disable()
    gc.callbacks.append(heard)
    try:
        await unused.aclose()
        assert not searches
        await used.aclose()
        assert model() is None
    finally:
        gc.callbacks.remove(heard)
        gc.enable()

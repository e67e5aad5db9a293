"""Drawings that start from a picture, on tiny pipelines of the real classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoPipelineForImage2Image, FlowMatchEulerDiscreteScheduler
from PIL import Image

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, GenerationRequest, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.editing import encode_picture
from scenewright.tools.backends.families import Family
from tests.tools.backends import tiny, tiny_families
from tests.tools.backends.conformance import RED, drawn


def started(image: str, strength: float = 0.7, mask: str | None = None) -> GenerationRequest:
    start = Start(image=image, strength=strength, mask=mask)
    return RED.model_copy(update={"start": start, "steps": 5})


def half(store: ImageStore) -> str:
    """A mask, white on the left."""
    mask = Image.new("L", tiny.SIZE)
    mask.paste(255, (0, 0, tiny.SIZE[0] // 2, tiny.SIZE[1]))
    return store.put(mask)


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        tiny.build_model,
        tiny.build_xl_model,
        tiny_families.build_sd3,
        tiny_families.build_flux,
        tiny_families.build_qwen,
    ],
)
async def test_it_is_the_image_to_image_pipeline_of_the_same_weights(
    tmp_path: Path, store: ImageStore, pictures: list[str], build: Callable[[Path], Path]
) -> None:
    model = build(tmp_path / "model")
    backend = DiffusersBackend(str(model))
    ours = (await backend.generate(started(pictures[1]), store.get)).image
    await backend.aclose()
    pipe = AutoPipelineForImage2Image.from_pretrained(model, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    options: dict[str, Any] = {backend._family.guidance: backend.features.default_guidance}
    if "width" in inspect.signature(type(pipe).__call__).parameters:
        options |= {"width": tiny.SIZE[0], "height": tiny.SIZE[1]}
    theirs = pipe(
        prompt=RED.prompt,
        negative_prompt=backend._family.no_negative,
        image=store.get(pictures[1]).resize(tiny.SIZE),
        strength=0.7,
        num_inference_steps=5,
        **options,
        generator=torch.Generator("cpu").manual_seed(RED.seed),
    ).images[0]
    assert np.abs(np.asarray(ours).astype(int) - np.asarray(theirs).astype(int)).max() <= 1


async def test_a_mask_of_all_keeps_nothing_and_one_of_nothing_all(
    tiny_model: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(tiny_model))
    white, black = (store.put(Image.new("L", tiny.SIZE, level)) for level in (255, 0))
    free = await drawn(backend, started(pictures[1]), store)
    assert await drawn(backend, started(pictures[1], mask=white), store) == free
    kept = (await backend.generate(started(pictures[1], mask=black), store.get)).image
    assert kept.tobytes() == store.get(pictures[1]).convert("RGB").resize(tiny.SIZE).tobytes()
    await backend.aclose()


async def test_what_is_drawn_knows_what_stays(
    tiny_model: Path, store: ImageStore, pictures: list[str]
) -> None:
    """The same left half beside two right halves: what is drawn there is not the same."""
    backend = DiffusersBackend(str(tiny_model))
    found = []
    for other in ("navy", "gold"):
        picture = store.get(pictures[1]).convert("RGB").resize(tiny.SIZE)
        picture.paste(other, (tiny.SIZE[0] // 2, 0, *tiny.SIZE))
        request = started(store.put(picture), mask=half(store))
        image = (await backend.generate(request, store.get)).image
        found.append(image.crop((0, 0, tiny.SIZE[0] // 4, tiny.SIZE[1])).tobytes())
    assert found[0] != found[1]
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "scheduler"),
    [
        (tiny_families.build_sd3, "FlowMatchHeunDiscreteScheduler"),
        (tiny_families.build_flux, None),
        (tiny_families.build_kontext, None),
        (tiny_families.build_qwen, None),
    ],
)
async def test_latents_outside_lie_on_the_line_to_the_noise(
    tmp_path: Path,
    store: ImageStore,
    pictures: list[str],
    build: Callable[[Path], Path],
    scheduler: str | None,
) -> None:
    """After every step, outside of the mask: ``(1 - σ) · picture + σ · noise`` with σ of the step,
    and in the end the picture itself."""
    backend = DiffusersBackend(str(build(tmp_path / "model")), scheduler=scheduler)
    inpainter = backend._load_pipeline()._inpainter
    request = started(pictures[1], mask=half(store))
    assert request.start is not None
    with torch.no_grad():
        _, _, kept = inpainter.begin(request, store.get, tiny.SIZE, 4)
        assert kept is not None
        pipe = inpainter.pipe
        pipe.scheduler = FlowMatchEulerDiscreteScheduler()
        pipe.scheduler.set_timesteps(4)
        pipe._num_timesteps = 4
        drawn_there = torch.full_like(kept._latents, 9.0)
        sample = drawn_there
        for step, time in enumerate(pipe.scheduler.timesteps):
            sample = pipe.scheduler.step(torch.zeros_like(sample), time, sample).prev_sample
            level = float(pipe.scheduler.sigmas[step + 1])
            held = kept.hold(step, drawn_there)
            expected = (1 - level) * kept._latents + level * kept._noise
            torch.testing.assert_close(held[~kept._changes], expected[~kept._changes])
            assert (held[kept._changes] == 9.0).all()
        assert level == 0.0
        assert kept._changes.float().mean() == 0.5
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [tiny_families.build_sd3, tiny_families.build_flux, tiny_families.build_qwen],
)
async def test_a_picture_is_encoded_as_it_is_decoded(
    tmp_path: Path,
    store: ImageStore,
    pictures: list[str],
    build: Callable[[Path], Path],
) -> None:
    """The latents of a black mask's picture are those with which the pipeline would start."""
    backend = DiffusersBackend(str(build(tmp_path / "model")))
    inpainter = backend._load_pipeline()._inpainter
    pipe, layout = inpainter.pipe, backend._family.latents
    picture = store.get(pictures[1]).convert("RGB").resize(tiny.SIZE)
    with torch.no_grad():
        ours = encode_picture(pipe, picture, layout)
        pixels = pipe.image_processor.preprocess(picture)
        config = pipe.vae.config
        if "z_dim" in config:
            found = pipe.vae.encode(pixels.unsqueeze(2)).latent_dist.mode()
            found = (found - 0.1) / 1.2
        else:
            found = (pipe.vae.encode(pixels).latent_dist.mode() - 0.1) * 1.3
        if layout == "packed":
            side = tiny.SIZE[0] // tiny.PIXELS_PER_LATENT
            found = found.reshape(4, side // 2, 2, side // 2, 2).permute(1, 3, 0, 2, 4)
            found = found.reshape(1, (side // 2) ** 2, 16)
    torch.testing.assert_close(ours, found)
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "autoencoder"),
    [
        ({"scheduler": "EulerDiscreteScheduler"}, "kl"),
        ({"scheduler": "HeunDiscreteScheduler"}, "kl"),
        ({"scheduler": "DPMSolverMultistepScheduler", "dtype": "bfloat16"}, "kl"),
        ({}, "tiny"),
    ],
)
async def test_other_schedulers_numbers_and_autoencoders_keep_it_too(
    tmp_path: Path,
    store: ImageStore,
    pictures: list[str],
    options: dict[str, Any],
    autoencoder: tiny.Autoencoder,
) -> None:
    model = tiny.build_model(tmp_path / "model", autoencoder)
    backend = DiffusersBackend(str(model), **options)
    image = (await backend.generate(started(pictures[0], mask=half(store)), store.get)).image
    right = (tiny.SIZE[0] * 3 // 4, 0, *tiny.SIZE)
    before = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE, Image.Resampling.LANCZOS)
    assert image.crop(right).tobytes() == before.crop(right).tobytes()
    await backend.aclose()


async def test_a_pipeline_without_such_a_form_says_so(
    tiny_model: Path, store: ImageStore, pictures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "scenewright.tools.backends.diffusers.family_of", lambda name, parts: Family()
    )
    backend = DiffusersBackend(str(tiny_model))
    assert not backend.features.edit
    with pytest.raises(BackendError, match="cannot start from a picture"):
        await backend.generate(started(pictures[0]), store.get)
    await backend.aclose()

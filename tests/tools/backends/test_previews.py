"""Previews between denoising steps: what the latents would be as a picture, at no other picture."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scenewright.core.ports.backend import GenerationStep, StepListener
from scenewright.tools.backends import loaded
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.previews import Previews
from tests.tools.backends import tiny, tiny_families, tiny_modern
from tests.tools.backends.conformance import RED


async def steps_of(model: Path, **options: Any) -> tuple[Image.Image, list[GenerationStep]]:
    steps: list[GenerationStep] = []
    backend = DiffusersBackend(str(model), device="cpu", **options)
    request = RED.model_copy(update={"steps": 6})
    image = (await backend.generate(request, lambda name: pytest.fail(name), steps.append)).image
    await backend.aclose()
    return image, steps


async def test_previews_come_evenly_and_change_no_picture(tiny_model: Path) -> None:
    image, steps = await steps_of(tiny_model, partial_images=2)
    assert [step.step for step in steps] == [1, 2, 3, 4, 5, 6]
    shown = [step for step in steps if step.preview]
    assert [step.step for step in shown] == [2, 4]
    assert Image.open(io.BytesIO(shown[0].preview)).size == image.size
    plain, without = await steps_of(tiny_model)
    assert not any(step.preview for step in without)
    assert plain.tobytes() == image.tobytes()


@pytest.mark.slow
async def test_nothing_is_decoded_while_nobody_looks(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def decode(self: Previews, pipe: Any, latents: Any) -> Image.Image:
        decoded.append(1)
        return Image.new("RGB", (8, 8))

    monkeypatch.setattr(Previews, "_decoded", decode)
    shown: dict[int, list[int]] = {}
    # Previews are due after steps 2 and 4: who comes after them sees the next step.
    for since in (7, 3, 5):
        steps: list[GenerationStep] = []
        looked = [0]

        def tell(step: GenerationStep, steps: list[GenerationStep] = steps) -> None:
            steps.append(step)

        def watched(since: int = since, looked: list[int] = looked) -> bool:
            # Asked once a step from the first that is due on.
            looked[0] += 1
            return looked[0] + 1 >= since

        backend = DiffusersBackend(str(tiny_model), device="cpu", partial_images=2)
        request = RED.model_copy(update={"steps": 6})
        decoded.clear()
        listener = StepListener(tell, watched)
        await backend.generate(request, lambda name: pytest.fail(name), listener)
        await backend.aclose()
        shown[since] = [step.step for step in steps if step.preview]
        assert len(decoded) == len(shown[since])
    assert shown == {7: [], 3: [3, 4], 5: [5]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        tiny.build_xl_model,
        tiny_families.build_sd3,
        tiny_families.build_flux,
        tiny_families.build_qwen,
        tiny_modern.build_chroma,
        tiny_modern.build_klein,
        tiny_modern.build_flux3,
        tiny_modern.build_z_image,
    ],
    ids=lambda build: build.__name__,
)
async def test_the_preview_of_the_last_latents_is_the_picture(
    build: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last: list[Image.Image] = []

    class Last(Previews):
        def after(self, pipe: Any, step: int, of: int, latents: Any) -> bytes:
            if step == of:
                last.append(self._decoded(pipe, latents))
            return super().after(pipe, step, of, latents)

    monkeypatch.setattr(loaded, "Previews", Last)
    image, steps = await steps_of(build(tmp_path / "model"), partial_images=1)
    assert sum(bool(step.preview) for step in steps) == 1
    (shown,) = last
    difference = np.abs(np.asarray(shown, float) - np.asarray(image, float))
    assert shown.size == image.size
    assert difference.max() <= 2


async def test_a_preview_that_fails_costs_no_picture(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*given: Any) -> Image.Image:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Previews, "_decoded", failing)
    with caplog.at_level(logging.WARNING):
        image, steps = await steps_of(tiny_model, partial_images=3)
    assert image.size == tiny.SIZE
    assert not any(step.preview for step in steps)
    assert caplog.text.count("shows no partial images (RuntimeError: out of memory)") == 1

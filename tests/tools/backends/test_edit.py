"""Pipelines that see pictures beside the prompt: edits by instruction, and references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxKontextPipeline
from PIL import Image

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore, png_bytes
from scenewright.core.ports.backend import BackendError, GenerationRequest, Reference, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.editing import Editor
from scenewright.tools.backends.families import EditForm
from tests.tools.backends import tiny, tiny_families
from tests.tools.backends.conformance import RED, drawn, with_references


def edited(image: str, *references: str, **changes: Any) -> GenerationRequest:
    start = Start(image=image, strength=1.0, instruct=True, **changes)
    shown = tuple(Reference(image=name, weight=1.0) for name in references)
    return RED.model_copy(update={"start": start, "references": shown})


@pytest.fixture(scope="module")
def kontext(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_families.build_kontext(tmp_path_factory.mktemp("model") / "kontext")


@pytest.fixture(scope="module")
def plus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "calculate_dimensions", lambda area, ratio: tiny.SIZE)
        yield tiny_families.build_qwen(
            tmp_path_factory.mktemp("model") / "plus", "QwenImageEditPlusPipeline"
        )


async def test_an_edit_is_that_of_the_pipeline(
    kontext: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(kontext))
    assert backend.features.instructions
    assert backend.features.reference_maths == "pictures"
    assert backend.features.references == 1
    ours = (await backend.generate(edited(pictures[1]), store.get)).image
    small = store.put(store.get(pictures[1]).resize(tiny.SIZE))
    shown = await drawn(backend, with_references([small], 1.0), store)
    await backend.aclose()
    pipe = FluxKontextPipeline.from_pretrained(kontext, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    theirs = pipe(
        prompt=RED.prompt,
        image=store.get(pictures[1]).resize(tiny.SIZE),
        num_inference_steps=3,
        guidance_scale=4.0,
        width=32,
        height=32,
        max_area=32 * 32,
        _auto_resize=False,
        generator=torch.Generator("cpu").manual_seed(RED.seed),
    ).images[0]
    assert np.abs(np.asarray(ours).astype(int) - np.asarray(theirs).astype(int)).max() <= 1
    # A picture of the size drawn is the same, whether it is edited or shown.
    assert shown == png_bytes(ours)


async def test_an_edit_keeps_what_its_mask_leaves_out(
    kontext: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(kontext))
    mask = Image.new("L", tiny.SIZE)
    mask.paste(255, (0, 0, tiny.SIZE[0] // 2, tiny.SIZE[1]))
    request = edited(pictures[0], mask=store.put(mask))
    image = (await backend.generate(request, store.get)).image
    before = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE, Image.Resampling.LANCZOS)
    right, left = (24, 0, 32, 32), (0, 0, 8, 32)
    assert image.crop(right).tobytes() == before.crop(right).tobytes()
    assert image.crop(left).tobytes() != before.crop(left).tobytes()
    await backend.aclose()


async def test_one_picture_is_all_that_some_see(
    kontext: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(kontext))
    with pytest.raises(BackendError, match="sees 1 picture at once, 2 were given"):
        await backend.generate(edited(*pictures[:2]), store.get)
    # A reference of weight 0 is none.
    nothing = edited(pictures[0]).model_copy(
        update={"references": (Reference(image=pictures[1], weight=0.0),)}
    )
    assert await drawn(backend, nothing, store) == await drawn(backend, edited(pictures[0]), store)
    await backend.aclose()


async def test_others_see_several_in_their_order(
    plus: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(plus))
    assert backend.features.references == 2
    requests = [
        edited(pictures[0]),
        edited(*pictures[:2]),
        edited(*pictures),
        edited(pictures[0], pictures[2], pictures[1]),
        with_references(pictures, 1.0, 1.0),
        with_references(pictures[1::-1], 1.0, 1.0),
    ]
    assert len({await drawn(backend, request, store) for request in requests}) == len(requests)
    await backend.aclose()


async def test_a_start_without_an_instruction_takes_no_pictures_along(
    plus: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(plus))
    request = with_references(pictures, 1.0, start=Start(image=pictures[1], strength=0.5))
    with pytest.raises(BackendError, match="set 'instruct' in 'start'"):
        await backend.generate(request, store.get)
    await backend.aclose()


async def test_an_adapter_where_there_is_none_is_told(
    kontext: Path, tiny_adapter: Path, tmp_path: Path
) -> None:
    qwen = tiny_families.build_qwen(tmp_path / "qwen")
    for model, why in ((kontext, "references are pictures there"), (qwen, "none is known")):
        backend = DiffusersBackend(str(model), ip_adapter=AdapterSpec(repository=str(tiny_adapter)))
        with pytest.raises(BackendError, match=f"takes no IP-Adapter .{why}"):
            await backend.load()
        await backend.aclose()


async def test_a_model_distilled_to_few_steps_is_asked_for_few(tmp_path: Path) -> None:
    schnell = tiny_families.build_flux(tmp_path / "schnell", guidance=False)
    dev = tiny_families.build_flux(tmp_path / "dev")
    for folder in (schnell, dev):
        (folder / "scenewright.json").unlink()
    few, many = (DiffusersBackend(str(folder)).features for folder in (schnell, dev))
    assert (few.default_steps, few.default_guidance) == (4, 0.0)
    assert (many.default_steps, many.default_guidance) == (28, 3.5)
    assert few.default_size == many.default_size == (1024, 1024)
    asked = DiffusersBackend(str(schnell), default_steps=6).features
    assert asked.default_steps == 6


@pytest.mark.parametrize(
    ("size", "expected"),
    [((64, 64), (32, 32)), ((128, 32), (64, 16)), ((24, 12), (24, 16)), ((400, 2), (400, 8))],
)
def test_a_reference_keeps_its_shape_and_is_not_larger_than_what_is_drawn(
    size: tuple[int, int], expected: tuple[int, int], store: ImageStore
) -> None:
    editor = Editor(object(), object(), EditForm(None, listed=True), "grid", multiple=8)
    image = store.put(Image.new("RGB", size, "red"))
    shown = (Reference(image=image, weight=1.0),)
    _, options, kept = editor.begin(None, shown, store.get, (32, 32), seed=0)
    assert [picture.size for picture in options["image"]] == [expected]
    assert kept is None

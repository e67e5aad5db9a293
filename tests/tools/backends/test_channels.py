"""A pipeline with a second denoiser that sees pictures as channels, and models that share parts."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline
from PIL import Image

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Reference, Start
from scenewright.tools.backends.channels import ChannelEditPipeline
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.model_folder import ModelFolder
from tests.tools.backends import tiny
from tests.tools.backends.conformance import RED, BackendConformance, drawn


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An editor beside the generator whose parts it shares."""
    home = tmp_path_factory.mktemp("models")
    parts = StableDiffusionPipeline.from_pretrained(tiny.build_model(home / "generator"))
    names = ("vae", "text_encoder", "tokenizer", "unet", "scheduler")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        pipe = ChannelEditPipeline(
            **{name: getattr(parts, name) for name in names}, editor=tiny.unet(in_channels=12)
        )
    folder = tiny.saved(pipe, home / "editor")
    for name in ("vae", "text_encoder", "unet", "scheduler"):
        shutil.rmtree(folder / name)
    settings = json.loads((folder / "scenewright.json").read_text())
    (folder / "scenewright.json").write_text(json.dumps(settings | {"parts_of": "generator"}))
    return folder


@pytest.fixture(scope="module")
def make_backend(editor: Path) -> Callable[..., DiffusersBackend]:
    return lambda **options: DiffusersBackend(str(editor), **options)


@pytest.fixture(scope="module")
def backend(make_backend: Callable[..., DiffusersBackend]) -> Iterator[DiffusersBackend]:
    shared = make_backend()
    yield shared
    asyncio.run(shared.aclose())


class TestEditor(BackendConformance):
    """The pipeline with its editor, most parts in another folder."""


def edit(image: str, *shown: str, **changes: Any) -> Any:
    start = Start(image=image, strength=1.0, instruct=True, **changes.pop("start", {}))
    references = tuple(Reference(image=name, weight=1.0) for name in shown)
    return RED.model_copy(update={"start": start, "references": references, **changes})


async def test_it_draws_from_prompts_what_the_generator_draws(
    backend: DiffusersBackend, editor: Path, store: ImageStore
) -> None:
    generator = DiffusersBackend(str(editor.parent / "generator"))
    assert await drawn(backend, RED, store) == await drawn(generator, RED, store)
    await generator.aclose()


async def test_every_picture_and_the_instruction_count(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    features = backend.features
    assert (features.instructions, features.edit_references, features.references) == (True, 1, 2)
    first, second, third = pictures[:3]
    seen = [
        await drawn(backend, request, store)
        for request in (
            edit(first),
            edit(second),
            edit(first, second),
            edit(first, third),
            edit(first, second, prompt="blue cat"),
        )
    ]
    assert len(set(seen)) == len(seen)


async def test_without_guidance_the_instruction_alone_is_followed(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    calls: list[int] = []
    pipe = backend._load_pipeline().pipe
    handle = pipe.editor.register_forward_pre_hook(lambda _, args: calls.append(len(args[0])))
    await drawn(backend, edit(pictures[0], guidance=1.0), store)
    await drawn(backend, edit(pictures[0], guidance=2.0), store)
    handle.remove()
    steps = backend.features.default_steps
    assert calls == [1] * steps + [2] * steps


async def test_outside_of_a_mask_the_picture_stays(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    width, height = backend.features.default_size
    kept = store.get(pictures[0]).convert("RGB").resize((width, height))
    mask = Image.new("L", (width, height))
    mask.paste(255, (0, 0, width // 2, height))
    request = edit(store.put(kept), pictures[1], start={"mask": store.put(mask)})
    image = (await backend.generate(request, store.get)).image
    right, left = (width * 3 // 4, 0, width, height), (0, 0, width // 4, height)
    assert image.crop(right).tobytes() == kept.crop(right).tobytes()
    assert image.crop(left).tobytes() != kept.crop(left).tobytes()


async def test_more_pictures_than_it_sees_are_refused(
    backend: DiffusersBackend, store: ImageStore, pictures: list[str]
) -> None:
    with pytest.raises(BackendError, match="sees 2 picture"):
        await backend.generate(edit(*pictures[:3]), store.get)


def test_an_editor_of_other_latents_is_refused(editor: Path) -> None:
    pipe = StableDiffusionPipeline.from_pretrained(editor.parent / "generator")
    parts = {k: v for k, v in pipe.components.items() if v is not None}
    for channels in (4, 10):
        with pytest.raises(ValueError, match=f"takes {channels} channels"):
            ChannelEditPipeline(**parts, editor=tiny.unet(in_channels=channels))


def test_shared_parts_count_for_the_fingerprint_and_must_be_there(
    editor: Path, tmp_path: Path
) -> None:
    shutil.copytree(editor.parent, tmp_path / "models")
    folder = tmp_path / "models" / "editor"
    before = ModelFolder.open(folder).digest()
    assert before == ModelFolder.open(editor).digest()
    shared = tmp_path / "models" / "generator" / "scheduler" / "scheduler_config.json"
    shared.write_text(shared.read_text().replace("v_prediction", "epsilon"))
    assert ModelFolder.open(folder).digest() != before
    shutil.rmtree(shared.parent)
    with pytest.raises(BackendError, match="the part 'scheduler' that"):
        ModelFolder.open(folder)
    settings = folder / "scenewright.json"
    settings.write_text(json.dumps({"parts_of": "../elsewhere"}))
    with pytest.raises(BackendError, match="parts_of"):
        ModelFolder.open(folder)

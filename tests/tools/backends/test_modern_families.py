"""What the table of families says, against the classes of diffusers and small models of them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Reference, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.editing import encode_picture, from_patches
from scenewright.tools.backends.families import Family, family_of, known_families
from scenewright.tools.backends.loaded import _picture
from scenewright.tools.backends.modular import is_modular, needed_parts
from scenewright.tools.backends.pipeline import OWN, call_options, pipeline_class, quiet
from tests.tools.backends import tiny, tiny_modern
from tests.tools.backends.conformance import RED, drawn

FAMILIES = known_families()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_names_classes_and_options_that_diffusers_has(name: str) -> None:
    family = FAMILIES[name]
    drawing = family.edits.drawing if family.edits else None
    with quiet():
        for other in (name, family.image_to_image, family.inpaint, drawing):
            assert other is None or other in OWN or hasattr(diffusers, other), other
        if hasattr(getattr(diffusers, name, None), "_backends"):
            pytest.skip(f"a library of {name} is not installed")
        options = call_options(drawing or name)
        kind = pipeline_class(name)
    if is_modular(kind):
        parts = set(needed_parts(kind))
        assert family.guider
    else:
        parts = set(inspect.signature(kind.__init__).parameters)
        if family.few is None or family.few.key or family.few.name:
            assert family.guidance in options
    assert family.options.keys() <= options.keys()
    if family.edits is not None:
        edits = call_options(name)
        assert "image" in edits
        assert family.edits.sizing is None or family.edits.sizing in edits
    if family.inpaint is not None:
        assert {"image", "mask_image", "image_reference", "strength"} <= call_options(
            family.inpaint
        ).keys()
    if family.lengths:
        assert family.reader in parts
    assert set(family.text) <= parts


def test_the_table_starts_from_pictures_as_the_library_does() -> None:
    with quiet():
        from diffusers.pipelines.auto_pipeline import (
            AUTO_IMAGE2IMAGE_PIPELINES_MAPPING as FROM_PICTURES,
        )
        from diffusers.pipelines.auto_pipeline import (
            AUTO_TEXT2IMAGE_PIPELINES_MAPPING as FROM_TEXT,
        )
    for key, drawing in FROM_TEXT.items():
        family = FAMILIES.get(drawing.__name__)
        if family is None or family.edits is not None or key not in FROM_PICTURES:
            continue
        assert family.image_to_image == FROM_PICTURES[key].__name__


@pytest.mark.slow
def test_the_page_has_the_table_of_the_data() -> None:
    script = Path(__file__).parents[3] / "scripts" / "families.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("build", "options", "expected"),
    [
        (tiny_modern.build_klein, {}, (4, 0.0)),
        (tiny_modern.build_klein, {"distilled": False}, (50, 4.0)),
        (tiny_modern.build_krea2, {"distilled": True}, (8, 0.0)),
        (tiny_modern.build_krea2, {}, (52, 3.5)),
        (tiny_modern.build_hunyuan, {"distilled": True}, (8, 3.25)),
        (tiny_modern.build_hunyuan, {}, (50, 3.5)),
        (tiny_modern.build_chroma, {}, (35, 5.0)),
        (tiny_modern.build_qwen21, {}, (40, 1.0)),
        (tiny_modern.build_z_image, {}, (50, 5.0)),
        (tiny_modern.build_flux3, {}, (16, 0.0)),
        (tiny_modern.build_flux3, {"kind": diffusers.Flux3ModularPipeline}, (50, 4.0)),
    ],
)
def test_steps_and_guidance_are_those_of_the_model(
    tmp_path: Path, build, options, expected: tuple[int, float]
) -> None:
    folder = build(tmp_path / "model", **options)
    (folder / "scenewright.json").unlink()
    features = DiffusersBackend(str(folder)).features
    assert (features.default_steps, features.default_guidance) == expected


@pytest.mark.parametrize(
    "place", ["Z-Image-Turbo", "models--Tongyi-MAI--Z-Image-Turbo/snapshots/0"]
)
def test_a_model_that_its_name_alone_tells_to_be_distilled(tmp_path: Path, place: str) -> None:
    folder = tiny_modern.build_z_image(tmp_path / place)
    (folder / "scenewright.json").unlink()
    features = DiffusersBackend(str(folder)).features
    assert (features.default_steps, features.default_guidance) == (9, 0.0)


@pytest.mark.parametrize(
    ("build", "budget"),
    [
        (tiny_modern.build_klein, 500),
        (tiny_modern.build_z_image, 504),
        (tiny_modern.build_krea2, 507),
        (tiny_modern.build_longcat, 512),
        (tiny_modern.build_flux3, 8184),
        (tiny_modern.build_qwen21, None),
    ],
)
def test_the_budget_of_a_prompt_leaves_room_for_the_chat_template(
    tmp_path: Path, build, budget: int | None
) -> None:
    assert DiffusersBackend(str(build(tmp_path / "model"))).features.prompt_tokens == budget


@pytest.fixture(scope="module")
def klein(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_modern.build_klein(tmp_path_factory.mktemp("model") / "klein")


def half(store: ImageStore) -> str:
    mask = Image.new("L", tiny.SIZE)
    mask.paste(255, (0, 0, tiny.SIZE[0] // 2, tiny.SIZE[1]))
    return store.put(mask)


async def test_a_masked_place_is_drawn_anew_after_a_reference(
    klein: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(klein))
    assert backend.features.edit
    assert backend.features.start_references
    start = Start(image=pictures[0], strength=0.9, mask=half(store))
    plain = RED.model_copy(update={"start": start})

    def shown(*names: str, weight: float = 1.0):
        references = tuple(Reference(image=name, weight=weight) for name in names)
        return plain.model_copy(update={"references": references})

    requests = [plain, shown(pictures[1]), shown(pictures[2])]
    images = [(await backend.generate(one, store.get)).image for one in requests]
    assert len({image.tobytes() for image in images}) == 3
    before = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE, Image.Resampling.LANCZOS)
    right, left = (24, 0, 32, 32), (0, 0, 8, 32)
    for image in images:
        assert image.crop(right).tobytes() == before.crop(right).tobytes()
        assert image.crop(left).tobytes() != before.crop(left).tobytes()
    # A reference of weight 0 is none.
    assert await drawn(backend, shown(pictures[1], weight=0.0), store) == await drawn(
        backend, plain, store
    )
    with pytest.raises(BackendError, match="one reference beside a start picture, 2 were given"):
        await backend.generate(shown(*pictures[1:3]), store.get)
    await backend.aclose()


def test_pictures_are_encoded_as_the_library_does(
    klein: Path, store: ImageStore, pictures: list[str]
) -> None:
    with quiet(), torch.no_grad():
        pipe = diffusers.Flux2KleinPipeline.from_pretrained(klein)
        picture = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE)
        pixels = pipe.image_processor.preprocess(picture)
        theirs = pipe._encode_vae_image(pixels, generator=None)
        found = encode_picture(pipe, picture, "flux2")
    torch.testing.assert_close(found, pipe._pack_latents(theirs), atol=1e-5, rtol=1e-4)
    side = tiny.SIZE[0] // (2 * pipe.vae_scale_factor)
    cells = from_patches(found, side, side)
    torch.testing.assert_close(cells, pipe._unpatchify_latents(theirs), atol=1e-5, rtol=1e-4)


async def test_others_that_see_pictures_take_none_beside_a_strength(
    tmp_path: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(str(tiny_modern.build_qwen21(tmp_path / "model")))
    assert not backend.features.edit
    assert not backend.features.start_references
    with pytest.raises(BackendError, match="cannot start from a picture"):
        await backend.generate(
            RED.model_copy(update={"start": Start(image=pictures[0], strength=0.5)}), store.get
        )
    await backend.aclose()


@pytest.fixture
def small_longcat(monkeypatch: pytest.MonkeyPatch) -> None:
    from diffusers.pipelines.longcat_image import pipeline_longcat_image_edit as module

    monkeypatch.setattr(module, "calculate_dimensions", lambda area, ratio: (64, 48))


@pytest.mark.usefixtures("small_longcat")
async def test_a_pipeline_with_a_size_of_its_own_gives_the_size_asked_for(
    tmp_path: Path, store: ImageStore, pictures: list[str]
) -> None:
    model = tiny_modern.build_longcat(tmp_path / "model", "LongCatImageEditPipeline")
    backend = DiffusersBackend(str(model))
    assert (backend.features.references, backend.features.instructions) == (1, True)
    start = Start(image=pictures[0], strength=1.0, instruct=True)
    told: list[int] = []
    request = RED.model_copy(update={"start": start, "steps": 3})
    image = (await backend.generate(request, store.get, lambda one: told.append(one.step))).image
    assert image.size == tiny.SIZE
    assert told == [1, 2, 3]
    await backend.aclose()


def test_transparent_pixels_are_white() -> None:
    pixels = np.zeros((8, 8, 4))
    pixels[:4, :, 3] = 1.0
    image = _picture(pixels, (8, 8))
    assert (image.mode, image.getpixel((0, 0)), image.getpixel((0, 7))) == (
        "RGB",
        (0, 0, 0),
        (255, 255, 255),
    )


def test_a_class_that_no_table_names_draws_from_prompts() -> None:
    assert family_of("SomeNewPipeline", ("transformer", "vae")) == Family()
    assert family_of("SomeNewPipeline", ("unet", "vae")) == Family(adapter="unet")


def test_a_family_without_its_reader_has_no_lengths() -> None:
    assert family_of("Flux2KleinPipeline", ("transformer", "vae")).lengths == ()

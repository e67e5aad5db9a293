"""Every family of pipelines through the suite that all backends pass."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import diffusers
import numpy as np
import pytest
from PIL import Image

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.families import family_of
from scenewright.tools.backends.pipeline import call_options
from tests.tools.backends import tiny, tiny_families, tiny_modern
from tests.tools.backends.conformance import (
    RED,
    BackendConformance,
    drawn,
    no_images,
    with_references,
)


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)), float)


class Family(BackendConformance):
    """A family: ``make`` gives a backend of files in a folder."""

    no_guidance: ClassVar[float] = 1.0
    """Guidance scale at which the pipeline makes one pass a step."""

    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def make_backend(
        cls, tmp_path_factory: pytest.TempPathFactory
    ) -> Callable[[], DiffusersBackend]:
        return cls.make(tmp_path_factory.mktemp("family"))

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls, make_backend: Callable[[], DiffusersBackend]) -> Iterator[DiffusersBackend]:
        shared = make_backend()
        yield shared
        asyncio.run(shared.aclose())

    async def test_work_is_counted_in_full_picture_steps(self, backend: DiffusersBackend) -> None:
        features = backend.features
        plain = await backend.generate(RED, no_images)
        assert plain.work == pytest.approx(features.default_steps)
        width, height = features.default_size
        large = RED.model_copy(update={"width": 2 * width, "height": height, "steps": 2})
        assert (await backend.generate(large, no_images)).work == pytest.approx(4)

    async def test_a_crop_around_the_mask_is_less_work(
        self, backend: DiffusersBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        features = backend.features
        if not features.crops:
            pytest.skip("no starts from a picture")
        width, height = (4 * side for side in features.default_size)
        picture = store.get(pictures[0]).convert("RGB").resize((width, height))
        mask = Image.new("L", picture.size)
        mask.paste(255, (0, 0, width // 8, height // 8))
        start = Start(image=store.put(picture), strength=1.0, mask=store.put(mask))
        whole = RED.model_copy(update={"width": width, "height": height, "start": start})
        works = {}
        for crop in (False, True):
            within = {"start": start.model_copy(update={"crop": crop})}
            made = await backend.generate(whole.model_copy(update=within), store.get)
            works[crop] = made.work
            assert made.image.size == picture.size
            outside = (width // 2, height // 2, width, height)
            assert made.image.crop(outside).tobytes() == picture.crop(outside).tobytes()
            inside = (0, 0, width // 8, height // 8)
            assert made.image.crop(inside).tobytes() != picture.crop(inside).tobytes()
        assert works[True] <= works[False] / 4


class TestStableDiffusionXL(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny.build_xl_model(folder / "model")
        adapter = tiny.build_adapter(folder / "adapter", tiny.xl_unet())
        return lambda: DiffusersBackend(str(model), ip_adapter=AdapterSpec(repository=str(adapter)))


class TestStableDiffusion3(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_sd3(folder / "model")
        adapter = tiny_families.build_sd3_adapter(folder / "adapter")
        return lambda: DiffusersBackend(str(model), ip_adapter=AdapterSpec(repository=str(adapter)))


class TestFlux(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_flux(folder / "model")
        files = tiny_families.build_flux_adapter(folder / "files")
        source = AdapterSpec(
            repository=str(files / "adapter"),
            weight_name="ip_adapter.safetensors",
            image_encoder=str(files / "clip"),
        )
        return lambda: DiffusersBackend(str(model), ip_adapter=source)


class TestFluxKontext(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_kontext(folder / "model")
        return lambda: DiffusersBackend(str(model))


class TestQwenImage(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_qwen(folder / "model")
        return lambda: DiffusersBackend(str(model))


class QwenEdit(Family):
    """The sizes that the pipelines give their pictures are those of the tiny model here."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def small_pictures(cls) -> Iterator[None]:
        from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as one
        from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as many

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(one, "calculate_dimensions", lambda area, ratio: (*tiny.SIZE, None))
            patch.setattr(many, "calculate_dimensions", lambda area, ratio: tiny.SIZE)
            yield


class TestQwenImageEdit(QwenEdit):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_qwen(folder / "model", "QwenImageEditPipeline")
        return lambda: DiffusersBackend(str(model))


class TestQwenImageEditPlus(QwenEdit):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_qwen(folder / "model", "QwenImageEditPlusPipeline")
        return lambda: DiffusersBackend(str(model))


class Modern(Family):
    """A family of ``tiny_modern``."""

    pipeline_class: ClassVar[str]

    @classmethod
    def make(cls, folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_modern.BUILDERS[cls.pipeline_class](folder / "model")
        return lambda: DiffusersBackend(str(model))


class TestFlux2Klein(Modern):
    pipeline_class = "Flux2KleinPipeline"


class TestFlux2KleinKV(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_modern.build_klein(folder / "model", "Flux2KleinKVPipeline")
        return lambda: DiffusersBackend(str(model))


class TestFlux2(Modern):
    pipeline_class = "Flux2Pipeline"


class TestFlux3Distilled(Modern):
    pipeline_class = "Flux3DistilledModularPipeline"


class TestFlux3Upsampled(Family):
    """With its prompt upsampler, which takes boxes."""

    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_modern.build_flux3(folder / "model")
        upsampler = tiny_modern.build_upsampler(folder / "upsampler")
        return lambda: DiffusersBackend(str(model), prompt_upsampler=str(upsampler))


class TestFlux3(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_modern.build_flux3(folder / "model", diffusers.Flux3ModularPipeline)
        return lambda: DiffusersBackend(str(model))


class TestQwenImage21(Modern):
    pipeline_class = "QwenImage21Pipeline"


class TestZImage(Modern):
    pipeline_class = "ZImagePipeline"


class TestKrea2(Modern):
    pipeline_class = "Krea2Pipeline"
    no_guidance = 0.0


class TestChroma(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_modern.build_chroma(folder / "model")
        files = tiny_families.build_flux_adapter(folder / "files")
        source = AdapterSpec(
            repository=str(files / "adapter"),
            weight_name="ip_adapter.safetensors",
            image_encoder=str(files / "clip"),
        )
        return lambda: DiffusersBackend(str(model), ip_adapter=source)


class TestGlmImage(Modern):
    pipeline_class = "GlmImagePipeline"


class TestHunyuanImage(Modern):
    pipeline_class = "HunyuanImagePipeline"


class TestLongCatImage(Modern):
    pipeline_class = "LongCatImagePipeline"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "adapter"),
    [
        (tiny_families.build_sd3, tiny_families.build_sd3_adapter),
        (tiny_families.build_flux, None),
        (tiny_families.build_qwen, None),
    ],
)
async def test_narrow_numbers_serve_too(
    tmp_path: Path,
    store: ImageStore,
    pictures: list[str],
    build: Callable[[Path], Path],
    adapter: Callable[[Path], Path] | None,
) -> None:
    source = AdapterSpec(repository=str(adapter(tmp_path / "adapter"))) if adapter else None
    backend = DiffusersBackend(str(build(tmp_path / "model")), ip_adapter=source, dtype="bfloat16")
    mask = Image.new("L", tiny.SIZE)
    mask.paste(255, (0, 0, 16, 32))
    start = Start(image=pictures[0], strength=0.8, mask=store.put(mask))
    weights = (0.5,) if adapter else ()
    request = with_references(pictures[1:], *weights, start=start)
    image = (await backend.generate(request, store.get)).image
    before = store.get(pictures[0]).convert("RGB").resize(tiny.SIZE, Image.Resampling.LANCZOS)
    assert image.crop((24, 0, 32, 32)).tobytes() == before.crop((24, 0, 32, 32)).tobytes()
    await backend.aclose()


async def test_any_other_pipeline_draws(tmp_path: Path, store: ImageStore) -> None:
    """A class that no table names: its own defaults, no references, no edits."""
    backend = DiffusersBackend(str(tiny_families.build_aura(tmp_path / "aura")))
    features = backend.features
    assert (features.references, features.edit, features.instructions) == (0, False, False)
    assert await drawn(backend, RED, store) == await drawn(backend, RED, store)
    other = RED.model_copy(update={"prompt": "a blue house"})
    assert await drawn(backend, other, store) != await drawn(backend, RED, store)
    await backend.aclose()


def test_a_pipeline_whose_libraries_are_missing_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Standin:
        _backends: ClassVar[list[str]] = ["torch", "sentencepiece"]

    monkeypatch.setattr(diffusers, "KolorsPipeline", Standin, raising=False)
    with pytest.raises(BackendError, match="KolorsPipeline needs torch, sentencepiece"):
        call_options("KolorsPipeline")


def test_families_follow_the_class_and_what_the_folder_holds() -> None:
    sd3 = family_of("StableDiffusion3Pipeline", ("transformer", "vae", "tokenizer", "tokenizer_2"))
    assert sd3.text == ("tokenizer", "tokenizer_2")
    assert sd3.maths == "joined"
    assert sd3.references(2) == 1
    assert family_of("FluxPipeline", ("tokenizer_2",)).maths == "exact"
    assert family_of("FluxKontextPipeline", ("tokenizer_2",)).maths == "pictures"
    kolors = family_of("SomePipelineWithAUnet", ("unet", "vae"))
    assert (kolors.maths, kolors.masks, kolors.image_to_image) == ("exact", True, None)
    assert family_of("SomeOtherPipeline", ("transformer", "vae")).maths == "none"

"""Every family of pipelines through the suite that all backends pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenewright.tools.backends.adapter import IPAdapterSource
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny, tiny_families
from tests.tools.backends.conformance import BackendConformance


class Family(BackendConformance):
    """A family: ``make`` gives a backend of files in a folder."""

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


class TestStableDiffusionXL(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny.build_xl_model(folder / "model")
        adapter = tiny.build_adapter(folder / "adapter", tiny.xl_unet())
        return lambda: DiffusersBackend(str(model), ip_adapter=IPAdapterSource(str(adapter)))


class TestStableDiffusion3(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_sd3(folder / "model")
        adapter = tiny_families.build_sd3_adapter(folder / "adapter")
        return lambda: DiffusersBackend(str(model), ip_adapter=IPAdapterSource(str(adapter)))


class TestFlux(Family):
    @staticmethod
    def make(folder: Path) -> Callable[[], DiffusersBackend]:
        model = tiny_families.build_flux(folder / "model")
        files = tiny_families.build_flux_adapter(folder / "files")
        source = IPAdapterSource(
            str(files / "adapter"),
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

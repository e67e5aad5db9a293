"""Tiny models, built once for all tests of backends."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.images import ImageStore
from tests.tools.backends import tiny


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole tiny pipeline; do not change it, copy it."""
    return tiny.build_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def tiny_adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An IP-Adapter for ``tiny_model``; do not change it, copy it."""
    return tiny.build_adapter(tmp_path_factory.mktemp("adapter") / "ip-adapter")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    """A store for reference images."""
    return ImageStore(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def pictures(store: ImageStore) -> list[str]:
    """Hashes of three reference images that differ widely."""
    dots = Image.new("RGB", (40, 30), "navy")
    for x in range(0, 40, 4):
        for y in range(0, 30, 3):
            dots.putpixel((x, y), (255, 220, 0))
    ramp = Image.linear_gradient("L").resize((32, 32)).convert("RGB")
    return [store.put(picture) for picture in (dots, ramp, Image.new("RGB", (32, 48), "red"))]

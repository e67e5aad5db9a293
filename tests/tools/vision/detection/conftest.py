"""Folders of tiny models, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.tools.vision.detection.tiny import save_tiny

Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """``model_type`` → the folder of a tiny model of it."""

    @cache
    def made(kind: str) -> Path:
        return save_tiny(kind, tmp_path_factory.mktemp(f"tiny-{kind}"), seed=1)

    return made

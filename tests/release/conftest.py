"""The folders in which the examples of the pages run, made once for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenewright.mock_providers import ThreadedMockProviders, serving_thread
from tests.release.docs_place import MOCK, furnish, furnish_evaluations, point_at


@pytest.fixture(scope="package")
def mock() -> Iterator[ThreadedMockProviders]:
    """The providers that the examples ask."""
    with serving_thread(MOCK) as made:
        yield made


@pytest.fixture(scope="package")
def furnished(mock: ThreadedMockProviders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs, from which each block has a copy."""
    folder = tmp_path_factory.mktemp("furnished")
    with pytest.MonkeyPatch.context() as patch:
        point_at(mock, folder, patch)
        furnish(mock)
    return folder


@pytest.fixture(scope="package")
def evaluated(
    mock: ThreadedMockProviders, furnished: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same with finished evaluations."""
    folder = tmp_path_factory.mktemp("evaluated") / "place"
    shutil.copytree(furnished, folder)
    with pytest.MonkeyPatch.context() as patch:
        point_at(mock, folder, patch)
        furnish_evaluations()
    return folder

"""The service on a loopback port with scripted models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving

__all__ = ["scripted", "serving"]


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    """Settings of a service that keeps all below a folder of the test."""
    return ServiceSettings(data=tmp_path / "data", drain_seconds=10)


@pytest.fixture
async def url(settings: ServiceSettings) -> AsyncIterator[str]:
    """The address of a service with scripted models."""
    async with serving(create_app(settings, models=scripted())) as address:
        yield address

"""A backend behind HTTP: the contract of backends, and the pictures of the same model here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, GenerationStep, ImageBackend
from scenewright.providers.model_serving import ModelServer
from scenewright.service.model_serving.models import LocalBackendEndpoint, ModelEndpoint
from scenewright.tools.backends.adapter import IPAdapterSource
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.served import ServedBackend
from tests.service.model_serving.hosting import hosting, swift
from tests.tools.backends.conformance import RED, BackendConformance, drawn, no_images
from tests.tools.backends.conftest import pictures, store, tiny_adapter, tiny_model

__all__ = ["pictures", "store", "tiny_adapter", "tiny_model"]
NAME = "diffusers:tiny"


@pytest.fixture(scope="module")
def here(tiny_model: Path, tiny_adapter: Path) -> Iterator[DiffusersBackend]:
    made = DiffusersBackend(
        str(tiny_model), name="tiny", ip_adapter=IPAdapterSource(str(tiny_adapter))
    )
    yield made
    asyncio.run(made.aclose())


@pytest.fixture(scope="module")
def url(tiny_model: Path, tiny_adapter: Path) -> Iterator[str]:
    async def make() -> Mapping[str, ModelEndpoint]:
        backend = DiffusersBackend(
            str(tiny_model), name="tiny", ip_adapter=IPAdapterSource(str(tiny_adapter))
        )
        return {NAME: LocalBackendEndpoint(backend, NAME)}

    with hosting(make) as address:
        yield address


@pytest.fixture
def make_backend(url: str) -> Callable[[], ImageBackend]:
    return lambda: ServedBackend(ModelServer(NAME, url), swift(), account="cluster")


@pytest.fixture
async def backend(make_backend: Callable[[], ImageBackend]) -> AsyncIterator[ImageBackend]:
    made = make_backend()
    yield made
    await made.aclose()


class TestConformance(BackendConformance):
    pass


async def test_it_draws_as_the_same_model_in_this_process(
    backend: ImageBackend, here: DiffusersBackend, store: ImageStore
) -> None:
    assert backend.fingerprint == here.fingerprint
    assert backend.features == here.features
    assert backend.id == "cluster:diffusers:tiny"
    for seed in range(3):
        request = RED.model_copy(update={"seed": seed})
        assert await drawn(backend, request, store) == await drawn(here, request, store)


async def test_each_step_is_told_as_it_is_done(backend: ImageBackend) -> None:
    told: list[GenerationStep] = []
    await backend.generate(RED.model_copy(update={"steps": 5}), no_images, told.append)
    assert [(step.step, step.of) for step in told] == [(n, 5) for n in range(1, 6)]


async def test_other_weights_than_those_looked_up_are_refused(backend: ImageBackend) -> None:
    assert isinstance(backend, ServedBackend)
    backend._fingerprint = "f" * 64
    with pytest.raises(BackendError, match="Start again"):
        await backend.generate(RED, no_images)


def test_a_size_of_its_own_is_set_where_it_is_served(url: str) -> None:
    server = ModelServer(NAME, url)
    with pytest.raises(BackendError, match=r"leave size out"):
        ServedBackend(server, swift(), account="cluster", size=(8, 8))

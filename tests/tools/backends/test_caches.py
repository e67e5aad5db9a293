"""Denoisers that reuse computations between steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from scenewright.config.local_images import CacheSpec
from scenewright.config.profiles import BackendSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny_families, tiny_modern
from tests.tools.backends.conformance import RED, drawn

MANY = RED.model_copy(update={"steps": 8})


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_families.build_flux(tmp_path_factory.mktemp("model") / "flux")


@pytest.mark.parametrize(
    "cache",
    [CacheSpec(kind="first-block", threshold=1.0), CacheSpec(kind="taylor-seer", interval=3)],
    ids=lambda cache: cache.kind,
)
async def test_a_cache_skips_work_and_is_told(
    flux: Path, store: ImageStore, monkeypatch: pytest.MonkeyPatch, cache: CacheSpec
) -> None:
    from diffusers.models.transformers.transformer_flux import FluxAttnProcessor

    calls: list[int] = []
    plain = FluxAttnProcessor.__call__

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(1)
        return plain(self, *args, **options)

    monkeypatch.setattr(FluxAttnProcessor, "__call__", counted)
    without, cached = DiffusersBackend(str(flux)), DiffusersBackend(str(flux), cache=cache)
    assert without.fingerprint != cached.fingerprint
    await drawn(without, MANY, store)
    whole = len(calls)
    made = await cached.generate(MANY, store.get)
    assert 0 < len(calls) - whole < whole
    assert made.details["cache"] == cache.kind
    # What one picture left behind does not reach the next.
    assert await drawn(cached, MANY, store) == await drawn(cached, MANY, store)
    for backend in (without, cached):
        await backend.aclose()


async def test_a_cache_that_computes_every_step_changes_nothing(
    flux: Path, store: ImageStore
) -> None:
    plain = DiffusersBackend(str(flux))
    strict = DiffusersBackend(str(flux), cache=CacheSpec(kind="first-block", threshold=1e-9))
    assert await drawn(plain, RED, store) == await drawn(strict, RED, store)
    for backend in (plain, strict):
        await backend.aclose()


def test_a_cache_that_the_model_lacks_is_told_before_weights_are_read(tmp_path: Path) -> None:
    model = tiny_modern.build_z_image(tmp_path / "model")
    backend = DiffusersBackend(str(model), cache=CacheSpec(kind="first-block"))
    with pytest.raises(BackendError, match="ZImagePipeline has no cache 'first-block'"):
        _ = backend.features


def test_the_profile_names_a_cache_in_short_or_with_its_numbers() -> None:
    short = BackendSpec.model_validate({"model": "m", "cache": "first-block"})
    assert short.cache == CacheSpec(kind="first-block", threshold=0.05)
    long = BackendSpec.model_validate(
        {"model": "m", "cache": {"kind": "taylor-seer", "interval": 4}}
    )
    assert long.cache == CacheSpec(kind="taylor-seer", interval=4)
    for wrong in (
        "tea",
        {"kind": "first-block", "threshold": 0},
        {"kind": "taylor-seer", "interval": 1},
    ):
        with pytest.raises(ValidationError):
            BackendSpec.model_validate({"model": "m", "cache": wrong})
    with pytest.raises(ValidationError, match="cache: only for models on this machine"):
        BackendSpec.model_validate({"kind": "openai", "model": "m", "cache": "first-block"})

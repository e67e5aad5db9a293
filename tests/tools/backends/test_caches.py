"""Denoisers that reuse computations between steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from scenewright.config.local_images import CacheSpec
from scenewright.config.profiles import BackendSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny_families, tiny_modern
from tests.tools.backends.conformance import RED, check_seconds, drawn

MANY = RED.model_copy(update={"steps": 8})


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_families.build_flux(tmp_path_factory.mktemp("model") / "flux")


@pytest.mark.slow
@pytest.mark.parametrize(
    "cache",
    [
        CacheSpec(kind="first-block", threshold=1.0),
        CacheSpec(kind="taylor-seer", interval=3),
        CacheSpec(kind="mag", threshold=0.5),
    ],
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


@pytest.mark.parametrize("kind", ["first-block", "taylor-seer", "mag"])
async def test_a_cached_picture_took_no_more_seconds_than_passed(flux: Path, kind: Any) -> None:
    backend = DiffusersBackend(str(flux), cache=CacheSpec(kind=kind))
    await check_seconds(backend)
    await backend.aclose()


def test_a_cache_that_the_model_lacks_is_told_before_weights_are_read(tmp_path: Path) -> None:
    model = tiny_modern.build_z_image(tmp_path / "model")
    backend = DiffusersBackend(str(model), cache=CacheSpec(kind="first-block"))
    with pytest.raises(BackendError, match="ZImagePipeline has no cache 'first-block'"):
        _ = backend.features


async def test_mag_follows_the_steps_that_are_asked_for(flux: Path, store: ImageStore) -> None:
    still = CacheSpec(kind="mag", threshold=1.0, skips=100, ratios=(1.0, 1.0))
    plain, cached = DiffusersBackend(str(flux)), DiffusersBackend(str(flux), cache=still)
    few = RED.model_copy(update={"steps": 2})
    # Another number of steps before it leaves nothing behind.
    await cached.generate(MANY, store.get)
    assert cached._ready is not None
    config = cached._ready.pipe.transformer._cache_config
    assert (config.num_inference_steps, len(config.mag_ratios)) == (8, 8)
    fresh = DiffusersBackend(str(flux), cache=still)
    assert await drawn(cached, few, store) == await drawn(fresh, few, store)
    # What starts from a picture is computed in full.
    image = store.put((await plain.generate(MANY, store.get)).image)
    started = MANY.model_copy(update={"start": Start(image=image, strength=0.6)})
    assert await drawn(cached, started, store) == await drawn(plain, started, store)
    assert await drawn(cached, MANY, store) != await drawn(plain, MANY, store)
    for backend in (plain, cached, fresh):
        await backend.aclose()


def test_mag_without_ratios_of_the_model_is_told(tmp_path: Path) -> None:
    model = tiny_modern.build_klein(tmp_path / "model")
    with pytest.raises(BackendError, match="'mag' needs the ratios of Flux2KleinPipeline"):
        _ = DiffusersBackend(str(model), cache=CacheSpec(kind="mag")).features
    own = DiffusersBackend(str(model), cache=CacheSpec(kind="mag", ratios=(1.0, 1.1)))
    assert own.features.default_steps


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
        {"kind": "first-block", "ratios": [1.0, 1.0]},
        {"kind": "mag", "ratios": [1.0]},
        {"kind": "mag", "ratios": [1.0, -1.0]},
    ):
        with pytest.raises(ValidationError):
            BackendSpec.model_validate({"model": "m", "cache": wrong})
    with pytest.raises(ValidationError, match="cache: only for models on this machine"):
        BackendSpec.model_validate({"kind": "openai", "model": "m", "cache": "first-block"})

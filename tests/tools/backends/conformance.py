"""What every image backend must do: subclass ``BackendConformance`` and give the fixtures.

``make_backend`` returns a function that makes a fresh backend; ``backend`` one that all
tests of the module share; ``store`` and ``pictures`` (an ``ImageStore`` and hashes of at
least three images in it) come from ``conftest.py``. Tests of what a backend says it
cannot do are skipped by its own ``features``.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from scenewright.images import ImageStore, png_bytes
from scenewright.tools.backends.base import (
    BackendError,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
    NoisePatch,
    Reference,
)

RED = GenerationRequest(prompt="red dog", seed=7)


def with_references(names: list[str], *weights: float, **changes: Any) -> GenerationRequest:
    pairs = zip(names, weights, strict=False)
    references = tuple(Reference(image=name, weight=weight) for name, weight in pairs)
    return RED.model_copy(update={"references": references, **changes})


def no_images(name: str) -> Image.Image:
    pytest.fail(f"the image {name} was asked for without need")


async def drawn(backend: ImageBackend, request: GenerationRequest, store: ImageStore) -> bytes:
    return png_bytes((await backend.generate(request, store.get)).image)


class BackendConformance:
    """The contract of ``ImageBackend``."""

    def test_it_is_a_backend(self, backend: ImageBackend) -> None:
        assert isinstance(backend, ImageBackend)
        assert re.fullmatch(r"[a-z][\w-]*:\S+", backend.id)

    def test_features_make_sense(self, backend: ImageBackend) -> None:
        features = backend.features
        assert features.references >= 0
        assert (features.reference_maths == "none") == (features.references == 0)
        assert features.references or not features.masks
        assert all(8 <= side <= 4096 for side in features.default_size)
        assert features.sizes is None or features.default_size in features.sizes
        assert features.default_steps >= 1
        assert features.default_guidance >= 0

    async def test_an_equal_backend_has_an_equal_fingerprint(
        self, backend: ImageBackend, make_backend: Callable[[], ImageBackend]
    ) -> None:
        twin = make_backend()
        assert twin.fingerprint == backend.fingerprint
        assert len(backend.fingerprint) >= 32
        await twin.aclose()

    async def test_the_image_is_rgb_of_the_default_size(self, backend: ImageBackend) -> None:
        result = await backend.generate(RED, no_images)
        assert isinstance(result, GeneratedImage)
        assert result.image.mode == "RGB"
        assert result.image.size == backend.features.default_size
        assert result.seconds > 0
        assert result.usd >= 0

    async def test_the_image_has_the_size_asked_for(self, backend: ImageBackend) -> None:
        width, height = (backend.features.sizes or ((64, 32),))[-1]
        request = RED.model_copy(update={"width": width, "height": height})
        assert (await backend.generate(request, no_images)).image.size == (width, height)

    async def test_equal_requests_give_equal_bytes_whatever_comes_between(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if not backend.features.seeds:
            pytest.skip("no seeds")
        requests = [RED, RED.model_copy(update={"prompt": "a blue cat", "steps": 2})]
        if backend.features.references:
            requests += [with_references(pictures, 0.5), with_references(pictures[1:], 0.75)]
        first = [await drawn(backend, request, store) for request in requests]
        assert len(set(first)) == len(requests)
        again = [await drawn(backend, request, store) for request in reversed(requests)]
        assert again[::-1] == first

    async def test_a_fresh_backend_gives_the_same_bytes(
        self, backend: ImageBackend, make_backend: Callable[[], ImageBackend], store: ImageStore
    ) -> None:
        if not backend.features.seeds:
            pytest.skip("no seeds")
        fresh = make_backend()
        assert await drawn(fresh, RED, store) == await drawn(backend, RED, store)
        await fresh.aclose()

    async def test_patches_lie_over_the_noise(
        self, backend: ImageBackend, store: ImageStore
    ) -> None:
        if not backend.features.noise_patches:
            pytest.skip("no noise patches")
        black, white = (
            store.put(Image.new("RGB", (40, 40), color)) for color in ("black", "white")
        )
        left = Image.new("RGB", (40, 40), "black")
        left.paste("white", (0, 0, 20, 40))

        def patched(*patches: tuple[int, str]) -> GenerationRequest:
            laid = tuple(NoisePatch(seed=seed, mask=mask) for seed, mask in patches)
            return RED.model_copy(update={"noise_patches": laid})

        plain, other = [
            await drawn(backend, RED.model_copy(update={"seed": seed}), store) for seed in (7, 8)
        ]
        assert plain == await drawn(backend, patched((8, black)), store)
        assert other == await drawn(backend, patched((9, white), (8, white)), store)
        some = await drawn(backend, patched((8, store.put(left))), store)
        assert some not in (plain, other)

    async def test_seed_and_prompt_matter(self, backend: ImageBackend, store: ImageStore) -> None:
        changes: list[dict[str, Any]] = [{}, {"seed": 8}, {"prompt": "a blue house"}]
        if backend.features.negative_prompt:
            changes.append({"negative_prompt": "green"})
        pictures = {await drawn(backend, RED.model_copy(update=c), store) for c in changes}
        assert len(pictures) == len(changes)

    async def test_steps_are_told_in_order_on_the_event_loop(self, backend: ImageBackend) -> None:
        told: list[GenerationStep] = []
        threads: set[int] = set()

        def on_step(step: GenerationStep) -> None:
            told.append(step)
            threads.add(threading.get_ident())

        await backend.generate(RED.model_copy(update={"steps": 4}), no_images, on_step)
        assert told
        assert [step.step for step in told] == list(range(1, told[0].of + 1))
        assert {step.of for step in told} == {len(told)}
        assert threads == {threading.get_ident()}

    async def test_requests_at_once_wait_in_line(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        requests = [RED.model_copy(update={"seed": seed, "steps": 2}) for seed in range(3)]
        if backend.features.references:
            requests += [with_references([name], 0.5, steps=2) for name in pictures[:2]]
        alone = [await drawn(backend, request, store) for request in requests]
        together = await asyncio.gather(*(drawn(backend, request, store) for request in requests))
        if backend.features.seeds:
            assert together == alone

    async def test_cancelling_stops_between_steps_and_frees_the_backend(
        self, backend: ImageBackend, store: ImageStore
    ) -> None:
        before = await drawn(backend, RED, store)
        told: list[GenerationStep] = []
        started = asyncio.Event()

        def on_step(step: GenerationStep) -> None:
            told.append(step)
            started.set()

        long = RED.model_copy(update={"steps": 900})
        task = asyncio.create_task(backend.generate(long, no_images, on_step))
        waiting = asyncio.create_task(backend.generate(long, no_images, on_step))
        await asyncio.wait_for(started.wait(), 30)
        waiting.cancel()
        task.cancel()
        begun = time.monotonic()
        results = await asyncio.gather(task, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        assert time.monotonic() - begun < 10
        seen = len(told)
        assert seen < 900
        if backend.features.seeds:
            assert await drawn(backend, RED, store) == before
        assert len(told) == seen

    async def test_a_timeout_ends_it(self, backend: ImageBackend, store: ImageStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await backend.generate(RED.model_copy(update={"steps": 900}), no_images)
        assert await drawn(backend, RED, store)

    async def test_too_many_references_are_refused(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        count = backend.features.references + 1
        request = with_references(pictures[:1] * count, *[0.5] * count)
        with pytest.raises(BackendError, match="reference"):
            await backend.generate(request, store.get)
        assert await drawn(backend, RED, store)

    async def test_references_and_their_weights_matter(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if not backend.features.references:
            pytest.skip("no references")
        requests = [
            RED,
            with_references(pictures, 0.5),
            with_references(pictures, 1.0),
            with_references(pictures[1:], 0.5),
        ]
        assert len({await drawn(backend, request, store) for request in requests}) == 4
        nothing = with_references(pictures, 0.0)
        assert await drawn(backend, nothing, store) == await drawn(backend, RED, store)

    async def test_a_reference_that_cannot_be_read_is_told(
        self, backend: ImageBackend, store: ImageStore
    ) -> None:
        if not backend.features.references:
            pytest.skip("no references")
        with pytest.raises(ValueError, match="no image"):
            await backend.generate(with_references(["0" * 64], 0.5), store.get)
        assert await drawn(backend, RED, store)

    async def test_closing_is_final_and_may_be_repeated(
        self, make_backend: Callable[[], ImageBackend]
    ) -> None:
        backend = make_backend()
        await backend.generate(RED.model_copy(update={"steps": 1}), no_images)
        await backend.aclose()
        await backend.aclose()
        with pytest.raises(BackendError, match="closed"):
            await backend.generate(RED, no_images)

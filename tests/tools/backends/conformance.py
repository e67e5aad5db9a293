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

from scenewright.core.images import ImageStore, png_bytes
from scenewright.core.layout import Region
from scenewright.core.ports.backend import (
    BackendError,
    Box,
    CountingBackend,
    Emphasis,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
    Reference,
    Start,
)
from scenewright.tools.backends.prompts import count_prompt

RED = GenerationRequest(prompt="red dog", seed=7)


def with_references(names: list[str], *weights: float, **changes: Any) -> GenerationRequest:
    pairs = zip(names, weights, strict=False)
    references = tuple(Reference(image=name, weight=weight) for name, weight in pairs)
    return RED.model_copy(update={"references": references, **changes})


def no_images(name: str) -> Image.Image:
    pytest.fail(f"the image {name} was asked for without need")


async def drawn(backend: ImageBackend, request: GenerationRequest, store: ImageStore) -> bytes:
    return png_bytes((await backend.generate(request, store.get)).image)


async def check_seconds(backend: ImageBackend) -> None:
    """Asserts that a picture took some time, and no more than passed meanwhile."""
    began = time.perf_counter()
    made = await backend.generate(RED, no_images)
    assert 0 < made.seconds <= time.perf_counter() - began


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
        assert result.usd >= 0

    async def test_a_picture_took_no_more_seconds_than_passed(self, backend: ImageBackend) -> None:
        await check_seconds(backend)

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
            shown = ((pictures, 0.5), (pictures[1:], 0.75))
            requests += [with_references(names, weight, steps=2) for names, weight in shown]
        first = [await drawn(backend, request, store) for request in requests]
        assert len(set(first)) == len(requests)
        again = [await drawn(backend, request, store) for request in reversed(requests)]
        assert again[::-1] == first

    async def test_a_fresh_backend_gives_the_same_bytes_and_closing_it_is_final(
        self, backend: ImageBackend, make_backend: Callable[[], ImageBackend], store: ImageStore
    ) -> None:
        fresh = make_backend()
        request = RED.model_copy(update={"steps": 2})
        picture = await drawn(fresh, request, store)
        if backend.features.seeds:
            assert picture == await drawn(backend, request, store)
        # Closing may be repeated.
        await fresh.aclose()
        await fresh.aclose()
        with pytest.raises(BackendError, match="closed"):
            await fresh.generate(request, no_images)

    async def test_a_drawing_starts_from_a_picture(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if not backend.features.edit:
            pytest.skip("no edits")

        def started(image: str, strength: float) -> GenerationRequest:
            return RED.model_copy(update={"start": Start(image=image, strength=strength)})

        plain = await drawn(backend, RED, store)
        ends = [await drawn(backend, started(image, 0.5), store) for image in pictures[:2]]
        assert len({plain, *ends}) == 3
        if backend.features.seeds:
            assert ends[0] == await drawn(backend, started(pictures[0], 0.5), store)
        # However little is asked, a step is made; and the next picture knows nothing of it.
        assert await drawn(backend, started(pictures[0], 1e-6), store)
        if backend.features.seeds:
            assert plain == await drawn(backend, RED, store)

    async def test_what_the_mask_leaves_out_stays(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if not backend.features.edit:
            pytest.skip("no edits")
        width, height = backend.features.default_size
        kept = store.get(pictures[0]).convert("RGB").resize((width, height))
        left = Image.new("L", (width, height))
        left.paste(255, (0, 0, width // 2, height))
        start = Start(image=store.put(kept), strength=0.8, mask=store.put(left))
        request = RED.model_copy(update={"start": start})
        image = (await backend.generate(request, store.get)).image
        assert image.size == (width, height)
        right = (width * 3 // 4, 0, width, height)
        assert image.crop(right).tobytes() == kept.crop(right).tobytes()
        changed = (0, 0, width // 4, height)
        assert image.crop(changed).tobytes() != kept.crop(changed).tobytes()
        if backend.features.references and backend.features.reference_maths != "pictures":
            mask = start.mask if backend.features.masks else None
            shown = Reference(image=pictures[1], weight=0.7, mask=mask)
            both = request.model_copy(update={"references": (shown,)})
            assert await drawn(backend, both, store) != png_bytes(image)

    async def test_a_start_that_cannot_be_served_is_a_clear_error(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if backend.features.edit:
            pytest.skip("it can start from a picture")
        start = Start(image=pictures[0], strength=0.5)
        with pytest.raises(BackendError, match="start"):
            await backend.generate(RED.model_copy(update={"start": start}), store.get)

    async def test_seed_and_prompt_matter(self, backend: ImageBackend, store: ImageStore) -> None:
        changes: list[dict[str, Any]] = [{}, {"seed": 8}, {"prompt": "a blue house"}]
        if backend.features.negative_prompt:
            changes.append({"negative_prompt": "green"})
        pictures = {await drawn(backend, RED.model_copy(update=c), store) for c in changes}
        assert len(pictures) == len(changes)

    async def test_it_tells_how_much_of_a_prompt_was_read(self, backend: ImageBackend) -> None:
        budget = backend.features.prompt_tokens
        short = await backend.generate(RED, no_images)
        assert short.count is not None
        assert short.count.tokens > 0
        assert (short.count.dropped, short.count.read) == (0, None)
        if isinstance(backend, CountingBackend):
            assert short.count == count_prompt(backend, RED.prompt)
        assert short.steps is None or short.steps >= 1
        if budget is None or budget > 2_000:
            return
        long = RED.model_copy(update={"prompt": "red dog " * budget})
        told = (await backend.generate(long, no_images)).count
        assert told is not None
        assert told.dropped == told.tokens - budget > 0
        assert told.read is not None
        assert 0 < told.read < len(long.prompt)

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
        requests = [RED.model_copy(update={"seed": seed, "steps": 2}) for seed in range(2)]
        if backend.features.references:
            requests.insert(1, with_references(pictures[:1], 0.5, steps=2))
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
        await asyncio.wait_for(started.wait(), 60)
        waiting.cancel()
        task.cancel()
        results = await asyncio.gather(task, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        seen = len(told)
        assert seen < 900
        if backend.features.seeds:
            assert await drawn(backend, RED, store) == before
        assert len(told) == seen

    async def test_a_timeout_ends_it(self, backend: ImageBackend, store: ImageStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
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
        requests = [RED, with_references(pictures, 0.5), with_references(pictures[1:], 0.5)]
        if backend.features.reference_maths != "pictures":
            requests.append(with_references(pictures, 1.0))
        found = {await drawn(backend, request, store) for request in requests}
        assert len(found) == len(requests)
        if backend.features.seeds:
            nothing = with_references(pictures, 0.0)
            assert await drawn(backend, nothing, store) == await drawn(backend, RED, store)

    async def test_what_older_versions_drew_with_is_refused(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        words = RED.model_copy(update={"emphasis": (Emphasis(text="red", weight=1.5),)})
        with pytest.raises(BackendError, match="emphasis"):
            await backend.generate(words, store.get)
        if backend.features.references:
            changing = Reference(image=pictures[0], weight=0.8, schedule=(0.0, 1.0))
            with pytest.raises(BackendError, match="schedule"):
                await backend.generate(
                    RED.model_copy(update={"references": (changing,)}), store.get
                )

    async def test_boxes_are_taken_where_the_features_say_so(
        self, backend: ImageBackend, store: ImageStore
    ) -> None:
        dog = Box(name="dog", phrase="red dog", region=Region(0.0, 0.25, 0.5, 1.0))
        placed = RED.model_copy(update={"boxes": (dog,)})
        if not backend.features.boxes:
            with pytest.raises(BackendError, match="boxes"):
                await backend.generate(placed, store.get)
            return
        moved = dog.model_copy(update={"region": Region(0.5, 0.25, 1.0, 1.0)})
        elsewhere = RED.model_copy(update={"boxes": (moved,)})
        found = [await drawn(backend, one, store) for one in (RED, placed, elsewhere)]
        assert len(set(found)) == 3
        assert await drawn(backend, placed, store) == found[1]

    async def test_a_picture_is_edited_by_instruction(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        def edited(image: str, **changes: Any) -> GenerationRequest:
            start = Start(image=image, strength=1.0, instruct=True, **changes)
            return RED.model_copy(update={"start": start})

        if not backend.features.instructions:
            with pytest.raises(BackendError, match="instruct"):
                await backend.generate(edited(pictures[0]), store.get)
            return
        plain = await drawn(backend, RED, store)
        one, other = [await drawn(backend, edited(image), store) for image in pictures[:2]]
        assert len({plain, one, other}) == 3
        if backend.features.seeds:
            assert await drawn(backend, edited(pictures[0]), store) == one
            assert await drawn(backend, RED, store) == plain

    async def test_masks_of_references_are_told_where_there_are_none(
        self, backend: ImageBackend, store: ImageStore, pictures: list[str]
    ) -> None:
        if backend.features.masks or not backend.features.references:
            pytest.skip("it takes masks, or no references at all")
        one = Reference(image=pictures[0], weight=0.5, mask=pictures[1])
        with pytest.raises(BackendError, match="mask"):
            await backend.generate(RED.model_copy(update={"references": (one,)}), store.get)

    async def test_a_reference_that_cannot_be_read_is_told(
        self, backend: ImageBackend, store: ImageStore
    ) -> None:
        if not backend.features.references:
            pytest.skip("no references")
        with pytest.raises(ValueError, match="no image"):
            await backend.generate(with_references(["0" * 64], 0.5), store.get)
        assert await drawn(backend, RED, store)

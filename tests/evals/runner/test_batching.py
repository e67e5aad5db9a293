"""Drawing in batches: who is put together, who is not, and what becomes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.ports.backend import (
    BackendError,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
    Reference,
)
from scenewright.evals.runner.backends import BatchingBackend, in_batches
from scenewright.evals.runner.runner import run_eval
from tests.doubles import ScriptedBackend
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted


@dataclass
class BatchBackend(ScriptedBackend):
    """Draws several at once; each batch waits until it is let through."""

    sizes: list[int] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: int = 0

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        return (await self.generate_many([request], load, on_step))[0]

    async def generate_many(
        self,
        requests: Sequence[GenerationRequest],
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> list[GeneratedImage]:
        self.sizes.append(len(requests))
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        draw = super().generate
        return [await draw(request, load, on_step) for request in requests]


def request(seed: int, **fields: object) -> GenerationRequest:
    return GenerationRequest(prompt="a ball", seed=seed, **fields)


def nothing(name: str) -> Image.Image:
    raise AssertionError("nothing is to be loaded")


def backend(**fields: object) -> BatchBackend:
    return BatchBackend(lambda request: 10 + request.seed, **fields)  # type: ignore[arg-type]


async def test_those_who_wait_share_a_batch_and_each_gets_its_own_picture() -> None:
    made = backend()
    batching = in_batches(made, 3)
    assert isinstance(batching, BatchingBackend)
    assert isinstance(batching, ImageBackend)
    assert batching.fingerprint != made.fingerprint
    assert (batching.id, batching.features) == (made.id, made.features)
    first = asyncio.create_task(batching.generate(request(0), nothing))
    await made.begun.wait()
    rest = [asyncio.create_task(batching.generate(request(n), nothing)) for n in range(1, 6)]
    await asyncio.sleep(0)
    made.gate.set()
    pictures = [made.image for made in await asyncio.gather(first, *rest)]
    assert made.sizes == [1, 3, 2]
    assert [picture.getpixel((0, 0))[0] for picture in pictures] == [10, 11, 12, 13, 14, 15]


async def test_all_who_listen_hear_the_steps_of_their_batch() -> None:
    made = backend()
    made.gate.set()
    batching = in_batches(made, 2)
    heard: list[list[GenerationStep]] = [[], []]
    await asyncio.gather(
        *(batching.generate(request(n), nothing, heard[n].append) for n in range(2))
    )
    assert made.sizes == [2]
    assert heard[0] == heard[1] != []


async def test_references_are_not_put_together() -> None:
    made = backend()
    made.gate.set()
    batching = in_batches(made, 4)
    given = Image.new("RGB", (8, 8))
    referring = request(1, references=(Reference(image="0" * 64, weight=0.5),))
    await asyncio.gather(
        batching.generate(referring, lambda name: given),
        batching.generate(referring.model_copy(update={"seed": 2}), lambda name: given),
    )
    assert made.sizes == [1, 1]


async def test_what_one_request_does_wrong_fails_that_one_alone() -> None:
    def failing(asked: GenerationRequest) -> Exception | None:
        return BackendError("no such picture") if asked.seed == 1 else None

    made = backend(failing=failing)
    made.gate.set()
    batching = in_batches(made, 3)
    found = await asyncio.gather(
        *(batching.generate(request(n), nothing) for n in range(3)), return_exceptions=True
    )
    assert [type(one) for one in found] == [GeneratedImage, BackendError, GeneratedImage]
    assert made.sizes == [3, 1, 1, 1]


async def test_a_batch_goes_on_for_as_long_as_somebody_waits_for_it() -> None:
    made = backend()
    batching = in_batches(made, 2)
    one, two = (asyncio.create_task(batching.generate(request(n), nothing)) for n in range(2))
    await made.begun.wait()
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert made.stopped == 0
    made.gate.set()
    assert (await two).image.getpixel((0, 0))[0] == 11


async def test_a_batch_that_nobody_waits_for_is_stopped_and_the_next_one_begins() -> None:
    made = backend()
    batching = in_batches(made, 2)
    tasks = [asyncio.create_task(batching.generate(request(n), nothing)) for n in range(3)]
    await made.begun.wait()
    for task in tasks[:2]:
        task.cancel()
    assert all(
        isinstance(found, asyncio.CancelledError)
        for found in await asyncio.gather(*tasks[:2], return_exceptions=True)
    )
    assert made.stopped == 1
    made.gate.set()
    assert (await tasks[2]).image.getpixel((0, 0))[0] == 12
    assert made.sizes == [2, 1]


def test_a_backend_that_draws_one_at_a_time_stays_as_it_is() -> None:
    alone = ScriptedBackend(lambda request: 1)
    assert in_batches(alone, 8) is alone
    many = backend()
    assert in_batches(many, 1) is many


async def test_an_evaluation_draws_in_batches_what_it_draws_one_by_one(tmp_path: Path) -> None:
    given = scripted()
    plain = given.backends["miniature"]
    assert isinstance(plain, ScriptedBackend)
    made = BatchBackend(plain.quality, plain.book)
    made.gate.set()
    given = replace(given, backends={"miniature": made})
    asked = config(conditions=["composition"], concurrency=4, batch=4)
    items = ListedSet(scene_items(8))
    found = await run_eval(asked, tmp_path / "a", given=given, dataset=items)
    assert max(made.sizes) > 1
    assert sum(made.sizes) == 8
    alone = await run_eval(
        config(conditions=["composition"]), tmp_path / "b", given=scripted(), dataset=items
    )
    assert [row["image"] for row in found.rows("rounds")] == [
        row["image"] for row in alone.rows("rounds")
    ]

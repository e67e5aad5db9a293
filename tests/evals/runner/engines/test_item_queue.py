"""Items that are handed out: each until it is done, those that were left first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.cluster import gpus_of
from scenewright.evals.runner.engines.ray_engine import RayEngine, engine_of
from scenewright.evals.runner.engines.worker_pool import MOST_DEATHS, ItemQueue
from scenewright.evals.runner.task import LocalEngine


async def stream(n: int) -> AsyncGenerator[tuple[int, Item]]:
    for at in range(n):
        yield at, Item(id=f"item-{at}", prompt="a cat")


async def test_an_item_that_was_left_is_given_to_another_and_waited_for() -> None:
    queue = ItemQueue(stream(2))
    first, second = await queue.next(), await queue.next()
    assert first is not None
    assert second is not None
    waiting, over = asyncio.create_task(queue.next()), asyncio.create_task(queue.finished())
    queue.done(first[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.back(*second, "killed")
    assert await waiting == second
    assert not over.done()
    queue.done(second[0])
    await over
    assert await queue.next() is None


async def test_an_item_that_kills_every_worker_is_named() -> None:
    queue = ItemQueue(stream(1))
    for _ in range(MOST_DEATHS - 1):
        found = await queue.next()
        assert found is not None
        queue.back(*found, "killed")
    found = await queue.next()
    assert found is not None
    with pytest.raises(EvalError, match=r"item-0.*out of memory.*what is done is kept"):
        queue.back(*found, "out of memory")


@pytest.mark.parametrize(
    ("gpus", "workers", "each"),
    [(0, 4, 0.0), (4, 2, 1.0), (4, 4, 1.0), (2, 3, 0.5), (1, 4, 0.25), (0.5, 1, 0.0)],
)
def test_workers_share_the_gpus_evenly(gpus: float, workers: int, each: float) -> None:
    found = gpus_of(gpus, workers)
    assert found == each
    # On every GPU there is room for its workers.
    assert workers * found <= gpus or found == 0


def test_engines_by_name() -> None:
    assert engine_of("local") == LocalEngine()
    assert engine_of("ray", 3, "auto") == RayEngine(3, "auto")
    with pytest.raises(EvalError, match="local, ray"):
        engine_of("spark")
    with pytest.raises(EvalError, match="add --engine ray"):
        engine_of("local", workers=2)

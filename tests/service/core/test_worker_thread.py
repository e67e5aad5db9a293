"""Computations on large scenes take turns, and small ones do not wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from scenewright.core.formats import load_scene
from scenewright.service.core.errors import Busy
from scenewright.service.core.worker_thread import (
    LARGE_SCENE_ITEMS,
    WAITING,
    WorkerThread,
    size_of,
    size_of_request,
)


@pytest.fixture
def aside() -> Iterator[WorkerThread]:
    made = WorkerThread()
    yield made
    made.close()


def test_the_size_of_a_scene_is_that_of_its_stored_request() -> None:
    scene = load_scene("red ball on table; small black dog left of table")
    assert size_of(scene) == 3 + 3 + 2
    assert size_of_request({"scene": scene.model_dump(mode="json")}) == size_of(scene)
    assert size_of_request({"scene": {"objects": None, "relations": None}}) == 0
    assert size_of_request({"text": "a dog"}) == 0


async def test_small_scenes_do_not_wait_and_too_many_large_ones_are_told(
    aside: WorkerThread,
) -> None:
    go, at_work, most = threading.Event(), 0, 0
    guard = threading.Lock()

    def slow(number: int) -> int:
        nonlocal at_work, most
        with guard:
            at_work += 1
            most = max(most, at_work)
        assert go.wait(60)
        with guard:
            at_work -= 1
        return number

    size = LARGE_SCENE_ITEMS + 1
    large = [asyncio.create_task(aside.compute(size, slow, at)) for at in range(WAITING)]
    await asyncio.sleep(0)
    assert await aside.compute(LARGE_SCENE_ITEMS, lambda: "small") == "small"
    with pytest.raises(Busy, match="large scenes are being worked out") as told:
        await aside.compute(LARGE_SCENE_ITEMS + 1, slow, -1)
    assert told.value.headers["Retry-After"] == "5"
    # What was taken in already is never refused.
    taken = asyncio.create_task(aside.submit(LARGE_SCENE_ITEMS + 1, slow, WAITING))
    # Whoever goes away while waiting makes room.
    large.pop().cancel()
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*large, taken) == [*range(WAITING - 1), WAITING]
    assert most == 1
    assert await aside.compute(LARGE_SCENE_ITEMS + 1, slow, 7) == 7


async def test_errors_reach_the_caller(aside: WorkerThread) -> None:
    def wrong() -> None:
        raise ValueError("of the computation")

    for size in (1, LARGE_SCENE_ITEMS + 1):
        with pytest.raises(ValueError, match="of the computation"):
            await aside.compute(size, wrong)

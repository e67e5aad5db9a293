"""Computations on large scenes leave the event loop alone."""

from __future__ import annotations

import asyncio
import threading

import pytest

from scenewright.core.formats import load_scene
from scenewright.graphs.large_scenes import (
    LARGE_SCENE_ITEMS,
    run_in_worker_if_large,
    size_of,
    size_of_data,
)


def test_the_size_of_a_scene_is_that_of_its_data() -> None:
    scene = load_scene("red ball on table; small black dog left of table")
    assert size_of(scene) == size_of_data(scene.model_dump(mode="json")) == 3 + 3 + 2
    assert size_of_data(None) == size_of_data({"objects": None, "relations": None}) == 0


async def test_large_ones_are_worked_out_one_by_one_while_the_loop_goes_on() -> None:
    begun, go, at_work, most = threading.Event(), threading.Event(), 0, 0

    def slow(number: int) -> tuple[int, int]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        begun.set()
        assert go.wait(60)
        at_work -= 1
        return number, threading.get_ident()

    waiting = [
        asyncio.create_task(run_in_worker_if_large(LARGE_SCENE_ITEMS + 1, slow, number))
        for number in range(3)
    ]
    assert await asyncio.to_thread(begun.wait, 60)
    # The loop goes on, and small ones take no thread.
    assert (
        await run_in_worker_if_large(LARGE_SCENE_ITEMS, threading.get_ident)
        == threading.get_ident()
    )
    go.set()
    found = await asyncio.gather(*waiting)
    assert [number for number, _ in found] == [0, 1, 2]
    assert len({thread for _, thread in found}) == most == 1
    assert found[0][1] != threading.get_ident()


async def test_its_errors_reach_the_caller() -> None:
    def wrong() -> None:
        raise ValueError("of the computation")

    for size in (1, LARGE_SCENE_ITEMS + 1):
        with pytest.raises(ValueError, match="of the computation"):
            await run_in_worker_if_large(size, wrong)

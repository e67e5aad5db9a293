"""The thread that owns a model: batches, cancelling, failures, and one model for many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from scenewright.evals.metrics.base import MetricError
from scenewright.evals.metrics.encoders import Worker, shared


def rows_of(model: Any, part: Sequence[int]) -> Any:
    return np.array([[model, thing, len(part)] for thing in part], np.float32)


async def test_work_is_done_in_batches_and_in_order() -> None:
    worker = Worker("test", "cpu", lambda device: 7)
    found = await worker.rows(range(5), 2, rows_of)
    assert found.tolist() == [[7, 0, 2], [7, 1, 2], [7, 2, 2], [7, 3, 2], [7, 4, 1]]
    assert await worker.ready() == 7


async def test_the_model_is_loaded_once_and_outside_the_loops_thread() -> None:
    loads: list[tuple[str, int]] = []
    worker = Worker("test", "cpu", lambda d: loads.append((d, threading.get_ident())) or 1)
    await asyncio.gather(*(worker.rows([at], 1, rows_of) for at in range(8)))
    assert [device for device, _ in loads] == ["cpu"]
    assert loads[0][1] != threading.get_ident()


async def test_cancelling_waits_for_the_batch_at_work_and_begins_no_other() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def slow(model: int, part: Sequence[int]) -> Any:
        begun.set()
        go_on.wait(60)
        done.extend(part)
        return np.zeros((len(part), 1), np.float32)

    worker = Worker("test", "cpu", lambda device: 1)
    task = asyncio.create_task(worker.rows(range(6), 2, slow))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [0, 1]
    assert len(await worker.rows([1, 2], 2, slow)) == 2


async def test_a_model_that_fails_to_load_is_not_tried_again() -> None:
    tries: list[int] = []

    def load(device: str) -> int:
        tries.append(1)
        raise MetricError("broken weights")

    worker = Worker("test", "cpu", load)
    for _ in range(2):
        with pytest.raises(MetricError, match="broken weights"):
            await worker.rows([1], 1, rows_of)
    assert len(tries) == 1


def test_workers_are_shared_while_they_are_used() -> None:
    made: list[Worker[int]] = []

    def make() -> Worker[int]:
        made.append(Worker("test", "cpu", lambda device: 1))
        return made[-1]

    first = shared(("key", 1), make)
    assert shared(("key", 1), make) is first
    assert shared(("key", 2), make) is not first
    assert len(made) == 2

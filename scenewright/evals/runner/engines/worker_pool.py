"""The workers of a job as its driver sees them: hired, given items, replaced when they die."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.cluster import Cluster
from scenewright.evals.runner.engines.jobs import ItemListener, Job
from scenewright.evals.runner.engines.machines import Machines
from scenewright.evals.runner.engines.queue import ItemQueue, Named
from scenewright.evals.runner.measuring import error_text

MOST_LOST = 3
"""Workers in a row that may die in one place before one of them has done an item."""
_CLOSING_SECONDS = 10.0

T = TypeVar("T", bound=Named)


class WorkerPool(Generic[T]):
    """Workers, each in a place in which the next one follows when it dies."""

    def __init__(self, job: Job[T], cluster: Cluster) -> None:
        """Hires nobody yet."""
        import ray

        self._ray: Any = ray
        self._job = job
        self._office = cluster.rate_limits
        self._actor = self._ray.remote(job.actor).options(
            num_cpus=1,
            num_gpus=cluster.gpus,
            max_restarts=0,
            max_task_retries=0,
            # Places beyond those of the items: a worker is told to close while it is at work.
            max_concurrency=job.concurrency + 4,
            scheduling_strategy="SPREAD",
        )
        self._machines = Machines()
        self._places = [
            _Place(self._hire, self._lose, self._machines) for _ in range(cluster.workers)
        ]
        self._ready = 0

    async def work(self, queue: ItemQueue[T]) -> None:
        """Return when all items of ``queue`` are done and kept; the workers stay.

        Raises what their work raises, and ``EvalError`` for workers that cannot begin.
        """
        if not self._ready:
            self._job.ready(0, len(self._places))
            await self._machines.look()
        async with asyncio.TaskGroup() as group:
            hands = [
                group.create_task(self._hand(place, queue))
                for place in self._places
                for _ in range(self._job.concurrency)
            ]
            await queue.finished()
            # Some may still wait for a worker that the cluster has no room for.
            for hand in hands:
                hand.cancel()

    async def dismiss(self) -> None:
        """End all workers, with what they wrote flushed to the disk."""
        found = [place.worker for place in self._places if place.worker is not None]
        closing = [asyncio.ensure_future(_awaited(worker.close.remote())) for worker in found]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSING_SECONDS)
        for worker in found:
            self._ray.kill(worker)

    async def _hand(self, place: _Place, queue: ItemQueue[T]) -> None:
        while True:
            worker = await place.filled()
            found = await queue.next()
            if found is None:
                return
            position, item = found
            hearing = self._job.begin(position, item)
            try:
                await self._done(worker, item, hearing)
            except self._ray.exceptions.RayActorError as error:
                hearing.lost()
                queue.back(position, item, _short(error))
                await place.lost(worker, _short(error))
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from None
            else:
                place.losses = 0
                queue.done(position)

    async def _done(self, worker: Any, item: T, hearing: ItemListener) -> None:
        """Have ``worker`` do ``item``, and keep what it tells as it comes."""
        async for told_now in worker.item.options(num_returns="streaming").remote(hearing.given):
            for event in await told_now:
                if hearing.hear(event):
                    return
        raise EvalError(f"a worker ended the item {item.id!r} without a word: run the same again")

    async def _hire(self) -> tuple[Any, str]:
        """A worker that is ready, and its name."""
        name = secrets.token_hex(8)
        worker = self._actor.remote(self._job.post(name))
        try:
            manifest = await worker.ready.remote()
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            raise EvalError(f"a worker could not begin: {error_text(cause)}") from None
        except asyncio.CancelledError:
            self._ray.kill(worker)
            raise
        wanted = self._job.models
        if manifest != wanted:
            self._ray.kill(worker)
            raise EvalError(
                f"a worker has other models than this process ({_difference(wanted, manifest)}): "
                "install the same versions and weights on every machine"
            )
        self._ready += 1
        if self._ready <= len(self._places):
            self._job.ready(self._ready, len(self._places))
        return worker, name

    async def _lose(self, worker: Any, name: str) -> None:
        # One that was only out of reach must not go on beside the one that follows it.
        with suppress(Exception):
            self._ray.kill(worker)
        await self._office.forget.remote(name)


class _Place:
    """Where a worker is, or the next one will be."""

    def __init__(
        self, hire: Callable[[], Any], lose: Callable[[Any, str], Any], machines: Machines
    ) -> None:
        self._hire, self._lose = hire, lose
        self._machines = machines
        self._machines_lost = 0
        self._turn = asyncio.Lock()
        self._name = ""
        self.worker: Any = None
        self.losses = 0

    async def filled(self) -> Any:
        """The worker; a new one if there is none."""
        async with self._turn:
            while self.worker is None:
                try:
                    self.worker, self._name = await self._hire()
                except EvalError:
                    raise
                except Exception as error:
                    await self._count(_short(error))
            return self.worker

    async def lost(self, worker: Any, why: str) -> None:
        """``worker`` is dead; told by each who had it at work. ``EvalError``: one too many."""
        async with self._turn:
            if self.worker is not worker:
                return
            self.worker = None
            await self._lose(worker, self._name)
            await self._count(why)

    async def _count(self, why: str) -> None:
        self.losses += 1
        if self.losses >= MOST_LOST:
            await self._machines.look()
            if self._machines.lost > self._machines_lost:
                self._machines_lost = self._machines.lost
                self.losses = 0
                return
            raise EvalError(
                f"{self.losses} workers in a row died before they had done an item, the last one: "
                f"{why}. Look for a want of memory (fewer workers) and run the same again: what "
                "is done is kept"
            )


async def _awaited(ref: Any) -> None:
    with suppress(Exception):
        await ref


def _cause(error: Any) -> Exception:
    return error.cause if isinstance(error.cause, Exception) else EvalError(_short(error))


def _short(error: BaseException) -> str:
    """An error of Ray in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = next((line for line in lines if "dead because" in line or "died" in line), "")
    return (last or (lines[0] if lines else type(error).__name__))[:300]


def _difference(wanted: Any, found: Any, at: str = "") -> str:
    """The first place in which two manifests differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if wanted.get(key) != found.get(key):
                return _difference(wanted.get(key), found.get(key), f"{at}.{key}" if at else key)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            if pair[0] != pair[1]:
                return _difference(*pair, f"{at}[{number}]")
    return f"{at}: {wanted!r} here, {found!r} there"

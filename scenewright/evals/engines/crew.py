"""The workers of a sitting as its driver sees them: hired, given items, replaced when they die."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scenewright.evals.datasets.base import Item
from scenewright.evals.engines.base import Sitting
from scenewright.evals.engines.queue import ItemQueue
from scenewright.evals.engines.worker import Counted, Ended, Event, Finished, Made, Post, Worker
from scenewright.evals.errors import EvalError
from scenewright.evals.measuring import told
from scenewright.evals.progress import Patience

MOST_LOST = 3
"""Workers in a row that may die in one place before one of them has done an item."""
_CLOSING_SECONDS = 10.0


class Crew:
    """Workers, each in a place in which the next one follows when it dies."""

    def __init__(self, sitting: Sitting, post: Post, count: int, gpus: float) -> None:
        """``post`` is what each of the ``count`` workers is told, besides its name; ``gpus`` is
        what each takes of the cluster's, besides a CPU."""
        import ray

        self._ray: Any = ray
        self._sitting = sitting
        self._post = post
        self._told: Callable[..., None] = sitting.tell
        self._patience = Patience(sitting.config.stop_after_failures)
        self._actor = self._ray.remote(Worker).options(
            num_cpus=1,
            num_gpus=gpus,
            max_restarts=0,
            max_task_retries=0,
            # Places beyond those of the items: a worker is told to close while it is at work.
            max_concurrency=sitting.config.concurrency + 4,
            scheduling_strategy="SPREAD",
        )
        self._places = [_Place(self._hire, self._lose) for _ in range(count)]
        self._ready = 0

    async def work(self, queue: ItemQueue) -> None:
        """Return when all items of ``queue`` are done and journalled.

        Raises what their work raises, and ``EvalError`` for workers that cannot begin.
        """
        tell = self._sitting.tell
        tell(doing=f"loading the models of {len(self._places)} workers", at_once=True)
        async with asyncio.TaskGroup() as group:
            hands = [
                group.create_task(self._hand(place, queue))
                for place in self._places
                for _ in range(self._sitting.config.concurrency)
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

    async def _hand(self, place: _Place, queue: ItemQueue) -> None:
        while True:
            worker = await place.filled()
            found = await queue.next()
            if found is None:
                return
            position, item = found
            counts: dict[str, float] = defaultdict(float)
            try:
                await self._done(worker, position, item, counts)
            except self._ray.exceptions.RayActorError as error:
                # What it had finished will be found, and counted, again.
                self._told(pictures=-counts["pictures"], found=-counts["found"])
                queue.back(position, item, _short(error))
                await place.lost(worker, _short(error))
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from None
            else:
                place.losses = 0
                queue.done(position)

    async def _done(self, worker: Any, position: int, item: Item, counts: dict[str, float]) -> None:
        """Have ``worker`` do ``item``, and keep what it tells as it comes."""
        async for told_now in worker.item.options(num_returns="streaming").remote(item):
            events: list[Event] = await told_now
            for event in events:
                match event:
                    case Made(units):
                        self._sitting.journal.put(units)
                    case Counted(more):
                        for name, by in more.items():
                            counts[name] += by
                        self._told(**more)
                    case Ended(unit):
                        self._patience.note(unit)
                    case Finished(keys):
                        self._sitting.journal.plan(self._sitting.plan, position, keys)
                        self._told(items=1)
                        return
        raise EvalError(f"a worker ended the item {item.id!r} without a word: run the same again")

    async def _hire(self) -> tuple[Any, str]:
        """A worker that is ready, and its name."""
        name = secrets.token_hex(8)
        worker = self._actor.remote(replace(self._post, name=name))
        try:
            manifest = await worker.ready.remote()
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            raise EvalError(f"a worker could not begin: {told(cause)}") from None
        except asyncio.CancelledError:
            self._ray.kill(worker)
            raise
        wanted = self._sitting.cast.manifest()
        if manifest != wanted:
            self._ray.kill(worker)
            raise EvalError(
                f"a worker has other models than this process ({_difference(wanted, manifest)}): "
                "install the same versions and weights on every machine"
            )
        self._ready += 1
        if self._ready <= len(self._places):
            self._sitting.tell(doing=f"drawing and judging, {self._ready} workers", at_once=True)
        return worker, name

    async def _lose(self, worker: Any, name: str) -> None:
        # One that was only out of reach must not go on beside the one that follows it.
        with suppress(Exception):
            self._ray.kill(worker)
        await self._post.office.forget.remote(name)


class _Place:
    """Where a worker is, or the next one will be."""

    def __init__(self, hire: Callable[[], Any], lose: Callable[[Any, str], Any]) -> None:
        self._hire, self._lose = hire, lose
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
                    self._count(_short(error))
            return self.worker

    async def lost(self, worker: Any, why: str) -> None:
        """``worker`` is dead; told by each who had it at work. ``EvalError``: one too many."""
        async with self._turn:
            if self.worker is not worker:
                return
            self.worker = None
            await self._lose(worker, self._name)
            self._count(why)

    def _count(self, why: str) -> None:
        self.losses += 1
        if self.losses >= MOST_LOST:
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

"""Workers of a task on a Ray cluster: started, given items, replaced when they die.

An item whose worker died goes to another one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self

from scenewright.core.error_text import error_text
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.cluster import Cluster, RateLimitClient, stream_events
from scenewright.evals.runner.task import ItemListener, T, Task, Worker, WorkerSpec
from scenewright.providers.limits import share_gates

MOST_DEATHS = 3
"""Workers that may die with the same item at hand."""
MOST_LOST = 3
"""Workers in a row that may die in one place before one of them has done an item."""
_CLOSING_SECONDS = 10.0


class RayWorker:
    """Async actor that does the items of a task, several at a time, with a worker of its own."""

    _worker: Worker[Any]

    def __init__(self, spec: WorkerSpec) -> None:
        """Keep ``spec``; models are built by :meth:`ready`."""
        self._spec = spec
        self._open = ExitStack()

    async def ready(self) -> Any:
        """Build the models, load their weights and return their manifest.

        Raises what building them raises.
        """
        import ray

        spec = self._spec
        share_gates(partial(RateLimitClient, spec.rate_limits, spec.name))
        here = bool(spec.node) and ray.get_runtime_context().get_node_id() == spec.node
        self._worker = await spec.open(here, self._open)
        return await asyncio.to_thread(lambda: self._worker.models)

    async def item(self, item: Any) -> AsyncIterator[list[Any]]:
        """Do ``item`` and yield its events as they come; the last one says that it is done."""
        async with aclosing(stream_events(lambda tell: self._worker.do(item, tell))) as stream:
            async for events in stream:
                yield events

    async def close(self) -> None:
        """Flush and close what is open."""
        await asyncio.to_thread(self._open.close)

    def process(self) -> int:
        """Return the id of the process."""
        return os.getpid()


class ItemQueue(Generic[T]):
    """Queue that hands out each item until it is done, and holds only those at work."""

    def __init__(self, stream: AsyncGenerator[tuple[int, T]]) -> None:
        """Take items with their positions from ``stream``."""
        self._stream = stream
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._left: deque[tuple[int, T]] = deque()
        self._deaths: Counter[int] = Counter()
        self._over = False
        self.under_way = 0
        """Items that are handed out and not done."""

    async def next(self) -> tuple[int, T] | None:
        """Return the next item, returned ones first; None when all are done.

        Waits while items at work may still come back.
        """
        while True:
            if self._left:
                self.under_way += 1
                return self._left.popleft()
            if not self._over:
                async with self._turn:
                    if self._over or self._left:
                        continue
                    found = await anext(self._stream, None)
                    if found is not None:
                        self.under_way += 1
                        return found
                    self._over = True
                    self._changed.set()
            elif not self.under_way:
                return None
            else:
                await self._change()

    def done(self, position: int) -> None:
        """Note that the item of that ``position`` is done."""
        self.under_way -= 1
        self._deaths.pop(position, None)
        self._changed.set()

    def back(self, position: int, item: T, why: str) -> None:
        """Take back the ``item`` of a dead worker.

        Raises ``EvalError`` if too many workers died with it.
        """
        self.under_way -= 1
        self._left.append((position, item))
        self._deaths[position] += 1
        self._changed.set()
        if self._deaths[position] >= MOST_DEATHS:
            raise EvalError(
                f"{MOST_DEATHS} workers died with the item {item.id!r} at hand, the last one: "
                f"{why}. They may have run out of memory: use fewer workers or a smaller "
                "concurrency and run the same again: what is done is kept"
            )

    async def finished(self) -> None:
        """Return when all items are done."""
        while not self._over or self._left or self.under_way:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Machines:
    """Machines of a cluster, checked for lost ones.

    Until the cluster has noticed that a machine is gone it sends new workers there, and each of
    them dies at once: such deaths in a row are no failure of the work.
    """

    def __init__(self) -> None:
        """Start without knowledge of any machine."""
        self._known: set[str] = set()
        self._turn = asyncio.Lock()
        self.lost = 0
        """Machines that answered once and did not later."""

    async def look(self) -> None:
        """Ping each machine; return when all have answered or the cluster has given them up."""
        async with self._turn:
            named = await asyncio.to_thread(_named)
            signs = await asyncio.gather(*(_answers(name) for name in named))
            here = {name for name, sign in zip(named, signs, strict=True) if sign}
            self.lost += len((self._known | set(named)) - here)
            self._known = here


def _named() -> list[str]:
    """Return the machines that the cluster takes to be alive."""
    import ray

    nodes: Any = ray.nodes
    return [node["NodeID"] for node in nodes() if node["Alive"]]


async def _answers(name: str) -> bool:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(name, soft=False)
    asked = ray.remote(_ping).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
    try:
        await asked.remote()
    except ray.exceptions.RayError:
        return False
    return True


def _ping() -> None:
    return


class WorkerPool(Generic[T]):
    """Workers of a task; an async context manager that ends them.

    Each worker has a place, in which another one follows when it dies.
    """

    def __init__(self, task: Task[T], spec: WorkerSpec, cluster: Cluster) -> None:
        """Prepare the places; workers start with the first items."""
        import ray

        self._ray: Any = ray
        self._task, self._spec = task, spec
        self._rate_limits = cluster.rate_limits
        self._actor = self._ray.remote(RayWorker).options(
            num_cpus=1,
            num_gpus=cluster.gpus,
            max_restarts=0,
            max_task_retries=0,
            # More than the items at work: a worker must accept `close` while it is at work.
            max_concurrency=task.concurrency + 4,
            scheduling_strategy="SPREAD",
        )
        self._machines = Machines()
        self._places = [
            _Place(self._start, self._lose, self._machines) for _ in range(cluster.workers)
        ]
        self._ready = 0

    async def __aenter__(self) -> Self:
        """Return the pool."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all workers, with their data flushed to the disk."""
        await asyncio.shield(self._dismiss())

    async def work(self, items: AsyncGenerator[tuple[int, T]]) -> None:
        """Do all ``items`` (position, item) and keep the results; the workers stay.

        Raises the errors of the work, and ``EvalError`` for workers that cannot start.
        """
        if not self._ready:
            self._task.ready(0, len(self._places))
            await self._machines.look()
        async with aclosing(items):
            queue = ItemQueue(items)
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._serve(place, queue))
                        for place in self._places
                        for _ in range(self._task.concurrency)
                    ]
                    await queue.finished()
                    # Some may still wait for a worker that the cluster has no room for.
                    for task in tasks:
                        task.cancel()
            except BaseExceptionGroup as errors:
                raise first_error(errors) from None

    async def _dismiss(self) -> None:
        found = [place.worker for place in self._places if place.worker is not None]
        closing = [asyncio.ensure_future(_awaited(worker.close.remote())) for worker in found]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSING_SECONDS)
        for worker in found:
            self._ray.kill(worker)

    async def _serve(self, place: _Place, queue: ItemQueue[T]) -> None:
        while True:
            worker = await place.filled()
            found = await queue.next()
            if found is None:
                return
            position, item = found
            listener = self._task.begin(position, item)
            try:
                await self._done(worker, item, listener)
            except self._ray.exceptions.RayActorError as error:
                listener.lost()
                queue.back(position, item, _short(error))
                await place.lost(worker, _short(error))
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from None
            else:
                place.losses = 0
                queue.done(position)

    async def _done(self, worker: Any, item: T, listener: ItemListener) -> None:
        """Have ``worker`` do ``item`` and pass its events on as they come."""
        async for sent in worker.item.options(num_returns="streaming").remote(listener.given):
            for event in await sent:
                if listener.hear(event):
                    return
        raise EvalError(f"a worker ended the item {item.id!r} without a result: run the same again")

    async def _start(self) -> tuple[Any, str]:
        """Return a worker that is ready, and its name."""
        name = secrets.token_hex(8)
        worker = self._actor.remote(replace(self._spec, name=name))
        try:
            manifest = await worker.ready.remote()
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            raise EvalError(f"a worker could not begin: {error_text(cause)}") from None
        except asyncio.CancelledError:
            self._ray.kill(worker)
            raise
        wanted = self._task.models
        if manifest != wanted:
            self._ray.kill(worker)
            raise EvalError(
                f"a worker has other models than this process ({_difference(wanted, manifest)}): "
                "install the same versions and weights on every machine"
            )
        self._ready += 1
        if self._ready <= len(self._places):
            self._task.ready(self._ready, len(self._places))
        return worker, name

    async def _lose(self, worker: Any, name: str) -> None:
        # One that was only out of reach must not go on beside the one that follows it.
        with suppress(Exception):
            self._ray.kill(worker)
        await self._rate_limits.forget.remote(name)


class _Place:
    """A place of the pool with its worker, or room for the next one."""

    def __init__(
        self, start: Callable[[], Any], lose: Callable[[Any, str], Any], machines: Machines
    ) -> None:
        self._start, self._lose = start, lose
        self._machines = machines
        self._machines_lost = 0
        self._turn = asyncio.Lock()
        self._name = ""
        self.worker: Any = None
        self.losses = 0

    async def filled(self) -> Any:
        """Return the worker, a new one if there is none."""
        async with self._turn:
            while self.worker is None:
                try:
                    self.worker, self._name = await self._start()
                except EvalError:
                    raise
                except Exception as error:
                    await self._count(_short(error))
            return self.worker

    async def lost(self, worker: Any, why: str) -> None:
        """Give up a dead ``worker``; called by each task that used it.

        Raises ``EvalError`` after too many losses.
        """
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
                f"{why}. They may have run out of memory: use fewer workers and run the same "
                "again: what is done is kept"
            )


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group, which may hold groups."""
    found = errors.exceptions[0]
    return first_error(found) if isinstance(found, BaseExceptionGroup) else found


async def _awaited(ref: Any) -> None:
    with suppress(Exception):
        await ref


def _cause(error: Any) -> Exception:
    return error.cause if isinstance(error.cause, Exception) else EvalError(_short(error))


def _short(error: BaseException) -> str:
    """Return an error of Ray in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = next((line for line in lines if "dead because" in line or "died" in line), "")
    return (last or (lines[0] if lines else type(error).__name__))[:300]


def _difference(wanted: Any, found: Any, at: str = "") -> str:
    """Return the first place in which two manifests differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if wanted.get(key) != found.get(key):
                return _difference(wanted.get(key), found.get(key), f"{at}.{key}" if at else key)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            if pair[0] != pair[1]:
                return _difference(*pair, f"{at}[{number}]")
    return f"{at}: {wanted!r} here, {found!r} there"

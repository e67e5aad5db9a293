"""The Ray engine: actors with their own models do the items, this process keeps the journal.

Plain actors, not ``ray.data``: its blocks begin anew as a whole when an actor dies, its sources
are tables that are known beforehand, and it gives results a batch at a time. Here each unit is
journalled as soon as it is finished, the set stays a stream, and of the work of a dead worker only
the step under way is lost. On another machine than the driver's that step is the whole loop, whose
run folder is lost with it: its requests go out again with the keys of before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.cluster import (
    RateLimitClient,
    RayOptions,
    load_reference,
    ray_for,
    reached,
    started,
)
from scenewright.evals.runner.engines.store_actor import StoreActor
from scenewright.evals.runner.engines.worker_pool import WorkerPool
from scenewright.evals.runner.task import (
    Engine,
    Items,
    LocalEngine,
    M,
    T,
    Task,
    on_cluster,
)

_PHOTOS_AT_ONCE = 8
"""Photos that this process reads for workers elsewhere at the same time."""


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """Return the engine of that name; ``workers`` and ``address`` are options of a cluster.

    Raises as :func:`~scenewright.evals.runner.task.on_cluster`.
    """
    if on_cluster(name, workers, address):
        return RayEngine(workers, address)
    return LocalEngine()


@dataclass(frozen=True, slots=True)
class RayEngine(RayOptions):
    """Engine on a Ray cluster; ``given`` builds models in place of the configured ones."""

    def overrides(self, given: M | None, root: Path, kind: type[M]) -> M:
        """Return the models of :attr:`given`.

        Raises ``EvalError`` for models that are objects, which cannot be sent to workers, and where
        Ray is not installed.
        """
        ray_for(self.workers)
        if given is not None:
            raise EvalError(
                "models that were built here cannot be sent to workers: name a function that "
                "builds them, RayEngine(given='module:function')"
            )
        return load_reference(self.given, root, kind) or kind()

    @asynccontextmanager
    async def at_work(self, task: Task[T]) -> AsyncIterator[Callable[[Items[T]], Awaitable[None]]]:
        """Yield the function that has workers do items; the cluster is reached with the first.

        It raises what the local engine does, and ``EvalError`` where the cluster cannot be reached,
        workers differ from this process in their models, or they keep dying.
        """
        ray_for(self.workers)
        pool: WorkerPool[T] | None = None
        stores: Any = None
        async with AsyncExitStack() as stack:

            async def work(items: Items[T]) -> None:
                nonlocal pool, stores
                first = await anext(items, None)
                if first is None:
                    return
                if pool is None:
                    task.ready(0, 0)
                    cluster = await stack.enter_async_context(reached(self.address, self.workers))
                    # Settings are read from files, and fingerprints may hash weights.
                    spec, _ = await asyncio.to_thread(lambda: (task.spec, task.models))
                    for caller in task.callers:
                        gate = partial(RateLimitClient, cluster.rate_limits, "driver")
                        stack.enter_context(caller.sharing(gate))
                    # Photos alone may be served side by side.
                    served = {} if spec.place else {"max_concurrency": _PHOTOS_AT_ONCE}
                    stores = await stack.enter_async_context(
                        started(StoreActor, cluster, spec.answers, spec.place, **served)
                    )
                    spec = replace(
                        spec,
                        given=self.given,
                        node="" if self.apart else cluster.node,
                        stores=stores,
                        rate_limits=cluster.rate_limits,
                    )
                    pool = await stack.enter_async_context(WorkerPool(task, spec, cluster))
                assert pool is not None
                await pool.work(_chained(first, items))
                await stores.flush.remote()

            yield work


async def _chained(first: tuple[int, T], rest: Items[T]) -> AsyncGenerator[tuple[int, T]]:
    yield first
    async for one in rest:
        yield one

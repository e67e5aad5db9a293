"""The Ray engine: actors with a cast of models each do the items, this process keeps the books.

Plain actors, not ``ray.data``: its blocks begin anew as a whole when an actor dies, its sources
are tables that are known beforehand, and it gives results a batch at a time. Here each unit is
journalled as soon as it is finished, the set stays a stream, and of what a dead worker had at hand
only the step under way is lost. On another machine than the driver's that step is the whole loop,
whose run folder is lost with it: its requests go out again with the keys of before.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.base import EvalSession, first_of, numbered
from scenewright.evals.runner.engines.cluster import gpus_of, ray_for, reached
from scenewright.evals.runner.engines.model_references import load_model_overrides
from scenewright.evals.runner.engines.queue import ItemQueue
from scenewright.evals.runner.engines.store_actor import StoreActor
from scenewright.evals.runner.engines.worker import (
    Counted,
    Ended,
    Event,
    Finished,
    Made,
    Sentinel,
    Worker,
    WorkerSpec,
)
from scenewright.evals.runner.engines.worker_pool import WorkerPool
from scenewright.evals.runner.measuring import JUDGE
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import FailureLimit
from scenewright.evals.runner.served_versions import VersionGate

__all__ = ["RayEngine", "gpus_of"]


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Implements :class:`~scenewright.evals.runner.engines.base.Engine` on a Ray cluster."""

    workers: int | None = None
    """Actors, each with models of its own and ``concurrency`` items at work; none: one for each GPU
    of the cluster, or for each CPU where there is no GPU."""
    address: str = ""
    """The cluster (``auto``, ``HOST:PORT``); empty: the one of ``RAY_ADDRESS``, or else one of this
    machine, which ends with the evaluation."""
    given: str = ""
    """``module:function`` that builds a :class:`EvalModelOverrides` from the folder in which
    relative paths begin; empty: the models of the profiles."""
    apart: bool = False
    """Treat this machine's workers as those of another one, which do not see its files."""
    name: str = "ray"
    """As the command calls it."""

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """The models of :attr:`given`. Raises ``EvalError`` for objects, which cannot travel, and
        where Ray is not installed."""
        ray_for(self.workers)
        if given is not None:
            raise EvalError(
                "models that were built here cannot be sent to workers: name a function that "
                "builds them, RayEngine(given='module:function')"
            )
        return load_model_overrides(self.given, root) or EvalModelOverrides()

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items`` on the cluster.

        Raises what the local engine does, and ``EvalError`` where the cluster cannot be reached,
        workers differ from this process in their models, or they keep dying.
        """
        ray = ray_for(self.workers)
        session.tell(doing="reaching the cluster", at_once=True)
        async with reached(self.address, self.workers) as cluster:
            place = await asyncio.to_thread(session.place.resolve)
            root = await asyncio.to_thread(session.generation.root.resolve)
            options = {"num_cpus": 0, "scheduling_strategy": cluster.near}
            stores = ray.remote(StoreActor).options(**options).remote(place)
            post = WorkerSpec(
                name="",
                config=session.config,
                settings=session.generation.settings,
                place=place,
                root=root,
                given=self.given,
                nonce=session.generation.nonce,
                own=session.generation.own,
                retry=session.retry,
                node="" if self.apart else cluster.node,
                stores=stores,
                rate_limits=cluster.rate_limits,
            )
            crew = WorkerPool(EvalJob(session, post), cluster)
            try:
                async with aclosing(numbered(items)) as stream:
                    try:
                        await crew.work(ItemQueue(stream))
                    except BaseExceptionGroup as errors:
                        raise first_of(errors) from None
                await stores.flush.remote()
            finally:
                await asyncio.shield(crew.dismiss())
                ray.kill(stores)


class EvalJob:
    """The items of an evaluation: implements
    :class:`~scenewright.evals.runner.engines.jobs.Job`."""

    actor = Worker

    def __init__(self, session: EvalSession, post: WorkerSpec) -> None:
        """``post``: what each worker is told, besides its name."""
        self.concurrency = session.config.concurrency
        self.models = session.eval_models.manifest()
        self._sitting = session
        self._post = post
        self._patience = FailureLimit(session.config.stop_after_failures)
        config, drifts = session.config, session.watch.drifts
        self._gate = VersionGate(config.on_model_change, session.journal, session.plan, drifts)

    def post(self, name: str) -> WorkerSpec:
        """What the worker ``name`` is told."""
        return replace(self._post, name=name)

    def ready(self, workers: int, of: int) -> None:
        """Tell of it."""
        doing = f"drawing and judging, {workers} workers"
        if not workers:
            doing = f"loading the models of {of} workers"
        self._sitting.tell(doing=doing, at_once=True)

    def begin(self, position: int, item: Item) -> EvalItemListener:
        """A worker begins with ``item``."""
        return EvalItemListener(self._sitting, self._patience, self._gate, position, item)


@dataclass(slots=True)
class EvalItemListener:
    """Journals what a worker makes of an item."""

    session: EvalSession
    """Whose journal it is."""
    failure_limit: FailureLimit
    """Counts failures in a row."""
    gate: VersionGate
    """Admits looks by the versions of their judges."""
    position: int
    """Of the item in the set."""
    given: Item
    """The item."""
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """What was counted for it."""

    def hear(self, event: Event) -> bool:
        """Keep what the worker tells; whether the item is done with it."""
        told: Callable[..., None] = self.session.tell
        match event:
            case Made(units):
                for unit in units:
                    if unit.kind == JUDGE:
                        self.gate.admit(unit)
                self.session.journal.put(units)
            case Counted(more):
                for name, by in more.items():
                    self.counts[name] += by
                told(**more)
            case Sentinel(reply):
                self.session.watch.take(reply)
            case Ended(unit):
                self.failure_limit.note(unit)
            case Finished(keys):
                self.session.journal.plan(self.session.plan, self.position, keys)
                told(items=1)
                return True
        return False

    def lost(self) -> None:
        """What it had finished will be found, and counted, again."""
        told: Callable[..., None] = self.session.tell
        told(pictures=-self.counts["pictures"], found=-self.counts["found"])

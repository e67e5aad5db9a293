"""The Ray engine: actors with a cast of models each do the items, this process keeps the books.

Plain actors, not ``ray.data``: its blocks begin anew as a whole when an actor dies, its sources
are tables that are known beforehand, and it gives results a batch at a time. Here each unit is
journalled as soon as it is finished, the set stays a stream, and of what a dead worker had at hand
only the step under way is lost.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.cast import Given
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.engines.base import Sitting, first_of, numbered
from scenewright.evals.engines.crew import Crew
from scenewright.evals.engines.desk import Desk
from scenewright.evals.engines.queue import ItemQueue
from scenewright.evals.engines.references import given_of
from scenewright.evals.engines.tickets import open_office
from scenewright.evals.engines.worker import Post
from scenewright.evals.errors import EvalError


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Implements :class:`~scenewright.evals.engines.base.Engine` on a Ray cluster."""

    workers: int | None = None
    """Actors, each with models of its own and ``concurrency`` items at work; none: one for each GPU
    of the cluster, or for each CPU where there is no GPU."""
    address: str = ""
    """The cluster (``auto``, ``HOST:PORT``); empty: the one of ``RAY_ADDRESS``, or else one of this
    machine, which ends with the evaluation."""
    given: str = ""
    """``module:function`` that builds a :class:`Given` from the folder in which relative paths
    begin; empty: the models of the profiles."""
    apart: bool = False
    """Treat this machine's workers as those of another one, which do not see its files."""
    name: str = "ray"
    """As the command calls it."""

    def models(self, given: Given | None, root: Path) -> Given:
        """The models of :attr:`given`. Raises ``EvalError`` for objects, which cannot travel, and
        where Ray is not installed."""
        _ray()
        if self.workers is not None and self.workers < 1:
            raise EvalError(f"{self.workers} workers can do nothing: ask for one at least")
        if given is not None:
            raise EvalError(
                "models that were built here cannot be sent to workers: name a function that "
                "builds them, RayEngine(given='module:function')"
            )
        return given_of(self.given, root) or Given()

    async def run(self, sitting: Sitting, items: Dataset) -> None:
        """Do all ``items`` on the cluster.

        Raises what the local engine does, and ``EvalError`` where the cluster cannot be reached,
        workers differ from this process in their models, or they keep dying.
        """
        ray = _ray()
        sitting.tell(doing="reaching the cluster", at_once=True)
        async with _cluster(ray, self.address, self.workers):
            node = ray.get_runtime_context().get_node_id()
            near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            place = await asyncio.to_thread(sitting.place.resolve)
            root = await asyncio.to_thread(sitting.studio.root.resolve)
            desk = ray.remote(Desk).options(num_cpus=0, scheduling_strategy=near).remote(place)
            office = open_office(near)
            post = Post(
                name="",
                config=sitting.config,
                settings=sitting.studio.settings,
                place=place,
                root=root,
                given=self.given,
                plan=sitting.plan,
                retry=sitting.retry,
                node="" if self.apart else node,
                desk=desk,
                office=office,
            )
            resources = ray.cluster_resources()
            count = self.workers or _workers_for(resources)
            crew = Crew(sitting, post, count, gpus_of(resources.get("GPU", 0.0), count))
            try:
                async with aclosing(numbered(items)) as stream:
                    try:
                        await crew.work(ItemQueue(stream))
                    except BaseExceptionGroup as errors:
                        raise first_of(errors) from None
                await desk.flush.remote()
            finally:
                await asyncio.shield(crew.dismiss())
                for actor in (desk, office):
                    ray.kill(actor)


def gpus_of(gpus: float, workers: int) -> float:
    """GPUs of one of so many workers: a whole one each, or equal shares of a GPU."""
    if gpus < 1:
        return 0.0
    return 1.0 if workers <= gpus else 1.0 / math.ceil(workers / int(gpus))


def _workers_for(resources: dict[str, float]) -> int:
    return max(1, int(resources.get("GPU", 0) or resources.get("CPU", 1)))


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise EvalError(
            "the engine 'ray' needs Ray: pip install 'scenewright[ray]', or leave --engine out"
        ) from error
    return ray


@asynccontextmanager
async def _cluster(ray: Any, address: str, workers: int | None) -> AsyncIterator[None]:
    """Connected to the cluster; a connection that is there already is used, and stays."""
    if ray.is_initialized():
        yield
        return
    if address.startswith("ray://"):
        raise EvalError(
            f"{address} is the address of Ray clients: begin the evaluation on a machine of the "
            "cluster (or with `ray job submit`) and give --address auto, since its folder is "
            "written there"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address or os.environ.get("RAY_ADDRESS"):
        options["address"] = address or None
    else:
        cpus = os.cpu_count() or 1
        options |= {"num_cpus": max(cpus, workers or 1), "include_dashboard": False}
    try:
        await asyncio.to_thread(lambda: ray.init(**options))
    except Exception as error:
        raise EvalError(
            f"no Ray cluster at {address or 'this machine'}: {error}. Check `ray status`, or leave "
            "--address out to work on this machine alone"
        ) from error
    try:
        yield
    finally:
        with suppress(Exception):
            await asyncio.shield(asyncio.to_thread(ray.shutdown))

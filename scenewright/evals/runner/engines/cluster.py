"""A Ray cluster as the driver of any job reaches it: connected, with one office of tickets."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.rate_limit_actor import start_rate_limit_actor
from scenewright.providers.model_serving import connected_to_ray


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a driver needs of a cluster."""

    node: str
    """This machine, as the cluster calls it."""
    near: Any
    """The scheduling strategy of actors that belong on this machine."""
    rate_limits: Any
    """The actor that hands out tickets."""
    workers: int
    """Actors to be hired."""
    gpus: float
    """GPUs of each of them."""


def ray_for(workers: int | None = None) -> Any:
    """The library. Raises ``EvalError`` where it is not installed, and for no ``workers``."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise EvalError(
            "the engine 'ray' needs Ray: pip install 'scenewright[ray]', or leave --engine out"
        ) from error
    if workers is not None and workers < 1:
        raise EvalError(f"{workers} workers can do nothing: ask for one at least")
    return ray


@asynccontextmanager
async def reached(address: str, workers: int | None) -> AsyncIterator[Cluster]:
    """The cluster at ``address``; empty: the one of ``RAY_ADDRESS``, or else one of this machine,
    which ends with the block. ``workers``: none for one a GPU, or a CPU where there is no GPU.

    A connection that is there already is used, and stays. Raises ``EvalError`` for a cluster that
    cannot be reached.
    """
    ray = ray_for(workers)
    if address.startswith("ray://") and not ray.is_initialized():
        raise EvalError(
            f"{address} is the address of Ray clients: begin on a machine of the cluster (or with "
            "`ray job submit`) and give --address auto, since the folder is written there"
        )
    async with connected_to_ray(address, workers or 1, EvalError):
        node = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        resources = ray.cluster_resources()
        count = workers or _workers_for(resources)
        rate_limits = start_rate_limit_actor(near)
        try:
            yield Cluster(node, near, rate_limits, count, gpus_of(resources.get("GPU", 0.0), count))
        finally:
            ray.kill(rate_limits)


def gpus_of(gpus: float, workers: int) -> float:
    """GPUs of one of so many workers: a whole one each, or equal shares of a GPU."""
    if gpus < 1:
        return 0.0
    return 1.0 if workers <= gpus else 1.0 / math.ceil(workers / int(gpus))


def _workers_for(resources: dict[str, float]) -> int:
    return max(1, int(resources.get("GPU", 0) or resources.get("CPU", 1)))

"""The engines by name."""

from __future__ import annotations

from scenewright.evals.runner.engines.base import Engine
from scenewright.evals.runner.engines.choice import on_cluster
from scenewright.evals.runner.engines.local import LocalEngine
from scenewright.evals.runner.engines.ray_engine import RayEngine


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """The engine of that name; ``workers`` and ``address`` are those of a cluster.

    Raises as :func:`~scenewright.evals.runner.engines.choice.on_cluster`.
    """
    if on_cluster(name, workers, address):
        return RayEngine(workers, address)
    return LocalEngine()

"""The engines by name."""

from __future__ import annotations

from scenewright.evals.annotation.engines.base import Engine
from scenewright.evals.annotation.engines.local import LocalEngine
from scenewright.evals.runner.engines.choice import on_cluster


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """The engine of that name; ``workers`` and ``address`` are those of a cluster.

    Raises as :func:`~scenewright.evals.runner.engines.choice.on_cluster`.
    """
    if not on_cluster(name, workers, address):
        return LocalEngine()
    from scenewright.evals.annotation.engines.ray_engine import RayEngine

    return RayEngine(workers, address)

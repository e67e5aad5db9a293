"""The engines by name."""

from __future__ import annotations

from scenewright.evals.engines.base import Engine
from scenewright.evals.engines.local import LocalEngine
from scenewright.evals.engines.ray_engine import RayEngine
from scenewright.evals.errors import EvalError

ENGINES = ("local", "ray")


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """The engine of that name; ``workers`` and ``address`` are those of a cluster.

    Raises ``EvalError`` for an unknown name, and for options of a cluster without one.
    """
    if name == "ray":
        return RayEngine(workers, address)
    if name != "local":
        raise EvalError(f"there is no engine {name!r}: use one of {', '.join(ENGINES)}")
    if workers is not None or address:
        raise EvalError(
            "--workers and --address are those of a cluster: add --engine ray (the local engine "
            "works on `concurrency` items at a time, as the configuration says)"
        )
    return LocalEngine()

"""Which engine a command asks for."""

from __future__ import annotations

from scenewright.evals.errors import EvalError

ENGINES = ("local", "ray")


def on_cluster(name: str, workers: int | None = None, address: str = "") -> bool:
    """Whether the engine ``name`` works on a cluster; ``workers`` and ``address`` are its own.

    Raises ``EvalError`` for an unknown name, and for options of a cluster without one.
    """
    if name == "ray":
        return True
    if name != "local":
        raise EvalError(f"there is no engine {name!r}: use one of {', '.join(ENGINES)}")
    if workers is not None or address:
        raise EvalError(
            "--workers and --address are those of a cluster: add --engine ray (the local engine "
            "works on `concurrency` items at a time, as the configuration says)"
        )
    return False

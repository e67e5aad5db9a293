"""Draws a scene, checks every fact of it with a panel of judges, and repairs what is wrong.

>>> from scenewright import refine
>>> result = await refine("red ball on table; dog left of table")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scenewright.version import VERSION as __version__

if TYPE_CHECKING:
    from scenewright.coverage import UnknownSceneError
    from scenewright.formats import load_scene
    from scenewright.graphs.edits import Edit
    from scenewright.graphs.errors import EditError, RunError
    from scenewright.graphs.refine import build_refine
    from scenewright.graphs.state import Budget
    from scenewright.records import RoundRecord, RunResult, load_run
    from scenewright.run_plan import plan_again
    from scenewright.runs import carry_on, refine, stream_plan, stream_refine
    from scenewright.scene import SceneGraph
    from scenewright.scoring import Score, score

# Imported at first use: `import scenewright` must not wait for a graph library or a model.
_HOMES = {
    "Budget": "scenewright.graphs.state",
    "Edit": "scenewright.graphs.edits",
    "EditError": "scenewright.graphs.errors",
    "RoundRecord": "scenewright.records",
    "RunError": "scenewright.graphs.errors",
    "RunResult": "scenewright.records",
    "SceneGraph": "scenewright.scene",
    "Score": "scenewright.scoring",
    "UnknownSceneError": "scenewright.coverage",
    "build_refine": "scenewright.graphs.refine",
    "carry_on": "scenewright.runs",
    "load_run": "scenewright.records",
    "load_scene": "scenewright.formats",
    "plan_again": "scenewright.run_plan",
    "refine": "scenewright.runs",
    "score": "scenewright.scoring",
    "stream_plan": "scenewright.runs",
    "stream_refine": "scenewright.runs",
}

__all__ = [
    "Budget",
    "Edit",
    "EditError",
    "RoundRecord",
    "RunError",
    "RunResult",
    "SceneGraph",
    "Score",
    "UnknownSceneError",
    "__version__",
    "build_refine",
    "carry_on",
    "load_run",
    "load_scene",
    "plan_again",
    "refine",
    "score",
    "stream_plan",
    "stream_refine",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

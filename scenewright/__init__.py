"""Draws a scene, checks every fact of it with a panel of judges, and repairs what is wrong.

>>> from scenewright import refine
>>> result = await refine("red ball on table; dog left of table")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scenewright.core.version import VERSION as __version__

if TYPE_CHECKING:
    from scenewright.config.options import Budget, RunOptions
    from scenewright.core.errors import ScenewrightError
    from scenewright.core.formats import load_scene
    from scenewright.core.scene import SceneGraph
    from scenewright.graphs.errors import EditError, RunError
    from scenewright.graphs.events import Edit
    from scenewright.graphs.refine import build_refine
    from scenewright.runs.api import execute, refine, stream_plan, stream_refine
    from scenewright.runs.coverage import UnknownSceneError
    from scenewright.runs.plan import plan_again
    from scenewright.runs.result import RoundRecord, RunResult, load_run
    from scenewright.runs.scoring import Score, score

# Imported at first use: `import scenewright` must not wait for a graph library or a model.
_HOMES = {
    "Budget": "scenewright.config.options",
    "Edit": "scenewright.graphs.events",
    "EditError": "scenewright.graphs.errors",
    "RoundRecord": "scenewright.runs.result",
    "RunError": "scenewright.graphs.errors",
    "RunResult": "scenewright.runs.result",
    "RunOptions": "scenewright.config.options",
    "SceneGraph": "scenewright.core.scene",
    "ScenewrightError": "scenewright.core.errors",
    "Score": "scenewright.runs.scoring",
    "UnknownSceneError": "scenewright.runs.coverage",
    "build_refine": "scenewright.graphs.refine",
    "execute": "scenewright.runs.api",
    "load_run": "scenewright.runs.result",
    "load_scene": "scenewright.core.formats",
    "plan_again": "scenewright.runs.plan",
    "refine": "scenewright.runs.api",
    "score": "scenewright.runs.scoring",
    "stream_plan": "scenewright.runs.api",
    "stream_refine": "scenewright.runs.api",
}

__all__ = [
    "Budget",
    "Edit",
    "EditError",
    "RoundRecord",
    "RunError",
    "RunOptions",
    "RunResult",
    "SceneGraph",
    "ScenewrightError",
    "Score",
    "UnknownSceneError",
    "__version__",
    "build_refine",
    "execute",
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

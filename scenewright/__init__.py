"""Draws a scene, checks every fact of it with a panel of judges, and repairs what is wrong.

>>> from scenewright import refine
>>> result = await refine("red ball on table; dog left of table")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenewright.formats import load_scene
    from scenewright.graphs.refine import build_refine
    from scenewright.graphs.state import Budget
    from scenewright.records import RoundRecord, RunResult, load_run
    from scenewright.runfolder import RunError
    from scenewright.runs import refine, stream_refine
    from scenewright.scene import SceneGraph
    from scenewright.scoring import Score, score

__version__ = "0.1.0"

# Imported at first use: `import scenewright` must not wait for a graph library or a model.
_HOMES = {
    "Budget": "scenewright.graphs.state",
    "RoundRecord": "scenewright.records",
    "RunError": "scenewright.runfolder",
    "RunResult": "scenewright.records",
    "SceneGraph": "scenewright.scene",
    "Score": "scenewright.scoring",
    "build_refine": "scenewright.graphs.refine",
    "load_run": "scenewright.records",
    "load_scene": "scenewright.formats",
    "refine": "scenewright.runs",
    "score": "scenewright.scoring",
    "stream_refine": "scenewright.runs",
}

__all__ = [
    "Budget",
    "RoundRecord",
    "RunError",
    "RunResult",
    "SceneGraph",
    "Score",
    "__version__",
    "build_refine",
    "load_run",
    "load_scene",
    "refine",
    "score",
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

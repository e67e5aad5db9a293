"""A bridge to inspect_ai: sets as tasks, drawing as a solver, metrics as scorers.

``inspect eval scenewright/scene_bench -T dataset=miniature`` draws and scores a set as
``scenewright eval run`` would, with the log and the viewer of inspect_ai. The scorers also look at
pictures of other tasks: of any sample whose output holds one. inspect_ai imports this module by
its entry point; nothing else of the package needs it, and inspect_ai is no dependency but of the
extra ``inspect``.
"""

from scenewright.evals.inspect_ai.context import draw
from scenewright.evals.inspect_ai.scoring import picture_metric, sgscore
from scenewright.evals.inspect_ai.tasks import scene_bench

__all__ = ["draw", "picture_metric", "scene_bench", "sgscore"]

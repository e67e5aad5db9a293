"""Graph edit distance of scene graphs, and the PSG-style score that it makes."""

from scenewright.evals.metrics.graph_edit.costs import EditCosts, EditError
from scenewright.evals.metrics.graph_edit.distance import EditDistance, EditLimits, edit_distance
from scenewright.evals.metrics.graph_edit.score import PsgScore, Share, psg_score

__all__ = [
    "EditCosts",
    "EditDistance",
    "EditError",
    "EditLimits",
    "PsgScore",
    "Share",
    "edit_distance",
    "psg_score",
]

"""Graph edit distance of scene graphs, and the PSG-style score that it makes."""

from scenewright.evals.metrics.graph_edit.problem import EditCosts, EditError
from scenewright.evals.metrics.graph_edit.score import (
    EditDistance,
    EditLimits,
    PsgScore,
    Share,
    edit_distance,
    psg_score,
)

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

"""What can be wrong with what is asked of evaluations."""

from __future__ import annotations

from scenewright.evals.errors import EvalError


class ChoiceError(EvalError):
    """Arms, scores or a place that do not fit the evaluation; says which there are."""

"""What can go wrong with a study of panels."""

from __future__ import annotations

from scenewright.evals.errors import EvalError


class PanelStudyError(EvalError):
    """A study of panels that cannot be planned, run or read; says what to do."""

"""What a study refuses."""

from __future__ import annotations

from scenewright.evals.errors import EvalError


class StudyError(EvalError):
    """A study that cannot be asked for like this: says what to write instead."""

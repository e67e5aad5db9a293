"""What can go wrong with an evaluation as a whole."""

from __future__ import annotations


class EvalError(RuntimeError):
    """An evaluation that cannot be planned, run or read; says what to do."""

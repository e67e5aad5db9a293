"""What goes wrong in sizing a study."""

from __future__ import annotations

from scenewright.evals.errors import EvalError


class SizingError(EvalError):
    """A study that cannot be sized from these figures; says what is missing and how to get it."""

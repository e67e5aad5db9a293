"""What can go wrong with an evaluation as a whole."""

from __future__ import annotations

from scenewright.core.errors import ScenewrightError


class EvalError(ScenewrightError, RuntimeError):
    """An evaluation that cannot be planned, run or read; says what to do."""


class ConfigError(EvalError):
    """A file of an evaluation's configuration that cannot be read or does not fit."""


class ModelChangedError(EvalError):
    """A judge is served by another version than the one that answered before."""


class AnnotationError(EvalError):
    """A set that cannot be built, read or measured; says what to do."""

"""Models named as ``module:function``: what a caller brings, for processes that build it anew."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TypeVar

from scenewright.evals.errors import EvalError
from scenewright.evals.runner.model_setup import EvalModelOverrides

T = TypeVar("T")


def load_model_overrides(reference: str, root: Path) -> EvalModelOverrides | None:
    """As :func:`load_reference`, for the models of an evaluation."""
    return load_reference(reference, root, EvalModelOverrides)


def load_reference(reference: str, root: Path, kind: type[T]) -> T | None:
    """What the function of ``module:function`` gives for ``root``; None for an empty reference.

    ``root`` is where relative paths of the configuration begin. Raises ``EvalError`` if there is no
    such function, or it gives no ``kind``.
    """
    if not reference:
        return None
    module, _, name = reference.partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvalError(
            f"models cannot be built by {reference!r} ({error}): name a function of an importable "
            "module as 'module:function'"
        ) from error
    found = make(root)
    if not isinstance(found, kind):
        raise EvalError(f"{reference} gives {type(found).__name__}: it must give a {kind.__name__}")
    return found

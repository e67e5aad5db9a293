"""Suggestions for mistyped names: "did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'NAME'?`` for the known name nearest to ``name``; empty if none is.

    >>> did_you_mean("jugdes", ["judges", "backend"])
    "; did you mean 'judges'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near and near[0] != name else ""


def suggestion(error: ValidationError, model: type[BaseModel]) -> str:
    """Return :func:`did_you_mean` for the first error of validating ``model``.

    Suggests the field nearest to an unknown key, and the value nearest to one that is not among a
    field's choices; empty for any other error.
    """
    problem = error.errors(include_url=False)[0]
    place = problem["loc"]
    if problem["type"] == "extra_forbidden" and place:
        return did_you_mean(str(place[-1]), _fields_at(model, place[:-1]))
    if problem["type"] == "literal_error" and isinstance(problem["input"], str):
        choices = str(problem.get("ctx", {}).get("expected", "")).replace(" or ", ", ").split(", ")
        return did_you_mean(problem["input"], [choice.strip("'") for choice in choices])
    return ""


def _fields_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the names of all fields of the models that may stand at ``place`` in ``model``."""
    models = [model]
    for part in place:
        fields = [one.model_fields[str(part)] for one in models if str(part) in one.model_fields]
        if fields:
            models = [found for field in fields for found in _models_in(field.annotation)]
        # Else it is a key or a number in a mapping or list of the same models.
    return [name for one in models for name in one.model_fields]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation such as ``dict[str, AccountSpec]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)

"""The base of immutable data, and validation errors of pydantic in one line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """Immutable data without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def first_problem(error: ValidationError, whole: str = "") -> str:
    """Return field and message of the first error: ``dataset.name: Field required``.

    ``whole``: what stands for the field where the message is about no single one; without, the
    message stands alone.
    """
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or whole
    said = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


def missing_fields(error: ValidationError) -> list[str]:
    """Return the fields that are required and not there; empty where something else is wrong."""
    problems = error.errors(include_url=False)
    if any(problem["type"] != "missing" for problem in problems):
        return []
    return [".".join(str(part) for part in problem["loc"]) for problem in problems]

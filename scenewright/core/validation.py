"""Base classes of immutable data, and errors of validation in one short line."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core.core_schema import ErrorType


class FrozenModel(BaseModel):
    """Immutable data without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FiniteModel(FrozenModel):
    """The same, with finite numbers only."""

    model_config = ConfigDict(allow_inf_nan=False)


class RequestModel(BaseModel):
    """Data of a caller: null and "" for an optional field mean that it is not given.

    Clients and language models that fill in every field of a schema write what they leave out so.
    """

    @model_validator(mode="before")
    @classmethod
    def _drop_not_given(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        optional = {
            key
            for name, field in cls.model_fields.items()
            if not field.is_required()
            for key in (name, field.alias)
        }
        return {
            name: value for name, value in data.items() if is_given(value) or name not in optional
        }


def is_given(value: object) -> bool:
    """Return whether a field's ``value`` says anything: null and "" do not."""
    return value is not None and value != ""


def cut_short(text: str, limit: int) -> str:
    """Return ``text``, cut to ``limit`` characters with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_TYPES = frozenset(get_args(ErrorType))
_OWN = ("value_error", "assertion_error")


@cache
def _messages() -> Mapping[str, str]:
    """Return the message of each type of error that has one."""
    return tomllib.loads((files(__package__) / "validation.toml").read_text(encoding="utf-8"))


def problem_in_words(problem: Mapping[str, Any]) -> str:
    """Return what is wrong by an error of pydantic, without its field and in our own words.

    The text of a validator of ours stays as it is.
    """
    kind, said = str(problem["type"]), str(problem["msg"])
    if kind in _OWN or kind not in _TYPES:
        return said.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in (messages := _messages()):
        return messages[kind].format_map(defaultdict(str, problem.get("ctx") or {}))
    return f"is not valid ({kind.replace('_', ' ')})"


def first_problem(error: ValidationError, whole: str = "") -> str:
    """Return field and message of the first error: ``dataset.name: is required``.

    ``whole``: what stands for the field where the message is about no single one; without, the
    message stands alone.
    """
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or whole
    said = problem_in_words(problem)
    return f"{where}: {said}" if where else said


def missing_fields(error: ValidationError) -> list[str]:
    """Return the fields that are required and not there; empty where something else is wrong."""
    problems = error.errors(include_url=False)
    if any(problem["type"] != "missing" for problem in problems):
        return []
    return [".".join(str(part) for part in problem["loc"]) for problem in problems]


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return ``value`` where it is an object, else an empty one."""
    # The exact type first: a check by an abstract class takes many times as long.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else {}  # noqa: SIM101

"""Base classes of immutable data, and errors of validation in one short line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
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


_NUMBER, _WHOLE, _TEXT = "must be a number", "must be a whole number", "must be text"
_LIST, _OBJECT = "must be a list", "must be an object with named fields"
_YES_OR_NO = "must be true or false"
_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "none_required": "must be left out",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": "has too many digits",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": _YES_OR_NO,
    "bool_parsing": _YES_OR_NO,
    "string_type": _TEXT,
    "string_unicode": "holds characters that are not valid Unicode",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "has too many characters, the limit is {max_length}",
    "string_pattern_mismatch": "has the wrong form: it must match {pattern}",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "iterable_type": _LIST,
    "too_long": "has too many items, the limit is {max_length}",
    "too_short": "must have at least {min_length} items",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "json_invalid": "is not valid JSON",
    "json_type": "must be JSON",
    "path_type": "must be a path",
    "union_tag_invalid": "unknown {discriminator} {tag!r}: use one of {expected_tags}",
    "union_tag_not_found": "needs {discriminator}",
    "recursion_loop": "contains itself",
    "bytes_invalid_encoding": "is not valid {encoding}",
}
_TYPES = frozenset(get_args(ErrorType))
_OWN = ("value_error", "assertion_error")


def problem_in_words(problem: Mapping[str, Any]) -> str:
    """Return what is wrong by an error of pydantic, without its field and in our own words.

    The text of a validator of ours stays as it is.
    """
    kind, said = str(problem["type"]), str(problem["msg"])
    if kind in _OWN or kind not in _TYPES:
        return said.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in _WORDS:
        return _WORDS[kind].format_map(defaultdict(str, problem.get("ctx") or {}))
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
    return value if isinstance(value, Mapping) else {}

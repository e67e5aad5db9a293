"""Tables of models: rows by name, or by the beginning of a name and a star."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


class ModelTableError(ValueError):
    """Capabilities that cannot be: names the keys."""


@cache
def rows_of(package: str, file: str) -> Mapping[str, Mapping[str, object]]:
    """The tables of the TOML ``file`` in ``package``."""
    rows: Mapping[str, Mapping[str, object]] = tomllib.loads(
        files(package).joinpath(file).read_text("utf-8")
    )
    return rows


def row_of(rows: Mapping[str, Mapping[str, object]], name: str) -> dict[str, object]:
    """All rows that fit ``name``, put together: ``openai:gpt-4*`` fits what begins so, and what a
    longer pattern says goes before what a shorter one says."""
    row: dict[str, object] = {}
    for pattern in sorted(rows, key=_length):
        if _fits(pattern, name):
            row.update(rows[pattern])
    return row


def best_key(rows: Mapping[str, object], name: str) -> str | None:
    """The key of ``rows`` that fits ``name`` best: itself, else the longest pattern; None: none."""
    return max((key for key in rows if _fits(key, name)), key=_length, default=None)


def checked(kind: type[M], row: Mapping[str, object], name: str) -> M:
    """``row`` as a model of ``kind``; raises ``ModelTableError`` for wrong keys and values."""
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'together'}: {item['msg']}"
            for item in error.errors()
        )
        raise ModelTableError(
            f"{name} cannot be used so: {details} (keys: {', '.join(kind.model_fields)})"
        ) from error


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _length(pattern: str) -> tuple[int, bool]:
    """Order of patterns: the longer, and the exact one at equal length, comes last."""
    return len(pattern.removesuffix("*")), not pattern.endswith("*")

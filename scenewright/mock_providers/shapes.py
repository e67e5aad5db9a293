"""Replies of the providers as data: the shapes of ``shapes.toml``, filled with values."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ABSENT: Any = object()
"""Value of a field that is left out."""
_ALONE = re.compile(r"\{(\w+)\}")


def fill(shape: Any, values: Mapping[str, Any]) -> Any:
    """Return ``shape`` with ``values``: ``"{name}"`` is one itself, within a text its words."""
    match shape:
        case dict():
            filled = {fill(key, values): fill(one, values) for key, one in shape.items()}
            return {key: one for key, one in filled.items() if one is not ABSENT}
        case list():
            return [fill(one, values) for one in shape]
        case str() if alone := _ALONE.fullmatch(shape):
            return values[alone[1]]
        case str():
            return shape.format_map(values)
    return shape


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {
        provider: {name: json.loads(shape) for name, shape in shapes.items()}
        for provider, shapes in tomllib.loads(text).items()
    }


def shaped(provider: str, name: str, /, **values: Any) -> Any:
    """Return the shape ``name`` of ``provider`` with ``values``."""
    return fill(_shapes()[provider][name], values)

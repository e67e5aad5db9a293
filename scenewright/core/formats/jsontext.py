"""JSON text of scene files: parsed strictly, with errors that say where and what to do."""

from __future__ import annotations

import json
from typing import Any

from scenewright.core.formats.base import fail, shown


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in pairs:
        if key in entry:
            raise ValueError(f"the key {shown(key)} is given twice in one object: keep one")
        entry[key] = value
    return entry


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON: write a number or leave the entry out")


def _lines(text: str) -> list[tuple[int, str]]:
    """The numbered lines of JSON Lines; empty if ``text`` is one JSON value."""
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2:
        return []
    try:
        json.loads(lines[0][1])
    except (ValueError, RecursionError):
        return []
    return lines


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise fail(
                where, "the JSON ends too early: the file is cut off, or a bracket or quote is open"
            ) from None
        raise fail(
            where,
            f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}) near "
            f"{shown(text[error.pos : error.pos + 30])}: check the commas, brackets and double "
            "quotes there",
        ) from None
    except RecursionError:
        raise fail(where, "the JSON is nested too deeply: a scene needs five levels") from None
    except ValueError as error:
        raise fail(where, str(error)) from None


def parse_json(text: str, where: str) -> Any:
    """The value of JSON ``text``, or the list of values of JSON Lines.

    ``FormatError`` for anything that is not JSON: cut-off text, NaN and infinities,
    keys given twice, nesting past the interpreter's limit, numbers past its digits.
    """
    lines = _lines(text)
    if lines:
        begin = f"{where}, " if where else ""
        return [_parse(line, f"{begin}line {at}") for at, line in lines]
    return _parse(text, where)

"""Text, JSON and TOML files as people have them: from an editor, a shell, a spreadsheet.

A byte order mark names the encoding and is no part of the text; without one the text is UTF-8. Line
ends of Windows and of old Macs count as line ends.
"""

from __future__ import annotations

import codecs
import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from scenewright.core.validation import first_problem

M = TypeVar("M", bound=BaseModel)

_MARKS = (
    # The mark of UTF-32 begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
LONGEST_MARK = 4
"""Most bytes of a byte order mark."""


class UserFileError(ValueError):
    """A file that cannot be read, with its name and the remedy."""


def encoding_of(beginning: bytes) -> str:
    """Return the encoding that the byte order mark names; UTF-8 without one."""
    return next((name for mark, name in _MARKS if beginning.startswith(mark)), "utf-8")


def decoded(data: bytes, where: str, wrong: type[Exception] = UserFileError) -> str:
    """Return the text of ``data``; ``wrong`` with the place for what is no text."""
    try:
        text = data.decode(encoding_of(data[:LONGEST_MARK]))
    except UnicodeDecodeError as error:
        raise wrong(not_text(where, error)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def not_text(where: str, error: UnicodeDecodeError) -> str:
    """Return the message for a file that is not text in the encoding it should have."""
    return (
        f"{where} is not {error.encoding.upper()} text (byte {error.start + 1}): save the file "
        "with UTF-8 encoding"
    )


def other_separator(names: Sequence[str]) -> str:
    """Return what to say of a header that its separator does not split; empty where it does."""
    if len(names) != 1:
        return ""
    told = next((word for mark, word in _OTHER_SEPARATORS.items() if mark in names[0]), "")
    if not told:
        return ""
    return f": its columns are separated by {told}. Save it with commas, as CSV, or as parquet"


def read_user_text(path: str | os.PathLike[str], wrong: type[Exception] = UserFileError) -> str:
    """Return the text of a file; ``wrong`` with its name where there is none."""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise wrong(f"{os.fspath(path)} cannot be read: {error.strerror or error}") from error
    return decoded(data, os.fspath(path), wrong)


def parsed_json(
    text: str, where: str, wrong: type[Exception] = UserFileError, remedy: str = ""
) -> Any:
    """Return the value of JSON; ``wrong`` with the place, and ``remedy``, for other text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        told = f"{line}column {error.colno}: {error.msg}"
        raise wrong(f"{where} is not valid JSON: {told}{remedy}") from None
    except (ValueError, RecursionError) as error:
        raise wrong(f"{where} is not valid JSON: {error}{remedy}") from None


def parsed_toml(
    text: str, where: str, wrong: type[Exception] = UserFileError, remedy: str = ""
) -> dict[str, Any]:
    """Return the tables of TOML; ``wrong`` with the place, and ``remedy``, for other text."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong(f"{where} is not valid TOML: {error}{remedy}") from None


def read_user_json(
    path: str | os.PathLike[str], wrong: type[Exception] = UserFileError, remedy: str = ""
) -> Any:
    """Return the value of a JSON file; ``wrong`` that names it for what cannot be read."""
    return parsed_json(read_user_text(path, wrong), os.fspath(path), wrong, remedy)


def read_user_toml(
    path: str | os.PathLike[str], wrong: type[Exception] = UserFileError, remedy: str = ""
) -> dict[str, Any]:
    """Return the tables of a TOML file; ``wrong`` that names it for what cannot be read."""
    return parsed_toml(read_user_text(path, wrong), os.fspath(path), wrong, remedy)


def read_user_data(path: str | os.PathLike[str], wrong: type[Exception] = UserFileError) -> Any:
    """Return what a JSON file holds, or one of TOML if its name ends so."""
    is_toml = os.fspath(path).lower().endswith(".toml")
    return read_user_toml(path, wrong) if is_toml else read_user_json(path, wrong)


def as_model(data: object, model: type[M], where: str, wrong: type[Exception] = UserFileError) -> M:
    """Return ``data`` as a ``model``; ``wrong`` with place and field where it does not fit."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise wrong(f"{where}: {first_problem(error)}") from error

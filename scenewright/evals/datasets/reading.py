"""Reading text files line by line and row by row, with errors that name their place."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import unreadable

MOST_IN_A_LINE = 32 * 1024 * 1024
"""Characters that one line or cell may have; more is no list of items."""
MOST_IN_A_LIST = 256 * 1024 * 1024
"""Bytes of a JSON file that is read as a whole: for the small lists of prompts alone."""

Row = dict[str, str]


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """``path`` as UTF-8 text, unpacked if its name ends in ``.gz``; line ends as they are.

    Raises ``DatasetError`` for what cannot be opened, read or decoded.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as packed:
                yield packed
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield file
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path} is not UTF-8 text ({error.reason}): save it with UTF-8 encoding"
        ) from error
    except gzip.BadGzipFile as error:
        raise DatasetError(f"{path} is no gzip file: rename or unpack it") from error
    except EOFError as error:
        raise DatasetError(f"{path} is cut off: fetch it again") from error
    except OSError as error:
        raise unreadable(path, error) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its end) of each line that is not blank."""
    with opened(path) as file:
        number = 0
        while line := file.readline(MOST_IN_A_LINE):
            number += 1
            if len(line) >= MOST_IN_A_LINE:
                raise DatasetError(
                    f"{path}, line {number} has more than {MOST_IN_A_LINE} characters: write one "
                    "entry a line"
                )
            if line.strip():
                yield number, line.rstrip("\r\n")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, object) of each line of a JSON lines file."""
    for number, line in lines_of(path):
        place = f"{path}, line {number}"
        value = parsed(line, place)
        if not isinstance(value, dict):
            raise DatasetError(f"{place} is no JSON object: write one object a line")
        yield place, value


def json_list(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, object) of each entry of a small JSON file that is one list."""
    with opened(path) as file:
        text = file.read(MOST_IN_A_LIST + 1)
    if len(text) > MOST_IN_A_LIST:
        raise DatasetError(f"{path} is too large for a list of prompts: split it")
    data = parsed(text, str(path))
    if not isinstance(data, list):
        raise DatasetError(f"{path} is no JSON list: take the file as it was published")
    for at, entry in enumerate(data):
        place = f"{path}, entry {at}"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is no JSON object: take the file as it was published")
        yield place, entry


def parsed(text: str, place: str) -> Any:
    """The JSON value of ``text``; ``DatasetError`` with line and column for text that is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise DatasetError(
            f"{place} is no JSON: {line}column {error.colno}: {error.msg}"
        ) from error
    except ValueError as error:
        raise DatasetError(f"{place} is no JSON of items: {error}") from error
    except RecursionError as error:
        raise DatasetError(f"{place} is no JSON of items: it nests too deep") from error


def text_of(entry: dict[str, Any], key: str, place: str, needed: bool = True) -> str:
    """The text ``entry[key]`` without spaces around it; ``DatasetError`` if it is none."""
    value = entry.get(key)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise DatasetError(f"{place}: {key!r} must be text, found {value!r:.60}")
    return value.strip()


def rows_of(
    path: Path,
    needed: Sequence[str] = (),
    *,
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[tuple[str, Row]]:
    """(place for messages, column → cell) of each row of a CSV file with a line of column names.

    With ``quoted=False`` quotes are characters like any other. Raises ``DatasetError`` for lost or
    repeated columns and a row of another length.
    """
    # The limit is the process's: it is raised for cells that hold a whole scene, never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MOST_IN_A_LINE))
    with opened(path) as file:
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            columns = [name.strip() for name in next(reader, [])]
            _check_columns(path, columns, needed)
            for cells in reader:
                if not cells:
                    continue
                place = f"{path}, line {reader.line_num}"
                if len(cells) != len(columns):
                    raise DatasetError(
                        f"{place}: it has {len(cells)} fields, the first line has "
                        f"{len(columns)}: fetch or write the file again"
                    )
                yield place, dict(zip(columns, cells, strict=True))
        except csv.Error as error:
            raise DatasetError(f"{path}, line {reader.line_num} is no CSV: {error}") from error


def _check_columns(path: Path, columns: Sequence[str], needed: Sequence[str]) -> None:
    if not columns:
        raise DatasetError(f"{path} is empty: its first line must name the columns")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DatasetError(f"{path} has the column {twice[0]!r} twice: keep one")
    lost = [name for name in needed if name not in columns]
    if lost:
        raise DatasetError(
            f"{path} has no column {', '.join(lost)} (it has {', '.join(columns)}): take the file "
            "as it was published"
        )


def one_of(option: str, value: object, allowed: Sequence[str]) -> str:
    """``value`` if it is one of ``allowed``; ``DatasetError`` that names the option otherwise."""
    if isinstance(value, str) and value in allowed:
        return value
    raise DatasetError(f"option {option} is {value!r}: use one of {', '.join(allowed)}")


def whole(option: str, value: object, least: int) -> int:
    """``value`` if it is a whole number from ``least``; ``DatasetError`` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise DatasetError(f"option {option} is {value!r}: use a whole number from {least}")


def published_file(path: Path | None, name: str, set_name: str) -> Path:
    """The file that ``path`` means: itself, or ``name`` in the folder ``path`` (by default where
    ``scenewright data get`` puts the set).

    Raises ``DatasetError`` where it is not there.
    """
    place = given_or_default(path, set_name)
    found = place / name if place.is_dir() else place
    if not found.is_file():
        raise DatasetError(
            f"there is no file {found}: name {name} or its folder, or fetch the set with "
            f"`scenewright data get {set_name}`"
        )
    return found

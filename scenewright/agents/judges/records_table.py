"""Tables that users hand in, answers or labels: a CSV file (UTF-8) or a parquet file.

A CSV file has a line with the names of the columns; quotes, commas and line breaks as in
RFC 4180. In a parquet file (name ends in ``.parquet``) a cell may be text, a number, a truth
value (read as 1 or 0), a list of texts (read as joined by ``|``) or null (read as empty). Names
of columns are read without case and without spaces around them; columns that nobody asks for
are left alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST_SEPARATOR = "|"
"""Stands between the texts of a list that is one cell."""


class TableError(ValueError):
    """A table that cannot be read; names the file and, where there is one, the line or row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    cells: dict[str, str]
    """Column → text without spaces around it; empty where the table has no such column."""
    place: str
    """Where it stands: ``line 3`` of a CSV file, ``row 2`` of a parquet file (the first is 1)."""

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds of the columns that were asked for."""

    path: Path
    """The file."""
    columns: frozenset[str]
    """Those of the wanted columns that it has."""
    rows: tuple[Row, ...]
    """In the order of the file; one at least."""

    def wrong(self, row: Row, fault: str) -> TableError:
        """The error that ``row`` has this ``fault``."""
        return TableError(f"{self.path}, {row.place}: {fault}")


Check = Callable[[frozenset[str]], Sequence[str]]
"""From the columns that are there to the names (for people) of those that are lost."""


def read_table(path: Path, data: bytes, wanted: Sequence[str], lost: Check) -> Table:
    """The table in ``data``, the bytes of the file ``path``.

    Of the columns only those ``wanted`` are read. ``lost`` tells which columns are missing.
    Raises ``TableError`` for an empty file, one that is neither (by its name) CSV nor parquet,
    lost or repeated columns, a row of another length, cells of another type, and no rows.
    """
    if not data:
        raise TableError(f"{path} is empty: it needs columns with names")
    read = _parquet if path.suffix.lower() == ".parquet" else _csv
    table = read(path, data, wanted, lost)
    if not table.rows:
        raise TableError(f"{path} has columns but no rows")
    return table


def _checked_columns(
    path: Path, names: Sequence[str], wanted: Sequence[str], lost: Check
) -> frozenset[str]:
    repeated = sorted({name for name in names if name in wanted and names.count(name) > 1})
    if repeated:
        raise TableError(f"{path} has the columns {', '.join(repeated)} twice")
    columns = frozenset(names) & frozenset(wanted)
    missing = lost(columns)
    if missing:
        raise TableError(f"{path} lacks the columns {', '.join(missing)}")
    return columns


def _csv(path: Path, data: bytes, wanted: Sequence[str], lost: Check) -> Table:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        columns = _checked_columns(path, names, wanted, lost)
        rows = []
        for cells in reader:
            place = f"line {reader.line_num}"
            if None in cells or None in cells.values():
                raise TableError(f"{path}, {place}: it does not have {len(names)} fields")
            held = {name: cells[name].strip() for name in columns}
            rows.append(Row(dict.fromkeys(wanted, "") | held, place))
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: {error}") from error
    except csv.Error as error:
        raise TableError(f"{path} is no CSV file: {error}") from error
    return Table(path, columns, tuple(rows))


def _parquet(path: Path, data: bytes, wanted: Sequence[str], lost: Check) -> Table:
    # Imported here: pyarrow is large, and most records are CSV files.
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _named(path, (pa.ArrowException, OSError)):
        file = pq.ParquetFile(pa.BufferReader(data))
        written: list[str] = list(file.schema_arrow.names)
    names = [name.strip().lower() for name in written]
    columns = _checked_columns(path, names, wanted, lost)
    # A column of a large file that nobody reads, pixels for example, stays packed.
    chosen = {at: name for at, name in enumerate(names) if name in columns}
    rows: list[Row] = []
    with _named(path, (pa.ArrowException, OSError)):
        for batch in file.iter_batches(columns=[written[at] for at in chosen]):
            held = {
                str(name).strip().lower(): batch.column(at).to_pylist()
                for at, name in enumerate(batch.schema.names)
            }
            for at in range(batch.num_rows):
                place = f"row {len(rows) + 1}"
                cells = {
                    name: _text(path, place, name, values[at]) for name, values in held.items()
                }
                rows.append(Row(dict.fromkeys(wanted, "") | cells, place))
    return Table(path, columns, tuple(rows))


@contextmanager
def _named(path: Path, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} is no parquet file: {first}") from error


def _text(path: Path, place: str, column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value).strip()
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return LIST_SEPARATOR.join(value)
    kind = type(value).__name__
    raise TableError(f"{path}, {place}: {column} holds {kind}: use text, a number or null")

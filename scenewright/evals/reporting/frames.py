"""Tables of results: rows with a schema, shown as HTML or Markdown, kept as CSV or parquet.

A study returns :class:`Frame` objects. Each row is a mapping from the names of columns to cells; a
cell is a number, a text, or a measured figure with its interval. ``columns`` says which of them a
page shows, in which unit and with how many decimal places; a frame that shows no column is for
files alone, and one without rows is neither shown nor kept. Numbers stay unrounded in files.

===========  ==================================================================================
on a page    :meth:`Frame.markdown`, :meth:`Frame.html` (the macro ``frame`` of ``frame.html.j2``)
in a file    :meth:`Frame.csv`, :meth:`Frame.write_parquet`, of :meth:`Frame.records`
as a plot    :class:`~scenewright.evals.reporting.charts.Chart`, of the same rows
===========  ==================================================================================
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from scenewright.evals.statistics.estimates import Estimate, Measured, number

Rows = Sequence[Mapping[str, Any]]
"""Rows by the names of their columns."""


class Column(BaseModel):
    """A column that a page shows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    title: str
    """For people, with the unit."""
    digits: int = Field(default=3, ge=0, le=6)
    """Decimal places of numbers that are not whole."""
    factor: float = Field(default=1.0, gt=0.0)
    """By which shown numbers are multiplied: 100 for shares in percent."""


class Shown(NamedTuple):
    """A cell in words."""

    text: str
    """The value; a dash without one."""
    spread: str = ""
    """Standard deviation over seeds, ``± 0.4``."""
    low: str = ""
    """Lower end of the interval."""
    high: str = ""
    """Upper end."""
    note: str = ""
    """What stands behind the value, or why there is none."""

    @property
    def line(self) -> str:
        """Return the cell in one line: ``61.2 ± 0.4 [59.1, 63.0] note``."""
        interval = f"[{self.low}, {self.high}]" if self.low else ""
        return " ".join(filter(None, (self.text, self.spread, interval, self.note)))


NO_VALUE = "–"
Value = Estimate | bool | int | float | str | None
Cell = Value | tuple[Value, str]
"""A value, or a value with a note that is shown behind it."""


class Frame(BaseModel):
    """A table."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    """Stem of its files."""
    rows: tuple[dict[str, Cell], ...]
    """From top to bottom. Names that begin with an underscore are for the page alone."""
    columns: dict[str, Column] = {}
    """Columns of the page from left to right, behind the first, by their name in the rows."""
    title: str = ""
    """Above the table."""
    head: str = ""
    """Title of the first column."""
    label: str = ""
    """First cell of a row, as ``str.format`` makes it of the row."""
    caption: str = ""
    """A sentence below the title."""
    kept: bool = True
    """Whether the rows are written to a file of their own."""

    @field_validator("rows", mode="before")
    @classmethod
    def _plain(cls, rows: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
        return tuple({name: _cell(cell) for name, cell in row.items()} for row in rows)

    @classmethod
    def of(
        cls,
        name: str,
        rows: Iterable[Mapping[str, Any]],
        title: str = "",
        columns: Mapping[str, str | Column] | None = None,
        **more: Any,
    ) -> Self:
        """Return a frame whose ``columns`` are titles where the usual digits will do.

        Cells that no page shows are left out where nothing is kept, and where their names begin
        with an underscore.
        """
        shown = {
            key: one if isinstance(one, Column) else Column(title=one)
            for key, one in (columns or {}).items()
        }
        label, kept = more.get("label", ""), more.get("kept", True)
        names = {*shown, *(str(field) for _, field, *_ in Formatter().parse(label))}
        cells = tuple(
            {name: cell for name, cell in row.items()
             if name in names or (kept and not name.startswith("_"))}
            for row in rows
        )  # fmt: skip
        return cls(name=name, rows=cells, title=title, columns=shown, **more)

    @property
    def page(self) -> Frame:
        """Return the frame without the columns that a page does not show."""
        return self.model_copy(
            update={
                "rows": tuple(
                    {"_label": self.label.format_map(row)}
                    | {name: row.get(name) for name in self.columns}
                    for row in self.rows
                ),
                "label": "{_label}",
            }
        )

    def lines(self) -> list[tuple[str, list[Shown]]]:
        """Return the first cell and the others of each row, in words."""
        return [
            (
                self.label.format_map(row),
                [shown(row.get(name), of) for name, of in self.columns.items()],
            )
            for row in self.rows
        ]

    @property
    def titles(self) -> list[str]:
        """Return the titles of the columns, the first cell's included."""
        return [self.head, *(column.title for column in self.columns.values())]

    def texts(self) -> list[list[str]]:
        """Return the cells of each row, each in one line."""
        return [[label, *(cell.line for cell in cells)] for label, cells in self.lines()]

    def markdown(self) -> str:
        """Return the table as GitHub's Markdown."""
        return markdown_table(self.titles, self.texts())

    def html(self) -> str:
        """Return the table as HTML, with its title; all text is escaped."""
        from scenewright.evals.reporting.pages import render

        return render("frame.html.j2", shown=self)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows for files, all with the same names.

        A figure ``x`` becomes ``x``, ``x_low`` and ``x_high``; one whose name ends with ``value``
        keeps its beginning: ``gain_value``, ``gain_low``, ``gain_high``.
        """
        found = [_record(row) for row in self.rows]
        # The first row need not have every column.
        names = list(dict.fromkeys(name for row in found for name in row))
        return [{name: row.get(name) for name in names} for row in found]

    def csv(self) -> str:
        """Return the records as CSV with a header; empty without rows."""
        out = io.StringIO()
        records = self.records()
        if records:
            writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
        return out.getvalue()

    def write_parquet(self, folder: Path) -> None:
        """Write the records into ``folder``; the file is whole or not there.

        Raises ``EvalError`` if it cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from scenewright.evals.store.files import drafted

        with drafted(folder, self.name) as draft:
            pq.write_table(pa.Table.from_pylist(self.records()), draft, compression="zstd")


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of texts as GitHub's Markdown; all columns but the first are numbers."""
    rule = ["---", *("---:" for _ in heads[1:])]
    # A bar or a line break inside a cell would end it.
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in line)} |"
        for line in (heads, rule, *lines)
    )


def percent(title: str, digits: int = 1) -> Column:
    """Return a column whose numbers are shares, shown in percent."""
    return Column(title=title, digits=digits, factor=100.0)


def percents(titles: Mapping[str, str], digits: int = 1) -> dict[str, Column]:
    """Return columns of shares by name, shown in percent."""
    return {name: percent(title, digits) for name, title in titles.items()}


def used(columns: Mapping[str, Column], rows: Rows) -> dict[str, Column]:
    """Return the columns in which some row has a value."""
    return {
        name: column
        for name, column in columns.items()
        if any(getattr(row.get(name), "value", row.get(name)) is not None for row in rows)
    }


def across(rows: Rows, by: str, name: str, value: str) -> list[dict[str, Any]]:
    """Return one row a value of the column ``by``, with a column for each row's ``name``.

    ``name`` is a format of the row's columns, and the cells are those of the column ``value``.
    """
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row[by], {by: row[by]})[name.format_map(row)] = row.get(value)
    return list(found.values())


def values_by_key(
    key: str, rows: Rows, names: Mapping[str, str] | Sequence[str], whole: bool = False
) -> dict[str, Any]:
    """Return flat keys → numbers, or ``{"mean", "low", "high"}``, for JSON.

    ``names`` are columns, or column → its name in keys. ``key`` is a format of the row's columns
    and of ``{name}``. Figures without an interval are bare numbers, and those without a value are
    left out; with ``whole`` every figure is there with both ends.
    """
    told = names if isinstance(names, Mapping) else {name: name for name in names}
    found: dict[str, Any] = {}
    for row in rows:
        for column, name in told.items():
            one = row.get(column)
            if one is not None and (whole or one.value is not None):
                known = whole or None not in (one.low, one.high)
                found[key.format_map({**row, "name": name})] = (
                    {"mean": one.value, "low": one.low, "high": one.high} if known else one.value
                )
    return found


def _cell(cell: Any) -> Any:
    if isinstance(cell, tuple):
        return _cell(cell[0]), cell[1]
    if isinstance(cell, Measured):
        return cell if isinstance(cell, Estimate) else Estimate(**cell.model_dump())
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def shown(cell: Cell | Measured, column: Column) -> Shown:
    """Return a cell as ``column`` shows it."""
    value, note = cell if isinstance(cell, tuple) else (cell, "")
    if isinstance(value, Measured):
        found: Estimate = _cell(value)
        if found.value is None:
            return Shown(NO_VALUE, note=note or found.reason)
        one, digits = found.times(column.factor), column.digits
        ends = [number(end, digits) for end in (one.low, one.high) if end is not None]
        low, high = ends if len(ends) == 2 else ("", "")
        spread = "" if one.sd is None else f"± {number(one.sd, max(digits, 2))}"
        return Shown(number(one.value or 0.0, digits), spread, low, high, note)
    if value is None:
        return Shown(NO_VALUE, note=note)
    if isinstance(value, bool | str):
        return Shown(str(value), note=note)
    if isinstance(value, int) and column.factor == 1.0:
        return Shown(f"{value:,}", note=note)
    return Shown(number(value * column.factor, column.digits), note=note)


def _record(row: Mapping[str, Cell]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in row.items():
        value = cell[0] if isinstance(cell, tuple) else cell
        if name.startswith("_"):
            continue
        if isinstance(value, Estimate):
            stem = name.removesuffix("value") if name.endswith("value") else f"{name}_"
            found |= {name: value.value, f"{stem}low": value.low, f"{stem}high": value.high}
        else:
            found[name] = value
    return found

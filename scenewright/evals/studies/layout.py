"""Tables of studies: the paper's layout, each cell with what was measured beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import Field

from scenewright.core.validation import FrozenModel
from scenewright.evals.reporting.frames import markdown_table
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.paper import Printed

K = TypeVar("K", str, tuple[str, ...])


class Column(FrozenModel):
    """A column."""

    key: str
    """For files."""
    title: str
    """For people, with the arrow of the better direction and the unit."""
    digits: int = Field(default=1, ge=0, le=6)
    """Decimal places."""


def columns_of(titles: Mapping[str, str], digits: int = 1) -> tuple[Column, ...]:
    """Return the columns of ``titles`` (key → title), all with the same decimal places."""
    return tuple(Column(key=key, title=title, digits=digits) for key, title in titles.items())


class Cell(FrozenModel):
    """A measured figure beside the paper's."""

    measured: Estimate | None = None
    """None: this row is the paper's alone."""
    paper: tuple[Printed, ...] = ()
    """The paper's figures of the same thing; empty if it has none."""
    note: str = ""
    """Behind the measured figure, for example a gain."""

    def text(self, digits: int, gaps: bool = True) -> str:
        """Return the text of the cell in a Markdown table.

        With ``gaps`` it also says that the paper has no figure for the cell.
        """
        parts: list[str] = []
        if self.measured is not None:
            parts.append(" ".join(filter(None, (self.measured.text(digits), self.note))))
        if self.paper:
            alone = self.measured is None
            said = "; ".join(p.text() if alone else f"{p.model} {p.text()}" for p in self.paper)
            parts.append(said if alone else f"paper: {said}")
        elif self.measured is not None and gaps:
            parts.append("paper: –")
        return "<br>".join(parts) or "–"


class Row(FrozenModel):
    """A row."""

    key: str
    """For files."""
    title: str
    """For people."""
    cells: tuple[Cell, ...]
    """One a column."""
    paper_only: bool = False
    """Whether it holds the paper's figures alone."""

    @classmethod
    def measured(cls, key: str, title: str, found: Iterable[Estimate | None], *more: Cell) -> Row:
        """Return a row of measured figures, with ``more`` cells behind them."""
        cells = (*(Cell(measured=one) for one in found), *more)
        return cls(key=key, title=title, cells=cells)

    @classmethod
    def printed(cls, key: str, title: str, said: Iterable[Printed | None], *more: Cell) -> Row:
        """Return a row of the paper's figures alone, with ``more`` cells behind them."""
        cells = (*(Cell(paper=() if one is None else (one,)) for one in said), *more)
        return cls(key=f"paper/{key}", title=f"*paper:* {title}", cells=cells, paper_only=True)


Measured = Estimate | Cell | None
"""What stands in a cell: a figure, or one with the paper's."""


class Layout(FrozenModel):
    """A table."""

    id: str
    """For example ``table4``."""
    title: str
    """Above it."""
    head: str = "Method"
    """Title of the first column."""
    columns: tuple[Column, ...]
    """The others."""
    rows: tuple[Row, ...]
    """From top to bottom."""
    of_paper: bool = True
    """Whether a paper has such a table: then a cell without its figure says so."""

    @classmethod
    def grid(
        cls,
        id: str,
        title: str,
        rows: Mapping[K, str],
        columns: Mapping[str, str] | Sequence[Column],
        cell: Callable[[K, str], Measured],
        *,
        head: str = "Method",
        digits: int = 1,
        of_paper: bool = True,
    ) -> Layout:
        """Return a table with a ``cell`` for the key of each row and column.

        ``rows`` and ``columns`` map keys to titles; ``digits`` are those of all columns. A key of
        several words is joined by ``/`` for files.
        """
        if isinstance(columns, Mapping):
            columns = columns_of(columns, digits)

        def made(key: K, column: str) -> Cell:
            found = cell(key, column)
            return found if isinstance(found, Cell) else Cell(measured=found)

        return cls(
            id=id,
            title=title,
            head=head,
            columns=tuple(columns),
            rows=tuple(
                Row(
                    key=key if isinstance(key, str) else "/".join(map(str, key)),
                    title=words,
                    cells=tuple(made(key, column.key) for column in columns),
                )
                for key, words in rows.items()
            ),
            of_paper=of_paper,
        )

    def markdown(self) -> str:
        """Return the table as GitHub's Markdown."""
        lines = []
        for row in self.rows:
            cells = (
                cell.text(column.digits, self.of_paper)
                for cell, column in zip(row.cells, self.columns, strict=True)
            )
            lines.append([row.title, *cells])
        return markdown_table([self.head, *(column.title for column in self.columns)], lines)

    def figures(self) -> list[list[Estimate]]:
        """Return the measured figures column by column, for plots."""
        return [
            [row.cells[at].measured or Estimate() for row in self.rows]
            for at in range(len(self.columns))
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return one record a cell and paper's figure of it, for CSV."""
        found: list[dict[str, Any]] = []
        for row in self.rows:
            for cell, column in zip(row.cells, self.columns, strict=True):
                measured = cell.measured or Estimate()
                base = {
                    "table": self.id,
                    "row": row.key,
                    "column": column.key,
                    **measured.model_dump(include={"value", "low", "high", "sd", "n", "seeds"}),
                }
                for said in cell.paper or (None,):
                    found.append(
                        {
                            **base,
                            "paper_model": "" if said is None else said.model,
                            "paper_value": None if said is None else said.value,
                            "paper_sd": None if said is None else said.sd,
                        }
                    )
        return found


def as_csv(tables: tuple[Layout, ...]) -> str:
    """Return the records of all ``tables`` as CSV with a header; numbers are whole, not rounded."""
    records = [record for table in tables for record in table.records()]
    if not records:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()

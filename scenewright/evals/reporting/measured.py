"""Reports of measured figures: named tables as data, as a page, as Markdown and as cells of text.

A table declares its columns once. Its rows are values by column name, so that JSON, pages and
terminals show the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from scenewright.core.validation import FiniteModel
from scenewright.evals.reporting.pages import POLICY, asset, render
from scenewright.evals.statistics.answers import PlainAnswer
from scenewright.evals.statistics.figures import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DASH = "–"
Cell = Figure | int | float | str | None
PAGE, DATA = "index.html", "report.json"
Plots = Iterable[tuple[str, str, "Drawing"]]
"""File name without ending, caption, and the figure of each plot."""


HEADS = {
    "kappa": "κ",
    "median_seconds": "median s",
    "spearman": "Spearman",
    "kendall": "Kendall's τ-b",
}
"""Column → its head, where that is not its name in words."""


class MeasuredTable(FiniteModel):
    """A table of figures: rows of values by the names of the columns."""

    title: str
    lead: str = ""
    """How to read it."""
    rows: tuple[dict[str, Cell], ...]
    """All with the same columns; the first one names the row."""
    heads: dict[str, str] = Field(default_factory=dict)
    """Column → head, where that is neither in :data:`HEADS` nor its name in words."""
    digits: int = 3
    """Decimals of its numbers."""
    folded: bool = False
    """Whether a page shows it on demand."""

    @property
    def names(self) -> list[str]:
        """Return the names of the rows."""
        return [str(next(iter(row.values()))) for row in self.rows]

    @property
    def head(self) -> list[str]:
        """Return the heads of the columns."""
        heads = HEADS | self.heads
        return [heads.get(name, name.replace("_", " ")) for name in self.rows[0]]

    def figures(self, column: str) -> list[Figure]:
        """Return the figures of a column, without a value where a row has none."""
        cells = [row.get(column) for row in self.rows]
        return [cell if isinstance(cell, Figure) else Figure(value=None) for cell in cells]

    def texts(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[cell_text(cell, self.digits) for cell in row.values()] for row in self.rows]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        # A bar or a line break in a name or a reason would end the cell.
        return "\n".join(
            f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |"
            for row in (self.head, ["---"] * len(self.head), *self.texts())
        )


def cell_text(cell: Cell, digits: int = 3) -> str:
    """Return a cell as text, with true minus signs; a dash for a number that is not known."""
    if isinstance(cell, Figure):
        return cell.text(digits).replace("-", "−")
    if isinstance(cell, float):
        return f"{cell:.{digits}f}".replace("-", "−")
    return DASH if cell is None else str(cell)


class MeasuredReport(FiniteModel):
    """A report whose figures are in tables."""

    about: str
    """What was measured."""
    answers: tuple[PlainAnswer, ...] = ()
    """What it says in sentences, the most important first."""
    tables: dict[str, MeasuredTable]
    """By name; those without rows are left out."""
    seed: int = Field(ge=0)
    """Seed of the resamples."""

    @field_validator("tables")
    @classmethod
    def _with_rows(cls, tables: dict[str, MeasuredTable]) -> dict[str, MeasuredTable]:
        return {name: one for name, one in tables.items() if one.rows}

    def cell(self, name: str, row: str, column: str) -> Cell:
        """Return a value of the table ``name``; ``row`` is the text of its first column.

        Raises ``KeyError`` for a value that is not there.
        """
        found = self.tables[name]
        return dict(zip(found.names, found.rows, strict=True))[row][column]

    def figure(self, name: str, row: str, column: str) -> Figure:
        """Return a figure, as :meth:`cell`; raises ``TypeError`` for another value."""
        cell = self.cell(name, row, column)
        if not isinstance(cell, Figure):
            raise TypeError(f"{name}, {row}, {column} is not a figure: {cell!r}")
        return cell


def write_report(
    report: MeasuredReport,
    folder: Path,
    plots: Plots,
    put: Callable[[Path, str], Path],
    **page: object,
) -> Path:
    """Write the page, the data and the plots (PNG and SVG) of a report; return the page's path.

    ``put`` writes a text file; ``page`` are the ``title``, the ``tiles`` and the ``notice`` of the
    page. Raises ``OSError`` if a plot cannot be written, and what ``put`` raises.
    """
    from matplotlib import rc_context

    captions = {}
    folder.mkdir(parents=True, exist_ok=True)
    # Equal reports give equal files.
    with rc_context({"svg.hashsalt": "scenewright", "svg.fonttype": "none"}):
        for name, caption, drawing in plots:
            drawing.savefig(folder / f"{name}.png", dpi=160)
            drawing.savefig(folder / f"{name}.svg", metadata={"Date": None})
            captions[name] = caption
    put(folder / DATA, report.model_dump_json(indent=2) + "\n")
    text = render(
        "measured.html.j2", report=report, plots=captions, style=asset("style.css"), policy=POLICY,
        **page,
    )  # fmt: skip
    return put(folder / PAGE, text)


def markdown(report: MeasuredReport, title: str, lead: str) -> str:
    """Return the report as a page of Markdown."""
    answers = [part for one in report.answers for part in (f"**{one.sentence}**", "")]
    lines = [f"# {title}", "", *answers, lead, ""]
    for one in report.tables.values():
        lines += [f"## {one.title}", "", *([one.lead, ""] if one.lead else [])]
        lines += [one.markdown(), ""]
    return "\n".join(lines)

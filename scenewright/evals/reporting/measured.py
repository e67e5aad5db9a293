"""Reports of measured figures in named tables: as data, as a page with plots, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from scenewright.core.validation import FrozenModel
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.document import Document, Picture, Section
from scenewright.evals.reporting.frames import Column, Frame
from scenewright.evals.statistics.answers import PlainAnswer
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure

Cell = Figure | int | float | str | None
PAGE, DATA = "index.html", "report.json"
HEADS = {
    "kappa": "κ",
    "median_seconds": "median s",
    "spearman": "Spearman",
    "kendall": "Kendall's τ-b",
}
"""Column → its head, where that is not its name in words."""


class MeasuredTable(Frame):
    """A table that shows all columns of its rows; the first one names the row."""

    name: str = ""
    heads: dict[str, str] = Field(default_factory=dict)
    """Column → head, where that is neither in :data:`HEADS` nor its name in words."""
    digits: int = 3
    """Decimals of its numbers."""

    @model_validator(mode="before")
    @classmethod
    def _with_columns(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(data)
        heads, digits = HEADS | given.get("heads", {}), given.get("digits", 3)
        if given["rows"] and "columns" not in given:
            first, *names = given["rows"][0]
            given |= {
                "label": f"{{{first}}}",
                "head": heads.get(first, first.replace("_", " ")),
                "columns": {
                    name: Column(title=heads.get(name, name.replace("_", " ")), digits=digits)
                    for name in names
                },
            }
        return given

    @property
    def names(self) -> list[str]:
        """Return the names of the rows."""
        return [self.label.format_map(row) for row in self.rows]

    def figures(self, column: str) -> list[Estimate]:
        """Return the figures of a column, without a value where a row has none."""
        cells = [row.get(column) for row in self.rows]
        return [cell if isinstance(cell, Estimate) else Estimate() for cell in cells]

    def cells(self, *columns: str) -> list[dict[str, Any]]:
        """Return one row a cell for a plot: ``row``, ``column`` and ``value``.

        Without ``columns`` all but the first are taken.
        """
        return [
            {"row": label, "column": name, "value": row[name]}
            for label, row in zip(self.names, self.rows, strict=True)
            for name in columns or self.columns
        ]


class MeasuredReport(FrozenModel):
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

    def cell(self, name: str, row: str, column: str) -> Any:
        """Return a value of the table ``name``; ``row`` is the text of its first column.

        Raises ``KeyError`` for a value that is not there.
        """
        found = self.tables[name]
        return dict(zip(found.names, found.rows, strict=True))[row][column]

    def figure(self, name: str, row: str, column: str) -> Estimate:
        """Return a figure, as :meth:`cell`; raises ``TypeError`` for another value."""
        cell = self.cell(name, row, column)
        if not isinstance(cell, Estimate):
            raise TypeError(f"{name}, {row}, {column} is not a figure: {cell!r}")
        return cell

    def document(
        self,
        kind: str,
        title: str,
        about: str,
        stats: tuple[tuple[str, str, str], ...] = (),
        plots: tuple[Picture, ...] = (),
    ) -> Document:
        """Return the page: the sentences with the ``plots``, then the tables."""
        sentences = tuple(one.sentence for one in self.answers)
        images = tuple(f"{Path(plot.file).stem}.png" for plot in plots)
        return Document(
            kind=kind,
            title=title,
            date=f"seed {self.seed}",
            answer=sentences[0] if sentences else "",
            lead="answers",
            about=(about,),
            stats=stats,
            sections=(
                Section("answers", "Answers", findings=sentences, plots=plots, files=images),
                Section("tables", "Tables", frames=tuple(self.tables.values())),
            ),
        )


def write_report(
    report: MeasuredReport,
    folder: Path,
    charts: Iterable[Chart],
    put: Callable[[Path, str], Path],
    **page: Any,
) -> Path:
    """Write the page, the data and the plots (PNG and SVG) of a report; return the page's path.

    ``put`` writes a text file; ``page`` is given to :meth:`MeasuredReport.document`. Raises
    ``OSError`` if a plot cannot be written, and what ``put`` raises.
    """
    from matplotlib import rc_context

    shown = []
    folder.mkdir(parents=True, exist_ok=True)
    # Equal reports give equal files.
    with rc_context({"svg.hashsalt": "scenewright", "svg.fonttype": "none"}):
        for chart in charts:
            drawing = chart.draw()
            drawing.savefig(folder / f"{chart.name}.png", dpi=160)
            drawing.savefig(folder / f"{chart.name}.svg", metadata={"Date": None})
            shown.append(Picture(folder, f"{chart.name}.svg", chart.title))
    put(folder / DATA, report.model_dump_json(indent=2) + "\n")
    return put(folder / PAGE, report.document(**page, plots=tuple(shown)).html())

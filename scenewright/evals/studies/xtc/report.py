"""The report of an evaluation by XTC-Bench: the paper's tables and plot, and where a model that
draws and a model that understands part ways."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scenewright.core.flushing import write_text
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.thumbs import Thumbs
from scenewright.evals.runner.dataset_predicates import told_of
from scenewright.evals.studies import plots
from scenewright.evals.studies.layout import Layout, as_csv
from scenewright.evals.studies.xtc.results import XtcResults
from scenewright.evals.studies.xtc.scores import QUADRANTS, XtcScores, quadrant_of
from scenewright.evals.studies.xtc.study_tables import plot_of, tables_of

PAGE, TABLES, CSV, PLOT = "index.html", "tables.md", "tables.csv", "agreement.svg"
PICTURES = "pictures"
"""Folder of small copies of pictures."""
MOST_DISAGREEING = 24
"""Facts that are shown with their pictures."""
_MARK = "from the paper, on other models, sets and judges"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A fact that was drawn and understood unlike."""

    models: tuple[str, ...]
    """Models of which this is true: those that share both sides."""
    row: Mapping[str, Any]
    """Of the table ``facts``."""
    quadrant: str
    """Where it lies."""
    drawn: str
    """Thumbnail of the drawn picture; empty if there is none."""
    reference: str
    """Thumbnail of the reference picture."""
    said: tuple[str, ...]
    """What else to know: why the drawn picture gives no answer."""


def write_report(
    results: XtcResults, folder: Path | None = None, *, paper: bool = True, most: int | None = None
) -> Path:
    """Write ``index.html``, the tables as Markdown and CSV and the plot; the page's path.

    ``folder``: by default ``report`` in the results' folder. ``paper``: whether the paper's rows
    stand below the measured ones. ``most``: how many disagreements are shown. Raises ``EvalError``
    if the folder cannot be written.
    """
    place = results.folder / "report" if folder is None else folder
    scores = results.scores()
    tables = tables_of(scores) if paper else tuple(map(_measured_alone, tables_of(scores)))
    try:
        place.mkdir(parents=True, exist_ok=True)
        figure = plot_of(scores, f"Understanding over generation: {results.manifest['name']}")
        plots.save(figure, place / PLOT, "Understanding over generation")
        thumbs = Thumbs(place / PICTURES, results.images)
        try:
            shown = disagreements(results, thumbs, MOST_DISAGREEING if most is None else most)
            thumbs.wait()
        finally:
            thumbs.close()
        write_text(place / TABLES, markdown(tables))
        write_text(place / CSV, as_csv(tables))
        write_text(place / PAGE, page(results, scores, tables, shown, thumbs.lost))
    except OSError as error:
        raise EvalError(
            f"the report cannot be written to {place}: {error.strerror or error}"
        ) from error
    return place / PAGE


def markdown(tables: Sequence[Layout]) -> str:
    """The tables, one below the other."""
    parts = [f"## {table.title}\n\n{table.markdown()}" for table in tables]
    if any(row.paper_only for table in tables for row in table.rows):
        parts.append(f"Rows of the paper are {_MARK}.")
    parts.append("In brackets: 95 % intervals, a bootstrap over scenes.")
    return "\n\n".join(parts) + "\n"


def disagreements(results: XtcResults, thumbs: Thumbs, most: int) -> list[Disagreement]:
    """The facts with the largest |v - u|, each once; of equal ones those of other models, then in
    the tables' order, come in turn."""
    compared = results.manifest["config"]["compared"]
    threshold = results.manifest["config"]["threshold"]
    images = {
        (row["item"], row["model"], row["seed"]): row["image"] for row in results.rows("pictures")
    }
    references = {row["item"]: row["reference"] for row in results.rows("items")}
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in results.rows("facts"):
        if row["u"] is None or row["v"] is None or row["kind"] not in compared:
            continue
        if row["u"] == row["v"]:
            continue
        image = images[row["item"], row["model"], row["seed"]]
        same = (row["item"], row["question"], image, row["said"], row["u"], row["v"])
        found.setdefault(same, []).append(row)
    taken: dict[tuple[str, ...], int] = {}

    def turn(rows: list[dict[str, Any]]) -> tuple[float, int]:
        models = tuple(row["model"] for row in rows)
        taken[models] = taken.get(models, 0) + 1
        return -abs(rows[0]["v"] - rows[0]["u"]), taken[models]

    ordered = sorted(((turn(rows), key) for key, rows in found.items()), key=lambda one: one[0])
    return [
        Disagreement(
            models=tuple(dict.fromkeys(row["model"] for row in found[key])),
            row=(row := found[key][0]),
            quadrant=quadrant_of(row["u"], row["v"], threshold),
            drawn=thumbs.of_hash(key[2]),
            reference=thumbs.of_hash(references[row["item"]]),
            said=tuple(filter(None, (row["note"],))),
        )
        for _, key in ordered[:most]
    ]


def page(
    results: XtcResults,
    scores: Mapping[str, XtcScores],
    tables: Sequence[Layout],
    shown: Sequence[Disagreement],
    lost: int,
) -> str:
    """The page; all text is escaped."""
    style = (
        files("scenewright.runs.report").joinpath("assets", "style.css").read_text(encoding="utf-8")
    )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            manifest=results.manifest,
            predicates=told_of(results.manifest),
            items=results.table("items").num_rows,
            writers=_writers(results.rows("items")),
            scores=scores,
            first=next(iter(scores.values())),
            tables=tables,
            quadrants=QUADRANTS,
            categories=_categories(scores),
            shown=shown,
            lost=lost,
            plot=PLOT,
            pictures=PICTURES,
            mark=_MARK,
            style=Markup(style),
        )
    )


def _writers(items: Sequence[Mapping[str, Any]]) -> str:
    """Who wrote how many prompts, and why not all were written by the first one."""
    authors = Counter(row["author"] or "nobody" for row in items)
    problems = Counter(row.get("problem") for row in items if row.get("problem"))
    said = ", ".join(f"{author} ({n})" for author, n in authors.most_common())
    return said + "".join(f"; {why} ({n})" for why, n in problems.most_common())


def _measured_alone(table: Layout) -> Layout:
    return table.model_copy(update={"rows": tuple(row for row in table.rows if not row.paper_only)})


def _categories(scores: Mapping[str, XtcScores]) -> list[str]:
    return sorted({name for found in scores.values() for name in found.categories})


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scenewright.evals.studies.xtc", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["lines"] = lambda text: Markup("<br>").join(str(text).split("<br>"))
    made.filters["plain"] = lambda text: str(text).replace("*", "")
    return made

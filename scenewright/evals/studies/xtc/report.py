"""Results of an evaluation by XTC-Bench, and its report.

The report has the paper's tables (measured models above the paper's), the plot of G and U, and the
facts on which drawing and understanding differ most. To read the results::

    from scenewright.evals.studies.xtc.report import XtcResults

    frame = XtcResults("evals/mine").frame()
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from jinja2 import PackageLoader
from markupsafe import Markup

from scenewright.core.flushing import write_text
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import plots
from scenewright.evals.reporting.frames import Frame
from scenewright.evals.reporting.pages import Thumbs, asset, environment
from scenewright.evals.runner.dataset_predicates import told_of
from scenewright.evals.statistics.answers import PlainAnswer, highest_answer
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.store.results import IMAGES, Results, fields
from scenewright.evals.studies import readings
from scenewright.evals.studies.layout import Cell, Column, Layout, Row, as_csv
from scenewright.evals.studies.paper import PaperTable, xtc_paper
from scenewright.evals.studies.readings import PromptsRead
from scenewright.evals.studies.xtc.base import FactScore
from scenewright.evals.studies.xtc.scores import (
    QUADRANTS,
    NodeCount,
    XtcScores,
    quadrant_of,
    xtc_scores,
)
from scenewright.evals.studies.xtc.work import READ
from scenewright.runs.folder import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCHMARK = "xtc"
"""In the manifest: distinguishes the folder from one of ``scenewright eval run``."""
SUMMARY = "summary.json"
"""The figures of every model."""


XTC_SCHEMAS: dict[str, pa.Schema] = {
    # One row a question, model and seed. ``u`` and ``v`` are null for what could not be scored,
    # with ``reason``, and ``final`` where no other try could; ``note`` says why the drawn picture
    # gives no answer, or where it was found.
    "facts": pa.schema(
        [
            *fields("text", "item model"),
            *fields("whole", "seed"),
            *fields("text", "question kind category text expected"),
            *fields("truth", "matched"),
            *fields("real", "u v"),
            *fields("text", "drawn said note reason"),
            *fields("truth", "final"),
        ]
    ),
    # One row an item, model and seed: the drawn picture (empty and ``reason`` if it failed), and
    # how much of the reference graph has a partner in the graph ``seen`` in it (JSON); ``dropped``
    # is what the extractor left out, each with its reason, ``unread`` what a model failed to read
    # (JSON lists); counts that depend on it are null. Of ``prompt_tokens`` of its prompt
    # ``tokens_dropped`` were not read by what drew it, and with them the words of
    # ``facts_dropped`` facts. Null: not known.
    "pictures": pa.schema(
        [
            *fields("text", "item model"),
            *fields("whole", "seed"),
            *fields("text", "image state reason"),
            *fields("whole", "nodes matched edges edges_matched"),
            *fields("text", "seen dropped unread"),
            *fields("whole", " ".join(READ)),
        ]
    ),
    # One row an item: its graph (JSON), its reference picture, the prompt and why its first writer
    # did not write it, facts that the prompt lost and facts that no question asks for (both JSON
    # lists); ``views``: objects that a language model saw cut out of the picture for its words.
    "items": pa.schema(
        [
            *fields("text", "item reference scene prompt author problem lost"),
            *fields("whole", "views questions"),
            *fields("text", "unasked"),
        ]
    ),
}


class XtcResults(Results):
    """The folder of an evaluation by XTC-Bench, to read from."""

    schemas = XTC_SCHEMAS
    benchmark = BENCHMARK
    main = "facts"

    def __init__(self, folder: str | Path) -> None:
        """Open ``folder``.

        Raises ``EvalError`` if it holds no results, or some that are not finished.
        """
        super().__init__(folder)
        if not all(self.path(table).exists() for table in XTC_SCHEMAS):
            raise EvalError(
                f"the evaluation in {self.folder} is not finished: run the same again, it goes on "
                "where it was"
            )

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the unified models, in the configuration's order."""
        return tuple(self.manifest["models"]["order"])

    def fact_scores(self) -> dict[str, list[FactScore]]:
        """Return by model the scores of its facts, of all seeds."""
        found: dict[str, list[FactScore]] = {model: [] for model in self.models}
        for row in self.rows("facts"):
            found[row["model"]].append(fact_score(row))
        return found

    def scores(self) -> dict[str, XtcScores]:
        """Return by model its figures, worked out from the tables."""
        facts = self.fact_scores()
        nodes: dict[str, list[NodeCount]] = {model: [] for model in self.models}
        drawn = self.rows("pictures")
        for row in drawn:
            if row["nodes"] is not None:
                count = NodeCount(scene=row["item"], nodes=row["nodes"], matched=row["matched"])
                nodes[row["model"]].append(count)
        unasked = sum(len(json.loads(row["unasked"])) for row in self.rows("items"))
        config = self.manifest["config"]
        return {
            model: xtc_scores(
                *(facts[model], nodes[model], unasked, config["compared"], config["threshold"]),
                prompts=PromptsRead.of(row for row in drawn if row["model"] == model),
            )
            for model in self.models
        }

    @property
    def images(self) -> Path:
        """Folder of the image store of all pictures."""
        return self.folder / IMAGES


def fact_score(row: dict[str, Any]) -> FactScore:
    """Return a row of ``facts`` as a score."""
    return FactScore(
        scene=row["item"],
        # Tables that were written before it was known have no column ``final``.
        final=bool(row.get("final")),
        **{name: row[name] for name in FactScore.model_fields if name not in ("scene", "final")},
    )


def write_summary(results: XtcResults) -> dict[str, XtcScores]:
    """Write the figures of every model as JSON, and give them."""
    scores = results.scores()
    content = {
        "name": results.manifest["name"],
        "answer": answer_of(results, scores).model_dump(),
        "models": {name: found.model_dump(mode="json") for name, found in scores.items()},
        "totals": results.manifest.get("totals", {}),
        "left_out": results.manifest.get("left_out", {}),
        "model_changes": results.manifest.get("model_changes", []),
    }
    try:
        write_json(results.folder / SUMMARY, content)
    except OSError as error:
        raise EvalError(
            f"{results.folder / SUMMARY} cannot be written: {error.strerror or error}"
        ) from error
    return scores


def answer_of(results: XtcResults, scores: Mapping[str, XtcScores]) -> PlainAnswer:
    """Return which model agrees best with itself where it is right, by AW-CCTA."""
    return highest_answer(
        {model: found.overall.aw_ccta for model, found in scores.items()},
        "AW-CCTA",
        noun="model",
        n=results.table("items", ["item"]).num_rows,
        unit="scene",
    )


_TABLES: dict[str, dict[str, tuple[str, str]]] = {
    "xtc2": {
        "overall": ("Overall Gen. ↑", "overall.generation"),
        "nodes": ("Matched Nodes ↑ (%)", "nodes"),
        "attributes": ("Attr. ↑", "kinds.attribute.generation"),
        "relations": ("Rel. ↑", "kinds.relation.generation"),
        "matched_attributes": ("Matched Attr. ↑", "matched_kinds.attribute.generation"),
        "matched_relations": ("Matched Rel. ↑", "matched_kinds.relation.generation"),
    },
    "xtc3": {
        "overall": ("Overall Und. ↑", "overall.understanding"),
        "retrieval": ("Obj. Retr. ↑", "kinds.retrieval.understanding"),
        "attributes": ("Attr. Query ↑", "kinds.attribute.understanding"),
        "relations": ("Rel. Query ↑", "kinds.relation.understanding"),
        "matched_attributes": ("Matched Attr. ↑", "matched_kinds.attribute.understanding"),
        "matched_relations": ("Matched Rel. ↑", "matched_kinds.relation.understanding"),
    },
    "xtc4": {
        "ccta": ("CCTA ↑ overall", "overall.ccta"),
        "ccta_attributes": ("attributes", "kinds.attribute.ccta"),
        "ccta_relations": ("relations", "kinds.relation.ccta"),
        "aw_ccta": ("AW-CCTA ↑ overall", "overall.aw_ccta"),
        "aw_ccta_attributes": ("attributes", "kinds.attribute.aw_ccta"),
        "aw_ccta_relations": ("relations", "kinds.relation.aw_ccta"),
    },
}
"""Table → key of a column → its title, and where :class:`XtcScores` has its figure."""


def _figure(scores: XtcScores, path: str) -> Estimate:
    found: Any = scores
    for name in path.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    estimate: Estimate = found.times(100) if path == "nodes" else found
    return estimate


def tables_of(scores: Mapping[str, XtcScores]) -> tuple[Layout, ...]:
    """Return the three tables: a row for each of ``scores``, then the paper's rows.

    ``scores``: model → its figures.
    """
    return tuple(_layout(xtc_paper().named(name), scores) for name in _TABLES)


def _layout(table: PaperTable, scores: Mapping[str, XtcScores]) -> Layout:
    wanted = _TABLES[table.id]
    columns = [
        Column(key=key, title=title, digits=digits)
        for (key, (title, _)), digits in zip(wanted.items(), table.digits, strict=True)
    ]
    # What is drawn depends on the prompt that was read; what is understood does not.
    more = () if table.id == "xtc3" else readings.COLUMNS

    def cell(model: str, key: str) -> Estimate | Cell:
        if key in wanted:
            return _figure(scores[model], wanted[key][1])
        return readings.cells(scores[model].prompts)[[column.key for column in more].index(key)]

    layout = Layout.grid(
        table.id,
        f"{table.number}: {table.title}",
        {model: model for model in scores},
        (*columns, *more),
        cell,
        head="Model",
        # Its rows are other models: none of them has a figure of a row that is measured.
        of_paper=False,
    )
    printed = tuple(
        Row.printed(
            said.name,
            said.name,
            (table.printed(said, column.key) for column in columns),
            *(Cell() for _ in more),
        )
        for said in table.rows
    )
    return layout.model_copy(update={"rows": layout.rows + printed})


def plot_of(scores: Mapping[str, XtcScores], title: str) -> Figure:
    """Plot U over G, a mark a model, coloured by AW-CCTA, with the paper's models (Fig. 4)."""
    import matplotlib as mpl

    made, axis = plots.chart(
        title,
        "generation G, 95 % interval over scenes",
        "understanding U, 95 % interval over scenes",
        (8.2, 5.6),
    )
    shades = mpl.colormaps["viridis"]
    axis.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1.0, label="parity")
    for at, (model, found) in enumerate(scores.items()):
        g, u, aw = found.overall.generation, found.overall.understanding, found.overall.aw_ccta
        if g.value is None or u.value is None:
            continue
        axis.errorbar(
            [g.value],
            [u.value],
            xerr=plots.errors([g]),
            yerr=plots.errors([u]),
            marker=plots.MARKERS[at % len(plots.MARKERS)],
            color=shades(aw.value or 0.0),
            markeredgecolor="black",
            markersize=9,
            linestyle="none",
            capsize=2.5,
            elinewidth=0.9,
            label=f"{model} (AW-CCTA {aw.text(2) if aw.low is None else f'{aw.value:.2f}'})",
        )
    g_said, u_said = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    aw_said = xtc_paper().named("xtc4").column("aw_ccta")
    both = [model for model in g_said if model in aw_said]
    axis.scatter(
        [g_said[model] for model in both],
        [u_said[model] for model in both],
        c=[shades(aw_said[model]) for model in both],
        marker=".",
        s=60,
        label="models of the paper",
    )
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    scale = mpl.cm.ScalarMappable(norm=mpl.colors.Normalize(0, 1), cmap=shades)
    made.colorbar(scale, ax=axis, label="AW-CCTA")
    plots.legend(made, axis, columns=2)
    return made


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
    """Its quadrant."""
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
    are shown below the measured ones. ``most``: how many disagreements are shown. Raises
    ``EvalError`` if the folder cannot be written.
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
    """Return the tables, one below the other."""
    parts = [f"## {table.title}\n\n{table.markdown()}" for table in tables]
    if any(row.paper_only for table in tables for row in table.rows):
        parts.append(f"Rows of the paper are {_MARK}.")
    parts.append("In brackets: 95 % intervals, a bootstrap over scenes.")
    return "\n\n".join(parts) + "\n"


def disagreements(results: XtcResults, thumbs: Thumbs, most: int) -> list[Disagreement]:
    """Return the facts with the largest |v - u|, each once.

    Of equal ones those of other models, then in the tables' order, come in turn.
    """
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
    """Return the page; all text is escaped."""
    pages = environment(
        PackageLoader("scenewright.evals.studies.xtc", "assets"),
        lines=lambda text: Markup("<br>").join(str(text).split("<br>")),
        plain=lambda text: str(text).replace("*", ""),
    )
    return pages.get_template("report.html.j2").render(
        manifest=results.manifest,
        predicates=told_of(results.manifest),
        items=results.table("items").num_rows,
        answer=answer_of(results, scores),
        writers=_writers(results.rows("items")),
        scores=scores,
        first=next(iter(scores.values())),
        tables=tables,
        quadrants=Markup(quadrant_frame(scores).html()),
        categories=Markup(category_frame(scores).html()),
        shown=shown,
        lost=lost,
        plot=PLOT,
        pictures=PICTURES,
        mark=_MARK,
        style=Markup(asset("style.css")),
    )


_COUNTS = {
    "both": "compared",
    "absent": "missing in the picture",
    "unscored_generation": "unscored, drawn",
    "unscored_understanding": "unscored, understood",
}


def quadrant_frame(scores: Mapping[str, XtcScores]) -> Frame:
    """Return one row a model: its facts by quadrant, and the covariance of its two sides."""
    wholes = {model: found.overall for model, found in scores.items()}
    rows = [
        {"model": model, "covariance": whole.covariance}
        | {
            name: (n, f"({100 * n / whole.both:.0f} %)" if whole.both else "")
            for name, n in whole.quadrants.items()
        }
        | {name: getattr(whole, name) for name in _COUNTS}
        for model, whole in wholes.items()
    ]
    titles = {name: name.replace("-", " ") for name in QUADRANTS} | {"covariance": "Cov"}
    return Frame.of("quadrants", rows, columns=titles | _COUNTS, head="Model", label="{model}")


def category_frame(scores: Mapping[str, XtcScores]) -> Frame:
    """Return one row a category: G / U / CCTA / AW-CCTA of each model, with its facts."""

    def cell(found: XtcScores, name: str) -> tuple[str, str] | None:
        one = found.categories.get(name)
        if one is None:
            return None
        figures = (one.generation, one.understanding, one.ccta, one.aw_ccta)
        return " / ".join(Estimate(value=of.value).text(2) for of in figures), f"n = {one.both}"

    categories = sorted({name for found in scores.values() for name in found.categories})
    rows = [
        {"_category": name} | {model: cell(found, name) for model, found in scores.items()}
        for name in categories
    ]
    columns = {model: model for model in scores}
    return Frame.of("categories", rows, columns=columns, head="Category", label="{_category}")


def _writers(items: Sequence[Mapping[str, Any]]) -> str:
    """Return how many prompts each author wrote, and why others wrote some."""
    authors = Counter(row["author"] or "nobody" for row in items)
    problems = Counter(row.get("problem") for row in items if row.get("problem"))
    said = ", ".join(f"{author} ({n})" for author, n in authors.most_common())
    return said + "".join(f"; {why} ({n})" for why, n in problems.most_common())


def _measured_alone(table: Layout) -> Layout:
    return table.model_copy(update={"rows": tuple(row for row in table.rows if not row.paper_only)})

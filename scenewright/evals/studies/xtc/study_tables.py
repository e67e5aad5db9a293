"""Tables 2, 3 and 4 of XTC-Bench: measured models above the paper's, and the plot of G and U."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies import plots, prompts_read
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import PaperTable, xtc_paper
from scenewright.evals.studies.xtc.scores import XtcScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Reading = Callable[[XtcScores], Estimate]

_TITLES: dict[str, dict[str, str]] = {
    "xtc2": {
        "overall": "Overall Gen. ↑",
        "nodes": "Matched Nodes ↑ (%)",
        "attributes": "Attr. ↑",
        "relations": "Rel. ↑",
        "matched_attributes": "Matched Attr. ↑",
        "matched_relations": "Matched Rel. ↑",
    },
    "xtc3": {
        "overall": "Overall Und. ↑",
        "retrieval": "Obj. Retr. ↑",
        "attributes": "Attr. Query ↑",
        "relations": "Rel. Query ↑",
        "matched_attributes": "Matched Attr. ↑",
        "matched_relations": "Matched Rel. ↑",
    },
    "xtc4": {
        "ccta": "CCTA ↑ overall",
        "ccta_attributes": "attributes",
        "ccta_relations": "relations",
        "aw_ccta": "AW-CCTA ↑ overall",
        "aw_ccta_attributes": "attributes",
        "aw_ccta_relations": "relations",
    },
}
"""Table → key of a column → how it is called."""
_READ: dict[str, dict[str, Reading]] = {
    "xtc2": {
        "overall": lambda s: s.overall.generation,
        "nodes": lambda s: s.nodes.times(100),
        "attributes": lambda s: s.kinds["attribute"].generation,
        "relations": lambda s: s.kinds["relation"].generation,
        "matched_attributes": lambda s: s.matched_kinds["attribute"].generation,
        "matched_relations": lambda s: s.matched_kinds["relation"].generation,
    },
    "xtc3": {
        "overall": lambda s: s.overall.understanding,
        "retrieval": lambda s: s.kinds["retrieval"].understanding,
        "attributes": lambda s: s.kinds["attribute"].understanding,
        "relations": lambda s: s.kinds["relation"].understanding,
        "matched_attributes": lambda s: s.matched_kinds["attribute"].understanding,
        "matched_relations": lambda s: s.matched_kinds["relation"].understanding,
    },
    "xtc4": {
        "ccta": lambda s: s.overall.ccta,
        "ccta_attributes": lambda s: s.kinds["attribute"].ccta,
        "ccta_relations": lambda s: s.kinds["relation"].ccta,
        "aw_ccta": lambda s: s.overall.aw_ccta,
        "aw_ccta_attributes": lambda s: s.kinds["attribute"].aw_ccta,
        "aw_ccta_relations": lambda s: s.kinds["relation"].aw_ccta,
    },
}


def tables_of(scores: Mapping[str, XtcScores]) -> tuple[Layout, ...]:
    """The three tables: a row for each of ``scores`` (model → its figures), then the paper's."""
    return tuple(_layout(xtc_paper().named(name), scores) for name in _TITLES)


def _layout(table: PaperTable, scores: Mapping[str, XtcScores]) -> Layout:
    columns = tuple(
        Column(key=key, title=title, digits=digits)
        for (key, title), digits in zip(_TITLES[table.id].items(), table.digits, strict=True)
    )
    # What is drawn hangs on the prompt that was read; what is understood does not.
    more = () if table.id == "xtc3" else prompts_read.COLUMNS
    rows = [
        Row(
            key=model,
            title=model,
            cells=(
                *(Cell(measured=_READ[table.id][column.key](found)) for column in columns),
                *(prompts_read.cells(found.prompts) if more else ()),
            ),
        )
        for model, found in scores.items()
    ]
    for said in table.rows:
        printed = [table.printed(said, column.key) for column in columns]
        rows.append(
            Row(
                key=f"paper/{said.name}",
                title=f"*paper:* {said.name}",
                cells=(
                    *(Cell(paper=() if figure is None else (figure,)) for figure in printed),
                    *(Cell() for _ in more),
                ),
                paper_only=True,
            )
        )
    return Layout(
        id=table.id,
        title=f"{table.number}: {table.title}",
        head="Model",
        columns=(*columns, *more),
        rows=tuple(rows),
        # Its rows are other models: none of them has a figure of a row that is measured.
        of_paper=False,
    )


def plot_of(scores: Mapping[str, XtcScores], title: str) -> Figure:
    """U over G, a mark a model, coloured by AW-CCTA, with the paper's models beside (Fig. 4)."""
    import matplotlib as mpl

    made, axes = plots.figure(size=(8.2, 5.6))
    axis = axes[0][0]
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
    axis.set_xlabel("generation G, 95 % interval over scenes")
    axis.set_ylabel("understanding U, 95 % interval over scenes")
    axis.set_title(title)
    scale = mpl.cm.ScalarMappable(norm=mpl.colors.Normalize(0, 1), cmap=shades)
    made.colorbar(scale, ax=axis, label="AW-CCTA")
    plots.legend(made, axis, columns=2)
    figure: Figure = made
    return figure

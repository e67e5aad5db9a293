"""The PSG-style score by level of complexity, beside SGScore of the same pictures.

An extractor is the only judge here: it reads a scene graph off each picture, which is compared with
the one that was asked for (``docs/graphs.md``). SGScore asks judges about single facts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scenewright.config.settings import Settings
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import (
    Array,
    Estimate,
    difference,
    mean,
    rank_agreement,
    rank_correlation,
    slope,
)
from scenewright.evals.studies import readings as prompts_read
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import Claim, Printed, psg_paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.study import (
    Outcome,
    Setup,
    StudyDefinition,
    StudyRequirement,
    scenes_in,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("triplets", "composition", "feedback")
LEVELS = ("simple", "medium", "hard")
METRIC = "psg"
PARTS: dict[str, str] = {
    "nodes": "nodes",
    "attributes": "attributes",
    "edges": "edges",
    "": "PSG-style score",
}
"""Part of the metric → how tables call it."""
_MORE = {"recall": "recall", "precision": "precision"}
"""Parts that say on which side the whole lacks something."""
_COLUMNS = (
    *(Column(key=key or METRIC, title=f"{title} ↑ (%)") for key, title in (PARTS | _MORE).items()),
    Column(key="sgscore", title="SGScore ↑ (%)"),
    Column(key="spearman", title="Spearman of the two over pictures", digits=2),
    *prompts_read.COLUMNS,
)
_DROPPED = tuple(column.key for column in prompts_read.COLUMNS)


def requirements(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Require three conditions, drawn with the first seed.

    Reading a graph off a picture takes longer than asking about it.
    """
    (one,) = scenes_in(*CONDITIONS, seeds=setup.seeds[:1], apart=METRIC)(setup, settings)
    return (replace(one, metrics=(*one.metrics, setup.graph_metric(METRIC))),)


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Return a row a condition and level, and the figure of the supplement that prints scores."""
    (found,) = readings
    every = np.ones(len(found.items), bool)
    chosen = {"overall": every} | {level: found.where("level", level) for level in LEVELS}
    dropped = {
        (condition, level): dict(zip(_DROPPED, prompts_read.cells(prompts), strict=True))
        for condition in CONDITIONS
        for level, some in chosen.items()
        for prompts in [found.prompts_of(condition, some)]
    }

    def cell(row: tuple[str, ...], key: str) -> Estimate | Cell:
        condition, level = row
        if key in _DROPPED:
            return dropped[condition, level][key]
        if key == "spearman":
            return _agreement(found, condition, chosen[level])
        metric, part = ("sgscore", "") if key == "sgscore" else (METRIC, key.replace(METRIC, ""))
        return mean(found.of(metric, condition, part)[chosen[level]]).times(100)

    layout = Layout.grid(
        "psg",
        "The PSG-style score by complexity",
        {
            (name, level): f"{plots.name_of(name)}: {level} (# {chosen[level].sum()})"
            for name, level in dropped
        },
        _COLUMNS,
        cell,
        head=f"Model: {setup.profile}",
        of_paper=False,
    )
    return Outcome(
        (layout, _printed_table()),
        _claims(found),
        lambda: _plot(setup, layout),
        _notes(setup),
    )


def _agreement(found: Readings, condition: str, chosen: NDArray[np.bool_]) -> Estimate:
    """Return Spearman's rank correlation of both scores over the pictures of the chosen items."""
    graph, facts = (found.of(metric, condition)[chosen, 0] for metric in (METRIC, "sgscore"))
    return rank_agreement(graph, facts)


def _claims(found: Readings) -> tuple[Claim, ...]:
    pairs = (
        ("composition", "triplets", "scene composition raises {}"),
        ("feedback", "composition", "one round of feedback, the better picture kept, raises {}"),
    )
    claims = [
        Claim(
            where="Scene-Bench, Table 4, by the PSG-style score",
            says=says.format(f"the score of {title}" if part else f"the {title}"),
            side="above",
            measured=difference(found.of(METRIC, ours, part), found.of(METRIC, theirs, part)).times(
                100
            ),
            digits=2,
        )
        for ours, theirs, says in pairs
        for part, title in PARTS.items()
    ]
    sizes: Array = np.array(found.columns["complexity"], float)
    claims += [
        Claim(
            where="Scene-Bench, Fig. 7, by the PSG-style score",
            says="the score falls as scenes become more complex, drawn with "
            f"{plots.name_of(condition)}",
            side="below",
            measured=slope(sizes, found.of(METRIC, condition)).times(100),
            unit="points for one more relation",
            digits=2,
        )
        for condition in CONDITIONS
    ]
    return tuple(claims)


def _notes(setup: Setup) -> tuple[str, ...]:
    return (
        "PSG-Bench's own formula is not public: the score here is a written definition of ours "
        "(docs/graphs.md), and no figures of a paper exist for it on these models.",
        f"Graphs are read by the extractor `{setup.graph_extractor()}`; labels, values and "
        "predicates are equal or not.",
        "What the extractor misses or makes up lowers the score whether or not the picture is "
        "right: differences between ways of drawing mean more than heights.",
        "Relations that hold in a picture and were not asked for count as made up: precision, and "
        "the score of edges with it, is low for graphs that say only some of what holds.",
        *_of_supplement(),
    )


def _of_supplement() -> tuple[str, ...]:
    """Compare the printed numbers with the sentences beside them."""
    best = {
        table.title: (
            max(table.column("psg"), key=lambda m: table.column("psg")[m]),
            max(table.column("human"), key=lambda m: table.column("human")[m]),
        )
        for table in psg_paper().table
    }
    agreed = [title for title, models in best.items() if models == ("DALL-E 3", "DALL-E 3")]
    return (
        "The supplement says that DALL-E 3 consistently receives the highest PSG-Score and human "
        f"rating: its numbers show it in {len(agreed)} of {len(best)} prompts.",
    )


def _printed_table() -> Layout:
    """Return Fig. 9 of the supplement, and rank correlations that follow from its numbers."""
    paper = psg_paper()
    keys = ("psg", "geneval", "human")
    titles = ("PSG-Score", "GenEval", "human rating (1–5)")
    rows = [
        Row.printed(
            row.model,
            f"{table.title}, {row.model}",
            (table.printed(row, key) for key in keys),
        ).model_copy(update={"key": f"{table.id}/{row.model}"})
        for table in paper.table
        for row in table.rows
    ]
    human = _all_printed("human")
    rows.append(
        Row(
            key="spearman",
            title="Spearman with the human rating, from these 15 numbers",
            cells=(*(Cell(paper=(_rho(key, human),)) for key in ("psg", "geneval")), Cell()),
            paper_only=True,
        )
    )
    return Layout(
        id="psg_fig9",
        title=f"{paper.table[0].number}: three prompts, five models ({paper.mark})",
        head="Prompt and model",
        columns=tuple(
            Column(key=key, title=title, digits=2) for key, title in zip(keys, titles, strict=True)
        ),
        rows=tuple(rows),
    )


def _all_printed(key: str) -> list[float]:
    return [value for table in psg_paper().table for value in table.column(key).values()]


def _rho(key: str, human: list[float]) -> Printed:
    value = rank_correlation(np.array([_all_printed(key)]), np.array([human]))
    return Printed(model="all", value=float(value[0]), digits=2)


def _plot(setup: Setup, layout: Layout) -> Figure:
    made, axes = plots.figure(1, 2, size=(9.6, 4.4))
    left, right = axes[0]
    shown = {**{key or METRIC: title for key, title in PARTS.items()}, "sgscore": "SGScore"}
    by_row = {row.key: row.cells for row in layout.rows}
    at = {column.key: number for number, column in enumerate(layout.columns)}

    def figure(row: str, key: str) -> Estimate:
        return by_row[row][at[key]].measured or Estimate()

    names = {name: plots.name_of(name) for name in CONDITIONS}
    plots.bars(
        left,
        [name.replace(" ", "\n") for name in shown.values()],
        {title: [figure(f"{c}/overall", key) for key in shown] for c, title in names.items()},
    )
    left.set_title("All scenes")
    plots.bars(
        right,
        LEVELS,
        {title: [figure(f"{c}/{level}", METRIC) for level in LEVELS] for c, title in names.items()},
    )
    right.set_title("PSG-style score by complexity")
    for axis in (left, right):
        axis.set_ylim(0, 100)
        axis.set_ylabel("score (%), 95 % interval over scenes")
    made.suptitle(f"Graphs read off pictures, {setup.profile}")
    plots.legend(made, left)
    return made


STUDY = StudyDefinition(
    "psg",
    "psg",
    "PSG-style score",
    "graphs read off pictures against the graphs asked for",
    requirements,
    outcome,
    paper=psg_paper,
    unsupported_reason=lambda setup: setup.missing_extractor,
)

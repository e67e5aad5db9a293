"""Tables 2 and 3: ways of drawing by IS, FID, CLIPScore, and SGScore by complexity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.statistics.estimates import (
    Estimate,
    contrast,
    difference,
    mean,
    nothing,
    number,
    over_seeds,
)
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import PaperTable, Printed, models_beside, paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import (
    Outcome,
    StudyDefinition,
    StudyRequirement,
    scenes_wanted,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("triplets", "composition", "feedback")
TABLES = ("table2", "table3")
LEVELS = ("simple", "medium", "hard")
_OF_SETS = ("is", "fid")
_TITLES = {"is": "IS ↑", "fid": "FID ↓", "clipscore": "CLIPScore ↑", "overall": "Overall"}


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Three conditions, and the metrics of sets."""
    return scenes_wanted(setup, settings, CONDITIONS, "is", "fid", "clipscore")


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """The table of the setup's set: Table 2's columns for Visual Genome, else Table 3's. Painted
    scenes are of neither set: they stand in both tables."""
    (found,) = readings
    table = paper().named(setup.paper_table)
    others = [paper().named(name) for name in TABLES if setup.synthetic and name != table.id]
    columns = dict.fromkeys(key for one in (table, *others) for key in one.columns)
    measured = {
        condition: {key: _measured(setup, found, condition, key) for key in columns}
        for condition in CONDITIONS
    }
    return Outcome(
        tables=tuple(_layout(setup, found, one, measured) for one in (table, *others)),
        claims=_claims(setup, found, table, measured),
        plot=lambda: _plot(setup, measured),
        notes=_notes(setup),
    )


def _measured(setup: Setup, found: Readings, condition: str, key: str) -> Estimate:
    if key in (*_OF_SETS, "clipscore") and not setup.metrics_of_sets:
        return nothing("was left out")
    if key in _OF_SETS:
        scores = found.set_scores(key, condition)
        why = next((score.reason for score in scores if score.reason), "")
        n = max((score.n for score in scores), default=0)
        return over_seeds([score.value for score in scores], n, why)
    if key == "clipscore":
        return mean(found.of("clipscore", condition))
    values = found.of("sgscore", condition)
    part = values if key == "overall" else values[found.where("level", key)]
    return mean(part).times(100)


def _layout(
    setup: Setup,
    found: Readings,
    table: PaperTable,
    measured: dict[str, dict[str, Estimate]],
) -> Layout:
    counts = {level: int(found.where("level", level).sum()) for level in LEVELS}
    counts["overall"] = len(found.items)
    columns = [
        Column(key=key, title=_TITLES[key], digits=2 if key in _OF_SETS else 1)
        for key in table.columns[:3]
    ]
    columns += [
        Column(
            key=key,
            title=f"SGScore ↑ {key.capitalize()} (# {counts[key]}; paper # {table.counts[key]:,})",
        )
        for key in table.columns[3:]
    ]
    beside = models_beside(setup.profile)
    rows = []
    for condition in CONDITIONS:
        cells = []
        for column in columns:
            figure = measured[condition][column.key]
            base = measured["triplets"][column.key]
            cells.append(
                Cell(
                    measured=figure,
                    paper=table.of(condition, column.key, beside),
                    note=_gain(figure, base)
                    if condition != "triplets" and column.key in ("overall", *LEVELS)
                    else "",
                )
            )
        title = f"{setup.profile}: {plots.name_of(condition)}"
        rows.append(Row(key=f"{setup.profile}/{condition}", title=title, cells=tuple(cells)))
    for said in table.rows:
        printed = [table.printed(said, column.key) for column in columns]
        rows.append(
            Row(
                key=f"paper/{said.name}",
                title=f"*paper:* {said.name}, {said.resolution}",
                cells=tuple(Cell(paper=() if p is None else (p,)) for p in printed),
                paper_only=True,
            )
        )
    return Layout(
        id=table.id,
        title=f"{table.number}: {table.title}",
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _gain(figure: Estimate, base: Estimate) -> str:
    """The relative gain, as the paper writes it behind the scores of its own rows."""
    if not figure.value or not base.value:
        return ""
    return f"({number(100 * (figure.value / base.value - 1), 1, sign=True)}%)"


def _claims(
    setup: Setup,
    found: Readings,
    table: PaperTable,
    measured: dict[str, dict[str, Estimate]],
) -> tuple[Claim, ...]:
    beside = models_beside(setup.profile)
    claims: list[Claim] = []
    ours, base = found.of("sgscore", "feedback"), found.of("sgscore", "triplets")
    for part in ("overall", *LEVELS):
        rows = np.ones(len(found.items), bool) if part == "overall" else found.where("level", part)
        where = "" if part == "overall" else f" on {part} scenes"
        claims.append(
            Claim(
                where=table.number,
                says=f"composition with feedback scores a higher SGScore than triplets{where}",
                side="above",
                measured=difference(ours[rows], base[rows]).times(100),
                paper=table.gains("feedback", "triplets", part, beside),
            )
        )
    if table.id == "table3":
        claims += [
            Claim(
                where=table.number,
                says="SGScore falls from simple to hard scenes, drawn with "
                f"{plots.name_of(condition)}",
                side="above",
                measured=contrast(
                    found.of("sgscore", condition)[found.where("level", "simple")],
                    found.of("sgscore", condition)[found.where("level", "hard")],
                ).times(100),
                paper=_falls(table, condition, beside),
                note="The difference is simple − hard.",
            )
            for condition in CONDITIONS
        ]
    if setup.metrics_of_sets:
        claims.append(
            Claim(
                where=table.number,
                says="CLIPScore of the same pictures does not follow: composition with feedback "
                "scores lower than triplets",
                side="below",
                measured=difference(
                    found.of("clipscore", "feedback"), found.of("clipscore", "triplets")
                ),
                paper=table.gains("feedback", "triplets", "clipscore", beside),
                unit="",
                digits=2,
            )
        )
        claims += [
            Claim(
                where=table.number,
                says="IS is lower with composition and feedback than with triplets"
                if key == "is"
                else "FID hardly changes with composition and feedback",
                side="below" if key == "is" else "within",
                measured=_gap(measured["feedback"][key], measured["triplets"][key]),
                paper=table.gains("feedback", "triplets", key, beside),
                unit="",
                digits=2,
                margin=0.0 if key == "is" else 5.0,
                note="A score of a set has no interval over items.",
            )
            for key in _OF_SETS
        ]
    return tuple(claims)


def _gap(ours: Estimate, theirs: Estimate) -> Estimate:
    if ours.value is None or theirs.value is None:
        return nothing(ours.reason or theirs.reason)
    return Estimate(value=ours.value - theirs.value, n=min(ours.n, theirs.n), seeds=ours.seeds)


def _falls(table: PaperTable, condition: str, beside: tuple[str, ...]) -> tuple[Printed, ...]:
    hard = {p.model: p.value for p in table.of(condition, "hard", beside)}
    return tuple(
        Printed(model=p.model, value=round(p.value - hard[p.model], 2))
        for p in table.of(condition, "simple", beside)
    )


def _notes(setup: Setup) -> tuple[str, ...]:
    notes = [
        "Rows that begin with *paper:* hold the paper's figures alone.",
        "Percentages in brackets are gains over triplets, as in the paper.",
    ]
    if setup.synthetic:
        notes.append(
            "Painted scenes are of neither set: the same measured rows stand beside the paper's "
            "figures of both, the statements below are held against Table 3's."
        )
        notes.append(
            "IS, FID and CLIPScore are by the miniature's own encoders and of far fewer pictures "
            "than in the paper: only rows can be compared with each other, not heights with it."
        )
    return tuple(notes)


def _plot(setup: Setup, measured: dict[str, dict[str, Estimate]]) -> Figure:
    parts = ("overall", *LEVELS)
    series = {
        plots.name_of(condition): [measured[condition][part] for part in parts]
        for condition in CONDITIONS
    }
    return plots.percentages(
        parts,
        series,
        ylabel="SGScore (%), 95 % interval over scenes",
        xlabel="complexity of the scene (simple 1–3, medium 4–7, hard from 8 relations)",
        title=f"SGScore by complexity, {setup.profile}",
        size=(7.2, 4.2),
    )


STUDY = StudyDefinition(
    "tables23",
    "table2_3",
    "Tables 2 and 3",
    "models by IS, FID, CLIPScore, and SGScore by complexity",
    wants,
    outcome,
)

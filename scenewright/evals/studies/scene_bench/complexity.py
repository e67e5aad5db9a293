"""Fig. 7: FID, ObjectRecall, RelationRecall and SGScore over complexity, one relation at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.statistics.estimates import (
    Array,
    Estimate,
    difference,
    mean,
    nothing,
    over_seeds,
    slope,
)
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import paper
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
MOST = 10
"""Highest complexity of the paper's plot."""
_MEASURES = {
    "fid": "FID ↓",
    "objects": "ObjectRecall ↑ (%)",
    "relations": "RelationRecall ↑ (%)",
    "": "SGScore ↑ (%)",
}


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Three conditions, with FID of each complexity."""
    return scenes_wanted(setup, settings, CONDITIONS, "fid", scopes=("level", "complexity"))


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """A table of four blocks, a row a measure and condition, a column a complexity."""
    (found,) = readings
    sizes = _sizes(found)
    counts = {size: int(found.where("complexity", size).sum()) for size in sizes}
    cells = {
        (measure, condition): [_figure(setup, found, measure, condition, size) for size in sizes]
        for measure in _MEASURES
        for condition in CONDITIONS
    }
    rows = tuple(
        Row(
            key=f"{measure or 'sgscore'}/{condition}",
            title=f"{_MEASURES[measure]}: {plots.name_of(condition)}",
            cells=tuple(Cell(measured=figure) for figure in cells[measure, condition]),
        )
        for measure in _MEASURES
        for condition in CONDITIONS
    )
    layout = Layout(
        id="fig7",
        title="Fig. 7: measures over complexity",
        head="Measure",
        columns=tuple(
            Column(key=f"{size:g}", title=f"{size:g} (# {counts[size]})") for size in sizes
        ),
        rows=rows,
    )
    said = paper().said("fig7")
    notes = [
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        "FID of so few pictures a complexity is far too high and says little (it falls as the "
        "number of pictures grows): only sets of one size may be compared.",
    ]
    return Outcome(
        (layout,),
        _claims(setup, found, sizes),
        lambda: _plot(setup, sizes, cells),
        tuple(notes),
    )


def _sizes(found: Readings) -> list[float]:
    there = {size for size in found.columns["complexity"] if size is not None}
    return sorted(size for size in there if 1 <= size <= MOST)


def _figure(setup: Setup, found: Readings, measure: str, condition: str, size: float) -> Estimate:
    if measure == "fid":
        if not setup.metrics_of_sets:
            return nothing("was left out")
        scores = found.set_scores("fid", condition, f"complexity={size:g}")
        why = next((score.reason for score in scores if score.reason), "")
        n = max((score.n for score in scores), default=0)
        return over_seeds([score.value for score in scores], n, why)
    values = found.of("sgscore", condition, measure)
    return mean(values[found.where("complexity", size)]).times(100)


def _claims(setup: Setup, found: Readings, sizes: list[float]) -> tuple[Claim, ...]:
    said = paper().said("fig7")
    chosen = found.where("complexity", *sizes)
    x: Array = np.array(
        [np.nan if size is None else size for size in found.columns["complexity"]], float
    )[chosen]
    claims = [
        Claim(
            where=said.number,
            says=f"{name} falls as scenes become more complex, drawn with "
            f"{plots.name_of(condition)}",
            side="below",
            measured=slope(x, found.of("sgscore", condition, part)[chosen]).times(100),
            unit="points for one more relation",
            digits=2,
        )
        for part, name in (
            ("objects", "ObjectRecall"),
            ("relations", "RelationRecall"),
            ("", "SGScore"),
        )
        for condition in CONDITIONS
    ]
    gaps = [
        difference(
            found.of("sgscore", "feedback")[rows], found.of("sgscore", "triplets")[rows]
        ).times(100)
        for size in sizes
        if (rows := found.where("complexity", size)).any()
    ]
    known = [gap for gap in gaps if gap.value is not None]
    if known:
        # The claim is about every complexity, so the least favourable decides.
        least = min(known, key=lambda gap: gap.value or 0.0)
        clear = sum(gap.low is not None and gap.low > 0 for gap in known)
        ahead = sum((gap.value or 0.0) > 0 for gap in known)
        claims.append(
            Claim(
                where=said.number,
                says="feedback is above triplets at every complexity (the smallest lead is given)",
                side="above",
                measured=least,
                note=f"It is ahead at {ahead} of {len(known)} complexities, at {clear} of them "
                "with its interval above 0.",
            )
        )
    if setup.metrics_of_sets:
        claims += [
            Claim(
                where=said.number,
                says=f"FID hardly changes with complexity, drawn with {plots.name_of(condition)}",
                side="within",
                margin=1.0,
                measured=_fid_slope(found, condition, sizes),
                unit="for one more relation",
                digits=2,
                note="A score of a set has no interval over items.",
            )
            for condition in CONDITIONS
        ]
    return tuple(claims)


def _fid_slope(found: Readings, condition: str, sizes: list[float]) -> Estimate:
    points = [
        (size, score.value)
        for size in sizes
        for score in found.set_scores("fid", condition, f"complexity={size:g}")
        if score.value is not None
    ]
    if len({size for size, _ in points}) < 2:
        return nothing("FID could not be worked out at two complexities")
    x, y = np.array(points).T
    return Estimate(value=float(np.polyfit(x, y, 1)[0]), n=len(found.items))


def _plot(setup: Setup, sizes: list[float], cells: dict[tuple[str, str], list[Estimate]]) -> Figure:
    made, axes = plots.figure(2, 2, size=(9.0, 6.6))
    for axis, (measure, title) in zip(axes.flat, _MEASURES.items(), strict=True):
        plots.lines(
            axis,
            {
                plots.name_of(condition): list(zip(sizes, cells[measure, condition], strict=True))
                for condition in CONDITIONS
            },
        )
        axis.set_title(title)
        axis.set_xticks(sizes)
        axis.set_xlabel("complexity (relations of the scene, γ = 0)")
        if measure == "fid":
            axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
            axis.set_ylabel("FID, spread over seeds")
        else:
            axis.set_ylim(0, 102)
            axis.set_ylabel("%, 95 % interval over scenes")
    made.suptitle(f"Over complexity, {setup.profile}")
    plots.legend(made, axes[1][1])
    figure: Figure = made
    return figure


STUDY = StudyDefinition(
    "complexity",
    "fig7",
    "Fig. 7",
    "FID, recalls and SGScore over complexity",
    wants,
    outcome,
)

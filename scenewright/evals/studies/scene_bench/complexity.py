"""Figures 7 and 3: measures over complexity, one relation at a time, and SGScore by category."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import (
    Array,
    Estimate,
    contrast,
    difference,
    mean,
    nothing,
    slope,
)
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.paper import Claim, paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.study import Outcome, Setup, StudyDefinition, scenes_in

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


def complexity_outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Return a table of four blocks, a row a measure and condition, a column a complexity."""
    (found,) = readings
    sizes = _sizes(found)
    keys = [(measure, condition) for measure in _MEASURES for condition in CONDITIONS]
    cells = {key: {s: _figure(setup, found, *key, s) for s in sizes} for key in keys}
    layout = Layout.grid(
        "fig7",
        "Fig. 7: measures over complexity",
        {
            (measure or "sgscore", condition): f"{_MEASURES[measure]}: {plots.name_of(condition)}"
            for measure, condition in keys
        },
        {f"{s:g}": f"{s:g} (# {found.where('complexity', s).sum()})" for s in sizes},
        lambda key, size: cells[key[0].replace("sgscore", ""), key[1]][float(size)],
        head="Measure",
    )
    said = paper().statement_of("fig7")
    notes = [
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        "FID of so few pictures a complexity is far too high and says little (it falls as the "
        "number of pictures grows): only sets of one size may be compared.",
    ]
    return Outcome(
        (layout,),
        _claims(setup, found, sizes),
        lambda: _complexity_plot(setup, cells),
        tuple(notes),
    )


def _sizes(found: Readings) -> list[float]:
    there = {size for size in found.columns["complexity"] if size is not None}
    return sorted(size for size in there if 1 <= size <= MOST)


def _figure(setup: Setup, found: Readings, measure: str, condition: str, size: float) -> Estimate:
    if measure == "fid":
        if not setup.metrics_of_sets:
            return nothing("was left out")
        return found.of_set("fid", condition, f"complexity={size:g}")
    values = found.of("sgscore", condition, measure)
    return mean(values[found.where("complexity", size)]).times(100)


def _claims(setup: Setup, found: Readings, sizes: list[float]) -> tuple[Claim, ...]:
    said = paper().statement_of("fig7")
    chosen = found.where("complexity", *sizes)
    x: Array = np.array(found.columns["complexity"], float)[chosen]
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


def _complexity_plot(
    setup: Setup, cells: Mapping[tuple[str, str], Mapping[float, Estimate]]
) -> Figure:
    made, axes = plots.figure(2, 2, size=(9.0, 6.6))
    for axis, (measure, title) in zip(axes.flat, _MEASURES.items(), strict=True):
        plots.lines(
            axis,
            {plots.name_of(name): list(cells[measure, name].items()) for name in CONDITIONS},
        )
        axis.set_title(title)
        axis.set_xticks(list(cells[measure, CONDITIONS[0]]))
        axis.set_xlabel("complexity (relations of the scene, γ = 0)")
        if measure == "fid":
            axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
            axis.set_ylabel("FID, spread over seeds")
        else:
            axis.set_ylim(0, 102)
            axis.set_ylabel("%, 95 % interval over scenes")
    made.suptitle(f"Over complexity, {setup.profile}")
    plots.legend(made, axes[1][1])
    return made


COMPLEXITY = StudyDefinition(
    "complexity",
    "fig7",
    "Fig. 7",
    "FID, recalls and SGScore over complexity",
    scenes_in(*CONDITIONS, metrics=("fid",), scopes=("level", "complexity")),
    complexity_outcome,
)


def category_outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Return a row a category, a column a condition."""
    (found,) = readings
    said = paper().statement_of("fig3")
    marks = dict.fromkeys(said.better, " ↑") | dict.fromkeys(said.worse, " ↓")
    counts = {name: int(found.where("category", name).sum()) for name in _categories(found)}
    layout = Layout.grid(
        "fig3",
        "Fig. 3: SGScore by category of scenes",
        {name: f"{name} (# {n}){marks.get(name, '')}" for name, n in counts.items()},
        {name: f"{plots.name_of(name)}, SGScore ↑ (%)" for name in CONDITIONS},
        lambda category, name: mean(
            found.of("sgscore", name)[found.where("category", category)]
        ).times(100),
        head="Category",
    )
    easier, harder = (found.where("category", *names) for names in (said.better, said.worse))
    claims = tuple(
        Claim(
            where=said.number,
            says="categories that the paper calls easier score higher than those that it calls "
            f"harder, drawn with {plots.name_of(name)}",
            side="above",
            measured=contrast(
                found.of("sgscore", name)[easier], found.of("sgscore", name)[harder]
            ).times(100),
            note="Scenes of a category differ in their complexity too.",
        )
        for name in CONDITIONS
    )
    notes = [
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        "Categories marked ↑ are those it calls easier, ↓ those it calls harder.",
    ]
    if setup.synthetic:
        notes.append(
            "Categories of painted scenes follow from what is in them, by rules "
            "(docs/datasets.md): they are no more than a stand-in for those of photos."
        )
    complexity = np.array(found.columns["complexity"], float)
    sizes = {name: complexity[found.where("category", name)] for name in counts}
    means = [
        f"{name} {np.nanmean(some):.1f}" for name, some in sizes.items() if not np.isnan(some).all()
    ]
    notes.append(f"Mean relations a scene: {', '.join(means)}.")
    return Outcome((layout,), claims, lambda: _category_plot(setup, counts, layout), tuple(notes))


def _categories(found: Readings) -> list[str]:
    """Return the categories of the set, those of one group together, in the order of their size."""
    order: dict[tuple[str, str], int] = {}
    for pair in zip(found.columns["group"], found.columns["category"], strict=True):
        if pair[1]:
            order[pair] = order.get(pair, 0) + 1
    return [name for (_, name), _ in sorted(order.items(), key=lambda e: (e[0][0], -e[1], e[0]))]


def _category_plot(setup: Setup, counts: Mapping[str, int], layout: Layout) -> Figure:
    made, axis = plots.chart(
        f"SGScore by category, {setup.profile}",
        "SGScore (%), 95 % interval over scenes",
        size=(7.4, 1.6 + 0.62 * max(2, len(counts))),
    )
    plots.bars(
        axis,
        [f"{name} (n = {n})" for name, n in counts.items()],
        {
            plots.name_of(name): figures
            for name, figures in zip(CONDITIONS, layout.figures(), strict=True)
        },
        horizontal=True,
    )
    axis.set_xlim(0, 100)
    plots.legend(made, axis)
    return made


CATEGORIES = StudyDefinition(
    "categories",
    "fig3",
    "Fig. 3",
    "SGScore by category of scenes",
    scenes_in(*CONDITIONS),
    category_outcome,
)

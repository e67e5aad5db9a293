"""Fig. 3: SGScore by category of scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenewright.config.settings import Settings
from scenewright.evals.statistics.estimates import Estimate, contrast, mean
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


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Three conditions."""
    return scenes_wanted(setup, settings, CONDITIONS)


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """A row a category, a column a condition."""
    (found,) = readings
    categories = _categories(found)
    said = paper().said("fig3")
    by = {
        condition: [_score(found, condition, category) for category in categories]
        for condition in CONDITIONS
    }
    counts = {name: int(found.where("category", name).sum()) for name in categories}
    rows = tuple(
        Row(
            key=category,
            title=f"{category} (# {counts[category]}){_mark(category)}",
            cells=tuple(Cell(measured=by[condition][at]) for condition in CONDITIONS),
        )
        for at, category in enumerate(categories)
    )
    layout = Layout(
        id="fig3",
        title="Fig. 3: SGScore by category of scenes",
        head="Category",
        columns=tuple(
            Column(key=name, title=f"{plots.name_of(name)}, SGScore ↑ (%)") for name in CONDITIONS
        ),
        rows=rows,
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
    complexities = _complexities(found, categories)
    notes.append(
        "Mean relations a scene: "
        + ", ".join(f"{name} {value:.1f}" for name, value in complexities.items())
        + "."
    )
    return Outcome((layout,), claims, lambda: _plot(setup, categories, counts, by), tuple(notes))


def _categories(found: Readings) -> list[str]:
    """Categories of the set, those of one group together, in the order of their size."""
    order: dict[tuple[str, str], int] = {}
    for pair in zip(found.columns["group"], found.columns["category"], strict=True):
        if pair[1]:
            order[pair] = order.get(pair, 0) + 1
    return [name for (_, name), _ in sorted(order.items(), key=lambda e: (e[0][0], -e[1], e[0]))]


def _score(found: Readings, condition: str, category: str) -> Estimate:
    return mean(found.of("sgscore", condition)[found.where("category", category)]).times(100)


def _mark(category: str) -> str:
    said = paper().said("fig3")
    return " ↑" if category in said.better else " ↓" if category in said.worse else ""


def _complexities(found: Readings, categories: list[str]) -> dict[str, float]:
    pairs = list(zip(found.columns["category"], found.columns["complexity"], strict=True))
    result = {}
    for name in categories:
        values = [size for category, size in pairs if category == name and size is not None]
        if values:
            result[name] = sum(values) / len(values)
    return result


def _plot(
    setup: Setup, categories: list[str], counts: dict[str, int], by: dict[str, list[Estimate]]
) -> Figure:
    made, axes = plots.figure(size=(7.4, 1.6 + 0.62 * max(2, len(categories))))
    axis = axes[0][0]
    plots.bars(
        axis,
        [f"{name} (n = {counts[name]})" for name in categories],
        {plots.name_of(condition): estimates for condition, estimates in by.items()},
        horizontal=True,
    )
    axis.set_xlim(0, 100)
    axis.set_xlabel("SGScore (%), 95 % interval over scenes")
    axis.set_title(f"SGScore by category, {setup.profile}")
    plots.legend(made, axis)
    figure: Figure = made
    return figure


STUDY = StudyDefinition(
    "categories", "fig3", "Fig. 3", "SGScore by category of scenes", wants, outcome
)

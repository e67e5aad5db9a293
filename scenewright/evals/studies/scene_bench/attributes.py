"""Table 9: recall of single objects, bare and with an attribute bound to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenewright.config.settings import Settings
from scenewright.evals.statistics.estimates import Array, Estimate, contrast, mean
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import models_beside, paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.scene_bench.instances import (
    WITH,
    WITHOUT,
    Objects,
    known_objects,
    objects_of,
    painted_objects,
)
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import (
    OBJECTS_FAMILY,
    Outcome,
    StudyDefinition,
    StudyRequirement,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("triplets", "composition")
"""The words alone (``red apple``), as in the paper, and the composed description."""
_MINIMAL = 5.0
"""Points of recall that count as a minimal difference: the paper calls its 3.78 so."""


def objects(setup: Setup) -> Objects:
    """The setup's objects; ``n`` bounds the classes. Raises ``StudyError`` for its file."""
    if setup.instances is not None:
        return objects_of(setup.instances).first(setup.n)
    return (painted_objects() if setup.synthetic else known_objects()).first(setup.n)


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Single objects in both conditions."""
    return (
        StudyRequirement(
            OBJECTS_FAMILY,
            CONDITIONS,
            setup.report_panel(settings),
            setup.metrics(),
            setup.seeds,
            scopes=("group",),
            dataset=objects(setup),
        ),
    )


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Two rows, a column a condition."""
    (found,) = readings
    table, beside = paper().named("table9"), models_beside(setup.profile)
    groups = {
        WITHOUT: f"w.o. attributes (# {int(found.where('group', WITHOUT).sum())})",
        WITH: f"w. attributes (# {int(found.where('group', WITH).sum())})",
    }
    rows = [
        Row(
            key=group,
            title=title,
            cells=tuple(
                Cell(
                    measured=mean(_values(found, condition, group)).times(100),
                    paper=table.of(group, "recall", beside) if condition == "triplets" else (),
                )
                for condition in CONDITIONS
            ),
        )
        for group, title in groups.items()
    ]
    # Apart from the paper's rows: whether the thing is there at all when an attribute is asked.
    rows.append(
        Row(
            key="with/object",
            title="w. attributes, the object alone",
            cells=tuple(
                Cell(
                    measured=mean(
                        found.of("sgscore", condition, "objects")[found.where("group", WITH)]
                    ).times(100)
                )
                for condition in CONDITIONS
            ),
        )
    )
    layout = Layout(
        id="table9",
        title=f"{table.number}: {table.title}",
        head=f"Model: {setup.profile}",
        columns=tuple(
            Column(key=name, title=f"{title}, recall ↑ (%)", digits=2)
            for name, title in zip(
                CONDITIONS, ("the words alone", "scene composition"), strict=True
            )
        ),
        rows=tuple(rows),
    )
    return Outcome(
        (layout,),
        _claims(setup, found),
        lambda: _plot(setup, layout),
        _notes(setup),
        {"classes": len({c for c in found.columns["category"] if c})},
    )


def _values(found: Readings, condition: str, group: str) -> Array:
    """Recall of the bare objects, or of objects that are there with their attribute."""
    part = "objects" if group == WITHOUT else "attributes"
    return found.of("sgscore", condition, part)[found.where("group", group)]


def _claims(setup: Setup, found: Readings) -> tuple[Claim, ...]:
    table, beside = paper().named("table9"), models_beside(setup.profile)
    claims: list[Claim] = []
    for condition in CONDITIONS:
        gap = contrast(_values(found, condition, WITH), _values(found, condition, WITHOUT)).times(
            100
        )
        how = "the words alone" if condition == "triplets" else "scene composition"
        gains = table.gains(WITH, WITHOUT, "recall", beside) if condition == "triplets" else ()
        claims += [
            Claim(
                where=table.number,
                says="recall with an attribute is a little lower than that of the bare object, "
                f"drawn from {how}",
                side="below",
                measured=gap,
                paper=gains,
                digits=2,
            ),
            Claim(
                where=table.number,
                says=f"the difference is minimal, drawn from {how}",
                side="within",
                margin=_MINIMAL,
                measured=gap,
                paper=gains,
                digits=2,
            ),
        ]
    return tuple(claims)


def _notes(setup: Setup) -> tuple[str, ...]:
    notes = [
        "With attributes an object counts if it is there and the judges say that it has its "
        "attribute; the third row, which the paper has not, counts it if it is there at all.",
        "The paper's figures of SDXL are lost in the text of it that lies here.",
    ]
    if setup.synthetic:
        notes.append(
            "The small generator learned from captions that name a colour of every thing, and its "
            "composer names a usual one where the scene has none: scene composition draws bare "
            "objects with a colour, too."
        )
    return tuple(notes)


def _plot(setup: Setup, layout: Layout) -> Figure:
    made, axes = plots.figure(size=(6.4, 4.2))
    axis = axes[0][0]
    series = {row.title: [cell.measured or Estimate() for cell in row.cells] for row in layout.rows}
    plots.bars(axis, ["the words alone", "scene composition"], series)
    axis.set_ylim(0, 100)
    axis.set_ylabel("recall (%), 95 % interval over objects")
    axis.set_xlabel("what is drawn from")
    axis.set_title(f"Single objects with and without attributes, {setup.profile}")
    plots.legend(made, axis, columns=2)
    figure: Figure = made
    return figure


STUDY = StudyDefinition(
    "attributes",
    "table9",
    "Table 9",
    "recall of single objects, bare and with attributes",
    wants,
    outcome,
)

"""Fig. 11: the same pictures judged by different judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.runner.config import PanelSpec
from scenewright.evals.statistics.estimates import Estimate, difference, mean
from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.statistics.figures import Figure as Measured
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.setup import PARTS, Setup
from scenewright.evals.studies.study import (
    SCENES_FAMILY,
    Outcome,
    StudyDefinition,
    StudyRequirement,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("triplets", "composition")
"""Without a loop: no judge has steered what it judges."""
MINIMAL = 5.0
"""Points of SGScore that count as a minimal difference between judges."""
_SPOILT = {"judge-weak": "made weak on purpose", "judge-eager": "made to say yes on purpose"}


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """One panel a judge, on the pictures of the first seed."""
    panels = {
        short: PanelSpec(judges=(name,))
        for short, name in setup.judges_to_compare(settings).items()
    }
    return (StudyRequirement(SCENES_FAMILY, CONDITIONS, panels, setup.metrics(), setup.seeds[:1]),)


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """A row a judge: scores of each condition, and how far it agrees with the others."""
    (found,) = readings
    named = setup.judges_to_compare(settings)
    judges = list(named)
    report = setup.model(settings).report_judges
    base = next((short for short, name in named.items() if name in report), judges[0])
    kappas, alpha = _agreement(found, judges, base)
    columns = [
        Column(key=f"{condition}/{part or 'sgscore'}", title=f"{plots.name_of(condition)}: {title}")
        for condition in CONDITIONS
        for part, title in zip(
            PARTS, ("ObjectRecall (%)", "RelationRecall (%)", "SGScore (%)"), strict=True
        )
    ]
    columns.append(Column(key="kappa", title=f"Cohen's κ with {base}", digits=3))
    rows = []
    for judge in judges:
        cells = [
            Cell(measured=mean(found.of("sgscore", condition, part, panel=judge)).times(100))
            for condition in CONDITIONS
            for part in PARTS
        ]
        cells.append(Cell(measured=_estimate(kappas[judge]) if judge != base else None))
        rows.append(Row(key=judge, title=f"{judge}{_made(judge)}", cells=tuple(cells)))
    layout = Layout(
        id="fig11",
        title="Fig. 11: SGScore by judge, on the same pictures",
        head="Judge",
        columns=tuple(columns),
        rows=tuple(rows),
    )
    said = paper().said("fig11")
    claims = tuple(
        Claim(
            where=said.number,
            says=f"`{judge}`{_made(judge)} gives the same SGScore as `{base}`, pictures drawn with "
            f"{plots.name_of(condition)}",
            side="within",
            margin=MINIMAL,
            measured=difference(
                found.of("sgscore", condition, panel=judge),
                found.of("sgscore", condition, panel=base),
            ).times(100),
        )
        for condition in CONDITIONS
        for judge in judges
        if judge != base
    )
    order = _orders(found, judges)
    notes = (
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        f"Agreement of all {len(judges)} judges on single facts, Krippendorff's α: {alpha.text()} "
        f"({alpha.n} facts; a void fact counts as not there).",
        f"Judges that put scene composition above triplets: {order} of {len(judges)}.",
    )
    return Outcome(
        (layout,),
        claims,
        lambda: _plot(setup, found, judges),
        notes,
        {"alpha": alpha.model_dump(), "judges": named, "beside": base},
    )


def _made(judge: str) -> str:
    return f" ({_SPOILT[judge]})" if judge in _SPOILT else ""


def _estimate(figure: Measured) -> Estimate:
    return Estimate(
        value=figure.value,
        low=figure.low,
        high=figure.high,
        n=figure.n,
        reason="" if figure.value is not None else "nothing to agree on",
    )


def _agreement(
    found: Readings, judges: list[str], base: str
) -> tuple[dict[str, Measured], Measured]:
    """Cohen's κ of every judge with ``base``, and Krippendorff's α of all, over facts."""
    empty = Measured(value=None)
    if found.votes is None or not len(found.votes.pictures):
        return dict.fromkeys(judges, empty), empty
    at = {panel: column for column, panel in enumerate(found.votes.panels)}
    pictures, votes = found.votes.pictures, found.votes.said
    boot = Bootstrap(int(pictures.max()) + 1)
    kappas = {}
    for judge in judges:
        pair = votes[:, [at[judge], at[base]]]
        both = ~np.isnan(pair).any(1)
        kappas[judge] = boot.kappa(pictures[both], pair[both, 0], pair[both, 1])
    return kappas, boot.alpha(pictures, votes[:, [at[judge] for judge in judges]])


def _orders(found: Readings, judges: list[str]) -> int:
    def score(judge: str, condition: str) -> float:
        return mean(found.of("sgscore", condition, panel=judge)).value or 0.0

    return sum(score(judge, "composition") > score(judge, "triplets") for judge in judges)


def _plot(setup: Setup, found: Readings, judges: list[str]) -> Figure:
    series = {
        plots.name_of(condition): [
            mean(found.of("sgscore", condition, panel=judge)).times(100) for judge in judges
        ]
        for condition in CONDITIONS
    }
    return plots.percentages(
        judges,
        series,
        ylabel="SGScore (%), 95 % interval over scenes",
        xlabel="judge",
        title=f"The same pictures by different judges, {setup.profile}",
        size=(1.8 + 1.15 * len(judges), 4.2),
    )


STUDY = StudyDefinition(
    "judges", "fig11", "Fig. 11", "the same pictures judged by different judges", wants, outcome
)

"""The page of the study of statistical power."""

from __future__ import annotations

from functools import partial

import numpy as np

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudyResult
from scenewright.evals.studies.panel.parts.power_found import Compared, Power, records
from scenewright.evals.studies.panel.parts.power_plots import plot_power


def page(study: Power) -> PanelStudyResult:
    """Findings, tables, plots and records."""
    tables = [_needed(study, power) for power in study.powers]
    tables += [_smallest(study), _several(study)]
    if study.simulated:
        tables.append(_checked(study))
    if study.compared:
        tables.append(_compared(study))
    tables.append(_components(study))
    return PanelStudyResult(
        findings=tuple(_findings(study)),
        tables=tuple(tables),
        plots={"power": partial(plot_power, study)},
        records=records(study),
        figures={
            f"images.{100 * effect:g}_points.{judges}_judges": _json(
                study.needed(effect, at, study.powers[0])
            )
            for effect in study.effects
            for at, judges in enumerate(study.judges)
        }
        | {"slope": _json(study.shown_slope)},
        notes=tuple(_notes(study)),
    )


def _json(found: Estimate) -> dict[str, float | None]:
    return {"mean": found.value, "low": found.low, "high": found.high}


def _findings(study: Power) -> list[str]:
    power, last = study.powers[0], len(study.judges) - 1
    effect = min(study.effects, key=lambda e: abs(e - 0.05))
    how = "on the same prompts" if study.paired else "on different prompts"
    one, more = study.needed(effect, 0, power), study.needed(effect, last, power)
    found = []
    if one.value is not None and more.value is not None:
        found.append(
            f"To tell two models apart that differ by {100 * effect:g} points takes "
            f"{one.text(0)} images of each with {_judges(study.judges[0])} and {more.text(0)} with "
            f"{_judges(study.judges[last])} ({100 * power:g} % power, two-sided "
            f"α = {study.alpha:g}, {how})."
        )
    known = study.shown_slope
    found.append(
        f"A true difference of one point is seen as {known.text(2)} points: the judges' answers "
        "are only so much higher for facts that hold."
    )
    own = study.spread.judge_item + study.spread.judge_fact / study.facts
    total = study.spread.variance(1, study.facts)
    if total > 0:
        found.append(
            f"Of the variance of one judge's difference {100 * own / total:.0f} % is the judge's "
            f"own, which more judges shrink; {100 * (total - own) / total:.0f} % is common to all, "
            "which only more images (or facts) do."
        )
    if study.simulated:
        gaps = [(s, s.share) for s in study.simulated]
        inside = sum((e.low or 0.0) <= s.formula <= (e.high or 1.0) for s, e in gaps)
        far = max(abs(s.formula - s.found / s.studies) for s in study.simulated)
        found.append(
            f"Drawing studies from the table agrees with the formula to {100 * far:.1f} points of "
            f"power at most; in {inside} of {len(gaps)} cases the formula lies in the 95 % "
            "interval of the simulation."
        )
    if study.compared:
        clear = [c for c in study.compared if c.holm < study.alpha]
        found.append(
            f"Pairs of models that the table tells apart (p < {study.alpha:g} after Holm's "
            f"correction): {len(clear)} of {len(study.compared)}."
        )
    return found


def _judges(n: int) -> str:
    return "1 judge" if n == 1 else f"{n} judges"


def _needed(study: Power, power: float) -> Layout:
    return Layout(
        id=f"images_needed_{100 * power:.0f}",
        title=f"Images of each model for {100 * power:g} % power (α = {study.alpha:g}, "
        f"{'paired' if study.paired else 'unpaired'}, {study.facts:.1f} facts an image)",
        head="Difference",
        columns=tuple(Column(key=f"judges_{j}", title=_judges(j), digits=0) for j in study.judges),
        rows=tuple(
            Row(
                key=f"{effect:g}",
                title=f"{100 * effect:g} points",
                cells=tuple(
                    Cell(measured=study.needed(effect, at, power))
                    for at in range(len(study.judges))
                ),
            )
            for effect in study.effects
        ),
        of_paper=False,
    )


def _smallest(study: Power) -> Layout:
    power = study.powers[0]
    return Layout(
        id="detectable",
        title=f"Smallest difference (points) that is found with {100 * power:g} % power",
        head="Images of each model",
        columns=tuple(Column(key=f"judges_{j}", title=_judges(j), digits=1) for j in study.judges),
        rows=tuple(
            Row(
                key=str(n),
                title=f"{n:,}",
                cells=tuple(
                    Cell(measured=study.smallest(n, at, power)) for at in range(len(study.judges))
                ),
            )
            for n in study.images
        ),
        of_paper=False,
    )


def _several(study: Power) -> Layout:
    effect = min(study.effects, key=lambda e: abs(e - 0.05))
    return Layout(
        id="several_models",
        title=f"Images of each model to tell {100 * effect:g} points apart when every pair of "
        "several models is compared (Bonferroni; power of Holm's procedure with them)",
        head="Models",
        columns=tuple(Column(key=f"judges_{j}", title=_judges(j), digits=0) for j in study.judges),
        rows=tuple(
            Row(
                key=str(models),
                title=str(models),
                cells=tuple(
                    Cell(
                        measured=Estimate(value=n),
                        note="" if np.isnan(power) else f"(Holm {100 * power:.0f} %)",
                    )
                    for n, power in rows
                ),
            )
            for models, rows in study.several.items()
        ),
        of_paper=False,
    )


def _checked(study: Power) -> Layout:
    return Layout(
        id="simulated",
        title="Power (%) by the formula and by studies drawn from the table",
        head="Study",
        columns=(
            Column(key="images", title="images of each model", digits=0),
            Column(key="formula", title="formula", digits=1),
            Column(key="simulated", title="simulated", digits=1),
        ),
        rows=tuple(
            Row(
                key=f"{s.effect:g}_{s.judges}",
                title=f"{100 * s.effect:g} points, {_judges(s.judges)}",
                cells=(
                    Cell(measured=Estimate(value=s.images)),
                    Cell(measured=Estimate(value=100 * s.formula)),
                    Cell(measured=s.share.times(100)),
                ),
            )
            for s in study.simulated
        ),
        of_paper=False,
    )


def _compared(study: Power) -> Layout:
    truth = any(c.truth is not None for c in study.compared)
    columns = [
        Column(key="seen", title="difference as seen (points)", digits=1),
        Column(key="true", title="corrected for the judges (points)", digits=1),
        Column(key="p", title="p", digits=4),
        Column(key="holm", title="p (Holm)", digits=4),
    ]
    if truth:
        columns.insert(2, Column(key="truth", title="truth (points)", digits=1))

    def row(one: Compared) -> Row:
        seen = Estimate(value=one.test.mean, low=one.test.low, high=one.test.high).times(100)
        cells = [
            Cell(measured=seen),
            Cell(measured=seen.times(1 / study.slope)),
            Cell(measured=Estimate(value=one.test.p)),
            Cell(measured=Estimate(value=one.holm)),
        ]
        if truth:
            known = None if one.truth is None else 100 * one.truth
            cells.insert(2, Cell(measured=Estimate(value=known)))
        name = " − ".join(one.models)
        return Row(key="-".join(one.models), title=name, cells=tuple(cells))

    return Layout(
        id="compared",
        title="The models of the table, by all its judges",
        head="Models",
        columns=tuple(columns),
        rows=tuple(row(one) for one in study.compared),
        of_paper=False,
    )


def _components(study: Power) -> Layout:
    parts = study.spread.model_dump()
    title = {
        "item": "items, common to all judges",
        "fact": "facts of an item, common to all judges",
        "judge_item": "a judge's own, on an item",
        "judge_fact": "a judge's own, on a fact",
    }
    rows = [
        Row(key=key, title=title[key], cells=(Cell(measured=Estimate(value=value)),))
        for key, value in parts.items()
    ]
    rows += [
        Row(key=f"slope_{name}", title=f"λ of {name}", cells=(Cell(measured=_finite(value)),))
        for name, value in zip(study.names, study.slopes, strict=True)
    ]
    rows.append(Row(key="slope", title="λ, mean", cells=(Cell(measured=study.shown_slope),)))
    return Layout(
        id="components",
        title="Variance of the difference of two images, by where it comes from, and λ",
        head="Component",
        columns=(Column(key="value", title="value", digits=4),),
        rows=tuple(rows),
        of_paper=False,
    )


def _finite(value: float) -> Estimate:
    return Estimate(value=float(value)) if np.isfinite(value) else Estimate(reason="no answers")


def _notes(study: Power) -> list[str]:
    common = "the same prompts (paired)" if study.paired else "different prompts (unpaired)"
    found = [
        f"Two-sided t-tests of models that draw {common}. Intervals are those of the variance "
        "and of λ over items, for the formula as it is; they do not say how good the formula is, "
        "the table by simulation does.",
        "A difference is one of the shares of facts that hold; that it shrinks by λ is exact for "
        "facts that stand alone, and close where some depend on others. The judges' own "
        "preference for one of two models does not shrink with images, and no test of images can "
        "see it.",
    ]
    if max(study.judges) > study.real:
        found.append(
            f"The table has {_judges(study.real)}: larger panels are extrapolated, with judges "
            "like these."
        )
    if study.slope_given:
        found.append(f"λ = {study.slope:g} was set.")
    elif not study.labelled:
        found.append(
            "The truth is not known: λ is by the Dawid–Skene posterior, which takes the judges "
            "to err independently. If they err together λ is smaller and more images are needed."
        )
    return found

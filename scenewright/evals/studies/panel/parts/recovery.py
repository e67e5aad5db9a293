"""Does each estimator find what was put in: simulated tables like the one that is studied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import expit
from scenewright.agents.panel.rates import COLDEST, HOTTEST
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.likeness import spec_like
from scenewright.evals.studies.panel.parts.recovery_plots import (
    plot_coverage,
    plot_errors,
    plot_estimates,
)
from scenewright.evals.studies.panel.recovering import (
    ESTIMATORS,
    Recovered,
    Recovery,
    recovered,
    recovery,
)
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec

_LEAST_RATE, _MOST_RATE = 0.05, 0.97
_COLUMNS = (
    Column(key="bias", title="bias (estimate − truth)", digits=3),
    Column(key="rmse", title="RMSE ↓", digits=3),
    Column(key="coverage", title="share of 95 % intervals that hold the truth", digits=3),
    Column(key="width", title="mean width of the intervals", digits=3),
    Column(key="undefined", title="undefined", digits=3),
)


class RecoveryOptions(Options):
    """Options of the study ``recovery``."""

    simulations: int = Field(default=40, ge=10, le=5000)
    """Simulated tables; each has judges of its own."""
    spread: float = Field(default=0.4, ge=0.0, le=2.0)
    """Standard deviation of the judges' rates and of the prevalence around those of the table, in
    log-odds, and of their temperatures around those, in logarithms."""
    most_correlation: float = Field(default=0.7, ge=0.0, le=0.9)
    """Errors within families (in a panel without families: of all judges) are correlated by an
    amount drawn evenly from 0 to this."""
    most_items: int = Field(default=200, ge=10)
    """Items of a simulated table; the table's own number if that is less."""
    resamples: int = Field(default=200, ge=50, le=2000)
    """Resamples behind the interval of each estimate."""


async def run(context: PanelStudyContext, options: RecoveryOptions) -> PanelStudyResult:
    """Simulates, estimates, and compares."""
    like = spec_like(context.table)
    specs = varied(like, options, context.seed)
    rows = await asyncio.to_thread(recovered, specs, options.resamples, context.told)
    return result_of(rows, like, options, context.seed)


PART = PanelStudy(
    name="recovery",
    title="Do the estimators find what was put in?",
    about=(
        "On simulated tables like this one, where everything is known: how far off are estimated "
        "error rates, correlations, calibration and prevalence, and do their intervals hold?"
    ),
    needs=frozenset({"several"}),
    options=RecoveryOptions,
    run=run,
)


def varied(like: SimulationSpec, options: RecoveryOptions, seed: int) -> tuple[SimulationSpec, ...]:
    """Specs around ``like``: judges a little better or worse, errors more or less correlated."""
    rng = np.random.default_rng([seed, 1])
    families = [judge.family or judge.id for judge in like.judges]
    in_families = len(set(families)) < len(families)
    found = []
    for at in range(options.simulations):
        shared = float(rng.uniform(0.0, options.most_correlation))
        better = float(rng.normal(0.0, options.spread))
        judges = tuple(_moved(judge, options.spread, rng) for judge in like.judges)
        if in_families:
            judges = tuple(j.model_copy(update={"correlation": shared}) for j in judges)
        found.append(
            like.model_copy(
                update={
                    "judges": judges,
                    "models": tuple(
                        model.model_copy(
                            update={
                                "prevalence": _near(model.prevalence, better),
                                "kinds": {k: _near(v, better) for k, v in model.kinds.items()},
                            }
                        )
                        for model in like.models
                    ),
                    "n_items": min(like.n_items, options.most_items),
                    "difficulty": like.difficulty if in_families else shared,
                    "seed": seed * options.simulations + at,
                }
            )
        )
    return tuple(found)


def result_of(
    rows: Sequence[Recovered], like: SimulationSpec, options: RecoveryOptions, seed: int
) -> PanelStudyResult:
    """Tables, plots and sentences of the estimates ``rows``."""
    found = {
        name: summary
        for name in ESTIMATORS
        if (summary := recovery([row for row in rows if row.estimator == name], seed)) is not None
    }
    figures: dict[str, Any] = {}
    for name, summary in found.items():
        for what in ("bias", "rmse", "coverage"):
            figure: Figure = getattr(summary, what)
            if figure.value is not None:
                figures[f"{what}.{name}"] = {
                    "mean": figure.value,
                    "low": figure.low,
                    "high": figure.high,
                }
    return PanelStudyResult(
        findings=_findings(found, rows, options),
        tables=(_layout(found, options),),
        plots={
            "recovered": lambda: plot_estimates(rows),
            "coverage": lambda: plot_coverage(found),
            "errors_by_correlation": lambda: plot_errors(rows),
        },
        records={
            "estimates": [
                {key: _plain(value) for key, value in asdict(row).items()} for row in rows
            ],
            "estimators": _records(found),
            "judges": [judge.model_dump(exclude={"kinds"}) for judge in like.judges],
        },
        figures=figures,
        notes=_notes(like, options, found),
    )


def _moved(judge: SimulatedJudge, spread: float, rng: np.random.Generator) -> SimulatedJudge:
    se, sp, hot = rng.normal(0.0, spread, 3)
    return judge.model_copy(
        update={
            "sensitivity": _near(judge.sensitivity, se),
            "specificity": _near(judge.specificity, sp),
            "temperature": float(np.clip(judge.temperature * np.exp(hot), COLDEST, HOTTEST)),
        }
    )


def _near(rate: float, by: float) -> float:
    """``rate`` moved in log-odds."""
    moved = expit(np.log(rate / (1.0 - rate)) + by)
    return float(np.clip(moved, _LEAST_RATE, _MOST_RATE))


def _findings(
    found: Mapping[str, Recovery], rows: Sequence[Recovered], options: RecoveryOptions
) -> tuple[str, ...]:
    sentences = []
    for what in ("sensitivity", "specificity"):
        labelled, latent = found[f"{what}.labelled"], found[f"{what}.dawid_skene"]
        if labelled.rmse.value is None or latent.rmse.value is None:
            continue
        sentences.append(
            f"With labels the {what} came back with a root mean squared error of "
            f"{labelled.rmse.text()}; without labels, by Dawid–Skene, of {latent.rmse.text()}, "
            f"on average {_direction(latent.bias)}."
        )
    low, high = (
        [
            row
            for row in rows
            if row.estimator.endswith("dawid_skene")
            and row.estimator.startswith(("sensitivity", "specificity"))
            and (row.correlation >= _middle(rows)) == upper
        ]
        for upper in (False, True)
    )
    weak, strong = recovery(low), recovery(high)
    if weak is not None and strong is not None:
        sentences.append(
            "Dawid–Skene's rates were off by "
            f"{weak.bias.text()} on average where errors were little correlated (below "
            f"{_middle(rows):.2f} over all pairs) and by {strong.bias.text()} where they were more."
        )
    told = found["sensitivity.families"], found["specificity.families"]
    if told[0].rmse.value is not None:
        sentences.append(
            "Without labels, but with the judges' families known, the model of families found "
            f"sensitivities with a root mean squared error of {told[0].rmse.text()} and "
            f"specificities with one of {told[1].rmse.text()}."
        )
    for name, words in (
        ("correlation.labelled", "Error correlations from labels"),
        ("correlation.unlabelled", "Error correlations without labels, from excess agreement,"),
        ("correlation.families", "Error correlations within families by the model of families"),
    ):
        summary = found.get(name)
        if summary is not None and summary.rmse.value is not None:
            sentences.append(
                f"{words} had a root mean squared error of {summary.rmse.text()}, on average "
                f"{_direction(summary.bias)}; {summary.coverage.text(2)} of their 95 % intervals "
                "held the truth."
            )
    short = [
        f"{ESTIMATORS[name]} {summary.coverage.text(2)}"
        for name, summary in found.items()
        if summary.coverage.high is not None and summary.coverage.high < 0.95
    ]
    if short:
        sentences.append(
            "Intervals that held the truth clearly less often than 95 times in 100: "
            + "; ".join(short)
            + "."
        )
    else:
        sentences.append(
            f"No estimator's intervals held the truth clearly less often than 95 times in 100, in "
            f"{options.simulations} simulated tables."
        )
    return tuple(sentences)


def _direction(bias: Figure) -> str:
    """Which way an estimator errs, only where the interval tells."""
    if bias.low is None or bias.high is None:
        return f"{bias.text()} off"
    if bias.low > 0.0:
        return f"{bias.text()} too high"
    if bias.high < 0.0:
        return f"{abs(bias.value or 0.0):.3f} [{-bias.high:.3f}, {-bias.low:.3f}] too low"
    return f"neither clearly too high nor too low ({bias.text()})"


def _middle(rows: Sequence[Recovered]) -> float:
    """Median over simulated tables of the mean correlation that was put in."""
    each = {row.simulation: row.correlation for row in rows}
    return float(np.median(list(each.values())))


def _layout(found: Mapping[str, Recovery], options: RecoveryOptions) -> Layout:
    def cell(figure: Figure) -> Cell:
        none = "" if figure.value is not None else "undefined on this table"
        return Cell(
            measured=Estimate(
                value=figure.value,
                low=figure.low,
                high=figure.high,
                n=options.simulations if figure.value is not None else 0,
                reason=none,
            )
        )

    return Layout(
        id="recovery",
        title=f"Estimates against what was put in, {options.simulations} simulated tables",
        head="Estimator",
        columns=_COLUMNS,
        rows=tuple(
            Row(
                key=name,
                title=ESTIMATORS[name],
                cells=(
                    *(cell(f) for f in (each.bias, each.rmse, each.coverage, each.width)),
                    Cell(measured=Estimate(value=each.undefined, n=options.simulations)),
                ),
            )
            for name, each in found.items()
        ),
        of_paper=False,
    )


def _records(found: Mapping[str, Recovery]) -> list[dict[str, Any]]:
    records = []
    for name, summary in found.items():
        record: dict[str, Any] = {"estimator": name, "undefined": summary.undefined}
        for what in ("bias", "rmse", "coverage", "width"):
            figure: Figure = getattr(summary, what)
            record |= {what: figure.value, f"{what}_low": figure.low, f"{what}_high": figure.high}
        records.append(record)
    return records


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def _notes(
    like: SimulationSpec, options: RecoveryOptions, found: Mapping[str, Recovery]
) -> tuple[str, ...]:
    per_image = like.objects + like.attributes + like.relations
    n_items = min(like.n_items, options.most_items)
    notes = [
        f"A simulated table has {n_items} items × {len(like.models)} images × {per_image} facts "
        f"and {len(like.judges)} judges. Judges' rates are those of the studied table (from its "
        "truth, or where that is not known by Dawid–Skene), and like the prevalence moved at "
        "random by "
        f"{options.spread:g} in log-odds; the correlation of errors is drawn from 0 to "
        f"{options.most_correlation:g}. Of the studied table nothing else is used.",
        "Correlations are tetrachoric: of the normal variables behind the errors, given the truth. "
        "The effective number of judges is n / (1 + (n − 1)·r) with Pearson's r of the errors.",
        "Intervals of estimates are percentiles of "
        f"{options.resamples} resamples of items; those in the table are over simulated tables.",
        "Rogan–Gladen corrects each judge's share of yes by rates from another table of the same "
        "size with labels.",
    ]
    if found["correlation.unlabelled"].undefined == 1.0:
        notes.append(
            "Without labels no correlation of errors can be told with fewer than four judges: the "
            "model of three has as many parameters as there are things to count."
        )
    if found["sensitivity.families"].undefined == 1.0:
        notes.append(
            "The model of families (a latent class model with a random effect of each family; Qu, "
            "Tan & Kutner, 1996) needs four judges, two of them of one family."
        )
    return tuple(notes)

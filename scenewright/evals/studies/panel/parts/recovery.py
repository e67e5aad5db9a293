"""Does each estimator find what was put in: simulated tables like the one that is studied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import expit
from scenewright.agents.panel.rates import COLDEST, HOTTEST
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.presentation import plain, report, side
from scenewright.evals.studies.panel.recovering import (
    ESTIMATORS,
    Recovered,
    Recovery,
    recovered,
    recovery,
    spec_like,
)
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_LEAST_RATE, _MOST_RATE = 0.05, 0.97
_WAYS = ("with labels", "without labels: Dawid–Skene", "without labels: model of families")
_PARTS = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "correlation": "error correlation",
    "temperature": "temperature",
    "ece": "calibration error (ECE)",
    "prevalence": "prevalence",
}
_CORRELATIONS = {
    "correlation.labelled": "Error correlations from labels",
    "correlation.unlabelled": "Error correlations without labels, from excess agreement,",
    "correlation.families": "Error correlations within families by the model of families",
}
Found = Mapping[str, Recovery]
"""Estimator → how well it did."""


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
    """Simulate tables, estimate what was put in, and compare."""
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
    """Return specs like ``like``: judges a bit better or worse, errors more or less correlated."""
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


def result_of(
    rows: Sequence[Recovered], like: SimulationSpec, options: RecoveryOptions, seed: int
) -> PanelStudyResult:
    """Return tables, plots and sentences of the estimates ``rows``."""
    found = {
        name: one
        for name in ESTIMATORS
        if (one := recovery([row for row in rows if row.estimator == name], seed)) is not None
    }
    each: list[dict[str, Any]] = [
        {"estimator": name, "undefined": one.undefined, "bias": one.bias, "rmse": one.rmse,
         "coverage": one.coverage, "width": one.width, "_title": ESTIMATORS[name],
         "_undefined": Estimate(value=one.undefined, n=options.simulations)}
        for name, one in found.items()
    ]  # fmt: skip
    for row in each:
        for of in ("bias", "rmse", "coverage", "width"):
            told = {**row[of].model_dump(), "n": options.simulations}
            row[f"_{of}"] = (
                Estimate(reason="undefined on this table") if row[of].value is None
                else Estimate(**told)
            )  # fmt: skip
    return report(
        "recovery",
        _values(found, rows, like, options) | {"estimators": each},
        plots={
            "recovered": partial(_draw_estimates, rows),
            "coverage": partial(_draw_coverage, found),
            "errors_by_correlation": partial(_draw_errors, rows),
        },
        records_of={
            "estimates": [asdict(row) for row in rows],
            "estimators": each,
            "judges": [judge.model_dump(exclude={"kinds"}) for judge in like.judges],
        },
    )  # fmt: skip


def _values(
    found: Found, rows: Sequence[Recovered], like: SimulationSpec, options: RecoveryOptions
) -> dict[str, Any]:
    """Return the values of the sentences."""
    middle = _middle(rows)
    weak, strong = (
        recovery(
            [
                row
                for row in rows
                if row.estimator in ("sensitivity.dawid_skene", "specificity.dawid_skene")
                and (row.correlation >= middle) == upper
            ]
        )
        for upper in (False, True)
    )
    rates = ("sensitivity", "specificity")
    return {
        "rates": [
            (
                what,
                found[f"{what}.labelled"].rmse,
                found[f"{what}.dawid_skene"].rmse,
                _direction(found[f"{what}.dawid_skene"].bias),
            )
            for what in rates
            if None
            not in (found[f"{what}.labelled"].rmse.value, found[f"{what}.dawid_skene"].rmse.value)
        ],
        "weak": weak and weak.bias,
        "strong": strong and strong.bias,
        "middle": middle,
        "families": [found[f"{what}.families"].rmse for what in rates],
        "correlations": [
            (words, found[name].rmse, _direction(found[name].bias), found[name].coverage)
            for name, words in _CORRELATIONS.items()
            if name in found and found[name].rmse.value is not None
        ],
        "short": [
            f"{ESTIMATORS[name]} {plain(one.coverage, 2)}"
            for name, one in found.items()
            if one.coverage.high is not None and one.coverage.high < 0.95
        ],
        "simulations": options.simulations,
        "items": min(like.n_items, options.most_items),
        "models": len(like.models),
        "facts": like.objects + like.attributes + like.relations,
        "judges": len(like.judges),
        "spread": f"{options.spread:g}",
        "most_correlation": f"{options.most_correlation:g}",
        "resamples": options.resamples,
        "undefined": {name: one.undefined == 1.0 for name, one in found.items()},
    }


def _direction(bias: Figure) -> str:
    """Say in which direction an estimator errs, if its interval excludes 0."""
    if bias.value is None or bias.low is None or bias.high is None:
        return f"{plain(bias)} off"
    if side(bias) < 0:
        low = Figure(value=-bias.value, low=-bias.high, high=-bias.low)
        return f"{plain(low)} too low"
    return (
        f"{plain(bias)} too high"
        if side(bias)
        else (f"neither clearly too high nor too low ({plain(bias)})")
    )


def _middle(rows: Sequence[Recovered]) -> float:
    """Return the median over simulated tables of the mean correlation that was put in."""
    each = {row.simulation: row.correlation for row in rows}
    return float(np.median(list(each.values())))


def _way(estimator: str) -> int:
    """Return the number of an estimator's way in :data:`_WAYS`."""
    way = estimator.partition(".")[2]
    return {"dawid_skene": 1, "unlabelled": 1, "families": 2}.get(way, 0)


def _draw_estimates(rows: Sequence[Recovered]) -> Plot:
    """Every estimate against its truth."""
    made, axes = plots.panes(3, (9.0, 6.4), 2)
    for axis, (part, title) in zip(axes, _PARTS.items(), strict=True):
        ends: list[float] = []
        for name in (name for name in ESTIMATORS if name.startswith(f"{part}.")):
            points = [
                (row.truth, row.estimate)
                for row in rows
                if row.estimator == name and not np.isnan(row.estimate)
            ]
            if points:
                plots.scatter(axis, _way(name), _WAYS[_way(name)], points, s=12, alpha=0.55)
            ends += [value for point in points for value in point]
        if ends:
            whole = [min(ends), max(ends)]
            axis.plot(whole, whole, color=plots.INK, linewidth=0.9, linestyle="--")
        axis.set(xlabel="put in", ylabel="estimated", title=title)
    return plots.legend(made, axes[0])


def _draw_coverage(found: Found) -> Plot:
    """Share of each estimator's intervals that hold."""
    kept = {name: one for name, one in found.items() if one.coverage.value is not None}
    return plots.bar_chart(
        [ESTIMATORS[name] for name in kept],
        {"coverage": [one.coverage for one in kept.values()]},
        x="95 % intervals that hold the truth, %",
        factor=100.0,
        limits=(0.0, 100.0),
        lines=[("95 %", 95.0)],
    )


def _draw_errors(rows: Sequence[Recovered]) -> Plot:
    """Errors of rates by the correlation of errors that was put in."""
    made, axes = plots.panes(2, (8.5, 3.8))
    for axis, part in zip(axes, ("sensitivity", "specificity"), strict=True):
        for way in ("labelled", "dawid_skene", "families"):
            points = _by_simulation(rows, f"{part}.{way}")
            if points:
                at = _way(f"{part}.{way}")
                plots.scatter(axis, at, _WAYS[at], points)
        axis.axhline(0.0, color=plots.INK, linewidth=0.9, linestyle="--")
        x, y = "mean error correlation put in", "mean of estimate − truth"
        axis.set(xlabel=x, ylabel=y, title=part)
    return plots.legend(made, axes[0])


def _by_simulation(rows: Sequence[Recovered], estimator: str) -> list[tuple[float, float]]:
    """(correlation put in, mean error of its judges) of each simulated table."""
    errors: dict[tuple[int, float], list[float]] = {}
    for row in rows:
        if row.estimator == estimator and not np.isnan(row.estimate):
            errors.setdefault((row.simulation, row.correlation), []).append(
                row.estimate - row.truth
            )
    return [(correlation, float(np.mean(each))) for (_, correlation), each in errors.items()]

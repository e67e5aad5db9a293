"""What the estimators of panel studies find of what was put in, and what aggregators withstand.

``python -m benchmarks.panel_study [--quick]``. Panels of six simulated judges in two families
answer 600 images of 150 prompts; rates, prevalence and temperatures are drawn anew for each table,
and the errors within a family are correlated by 0, 0.3 or 0.6 (tetrachoric, given the truth), a
third of the tables each.

``recovery_error.X`` is the root mean squared error of estimate against truth: ``sensitivity``,
``specificity`` and ``correlation`` from labels, the same with ``dawid_skene_`` (and
``unlabelled_correlation``) without any, and with ``families_`` without labels by the model in which
families share errors; ``bias.X`` the mean error and ``coverage.X`` the share of
95 % intervals that hold the truth. ``correlated_30.…`` are rates and correlations of the tables
with a correlation of 0.3 alone.
Intervals are by bootstrap over tables.

``breakdown.AGGREGATOR`` is the smallest share of judges at which half of an aggregator's worth is
gone (:mod:`scenewright.evals.studies.panel.attacks`) when they say the opposite of the truth, in a
panel of nine independent simulated judges; ``breakdown_yes`` and ``breakdown_random`` likewise when
they always say yes or throw a coin. One that did not break has no figure. What learns from truth
learns from another table of the honest judges. ``dsg.breakdown…`` are the three judges of the DSG
release, enlarged to nine by clones, where worth is the rank correlation with people (left out
without ``../shared/data/dsg``). An upper end of 1 can mean that it did not break in some resamples.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._harness import DATA, Progress, benchmark, figure, prefixed, progress
from benchmarks._recovery import ESTIMATORS, Recovered, recovered, recovery
from scenewright.agents.panel.aggregation import expit
from scenewright.evals.studies.panel.aggregators.registry import AGGREGATORS
from scenewright.evals.studies.panel.attacks import Attack, AttackKind, breakdown_points
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulations,
)
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.table import AnswerTable

DSG = DATA / "dsg"
CORRELATIONS = (0.0, 0.3, 0.6)
ATTACKS: dict[str, AttackKind] = {
    "breakdown": "adversarial",
    "breakdown_yes": "yes",
    "breakdown_random": "random",
}
BY_CORRELATION = tuple(
    name for name in ESTIMATORS if name.startswith(("sensitivity", "specificity", "correlation"))
)
WAYS = {
    "labelled": "",
    "corrected": "",
    "dawid_skene": "dawid_skene_",
    "unlabelled": "unlabelled_",
    "families": "families_",
}
"""Suffix of an estimator → what stands before its parameter in the figures."""


def panel(seed: int, correlation: float, n_items: int) -> SimulationSpec:
    """Six judges of two families, their rates drawn by chance."""
    rng = np.random.default_rng([seed, 17])

    def rate(middle: float) -> float:
        moved = expit(np.log(middle / (1.0 - middle)) + rng.normal(0.0, 0.5))
        return float(np.clip(moved, 0.55, 0.97))

    judges = tuple(
        SimulatedJudge(
            id=f"{family}{at}",
            family=family,
            correlation=correlation,
            sensitivity=rate(0.88),
            specificity=rate(0.75),
            temperature=float(np.exp(rng.normal(0.3, 0.3))),
            unscored=0.02,
        )
        for family in "ab"
        for at in range(3)
    )
    models = tuple(
        SimulatedModel(id=name, prevalence=rate(0.8)) for name in ("one", "two", "three", "four")
    )
    return SimulationSpec(judges=judges, models=models, n_items=n_items, seed=seed)


def recovery_figures(
    rows: Sequence[Recovered], estimators: Sequence[str], prefix: str = ""
) -> dict[str, Any]:
    """Return the figures of some estimates."""
    figures: dict[str, Any] = {}
    for estimator in estimators:
        found = recovery([row for row in rows if row.estimator == estimator])
        if found is None:
            continue
        what, _, way = estimator.partition(".")
        name = f"{WAYS[way]}{what}"
        values = {"recovery_error": found.rmse, "bias": found.bias, "coverage": found.coverage}
        for key, value in values.items():
            figures |= prefixed(f"{prefix}{key}.", {name: figure(value)})
    return figures


def recover(tables: int, n_items: int, resamples: int) -> dict[str, Any]:
    """Return ``recovery_error``, ``bias`` and ``coverage``, over all tables and by correlation."""
    specs = [panel(seed, CORRELATIONS[seed % len(CORRELATIONS)], n_items) for seed in range(tables)]
    shown = Progress(len(specs))
    rows = recovered(specs, resamples, lambda done, total: shown.step())
    figures = recovery_figures(rows, tuple(ESTIMATORS))
    for at, correlation in enumerate(CORRELATIONS):
        mine = [row for row in rows if row.simulation % len(CORRELATIONS) == at]
        figures |= recovery_figures(
            mine, BY_CORRELATION, f"correlated_{correlation:.0%}.".replace("%", "")
        )
    return figures


def breakdowns(
    table: AnswerTable, learn: AnswerTable | None, names: Sequence[str], repeats: int
) -> dict[str, Any]:
    """Return ``breakdown.AGGREGATOR`` and its relatives."""
    figures: dict[str, Any] = {}
    for key, kind in progress(ATTACKS.items()):
        found = breakdown_points(
            table, names, Attack(kind=kind), learn=learn, judges=9, repeats=repeats
        )
        for name, each in found.items():
            if each.share is not None:
                figures[f"{key}.{name}"] = {
                    "mean": each.share,
                    "low": each.share if each.low is None else each.low,
                    "high": 1.0 if each.high is None else each.high,
                }
    return figures


def honest(seed: int, n_items: int) -> tuple[AnswerTable, AnswerTable]:
    """Nine independent judges, and another table of them to learn from."""
    rng = np.random.default_rng([seed, 23])
    judges = tuple(
        SimulatedJudge(
            id=f"j{at}",
            sensitivity=float(rng.uniform(0.75, 0.95)),
            specificity=float(rng.uniform(0.6, 0.9)),
        )
        for at in range(9)
    )
    models = (SimulatedModel(id="one", prevalence=0.6), SimulatedModel(id="two", prevalence=0.85))
    spec = SimulationSpec(judges=judges, models=models, n_items=n_items, seed=seed)
    table, learn = simulations(spec, 2)
    return table, learn


@benchmark("few tables")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure estimators and aggregators."""
    quick = options.quick
    tables, n_items, resamples = (12, 60, 100) if quick else (90, 150, 300)
    figures = recover(tables, n_items, resamples)
    names = ("mean", "median", "majority", "dawid_skene") if quick else tuple(AGGREGATORS)
    figures |= breakdowns(*honest(3, 40 if quick else 100), names, 1 if quick else 4)
    if not quick and DSG.exists():
        figures |= prefixed("dsg.", breakdowns(load_dsg_release(DSG), None, names, 4))
    return tables, figures


if __name__ == "__main__":
    main()

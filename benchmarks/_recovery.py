"""Check the estimators of panel studies on simulated tables, with their truths beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import numpy as np
from scipy.special import ndtri

from benchmarks._estimators import (
    both_below,
    calibration_errors,
    corrected_prevalence,
    effective_judges,
    error_correlations,
    error_phi,
    excess_correlations,
    family_rates,
    labelled_rates,
    latent_rates,
    temperatures,
    weights_of,
    within_families,
)
from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import LEVEL, Bootstrap, Figure
from scenewright.evals.studies.panel.simulator import (
    SceneKind,
    SimulatedJudge,
    SimulationSpec,
    VoteRates,
    confidences,
    expected_prevalence,
    simulations,
    stated,
)
from scenewright.evals.studies.panel.table import AnswerTable

ESTIMATORS: Mapping[str, str] = {
    "sensitivity.labelled": "sensitivity, from labels",
    "specificity.labelled": "specificity, from labels",
    "sensitivity.dawid_skene": "sensitivity, by Dawid–Skene",
    "specificity.dawid_skene": "specificity, by Dawid–Skene",
    "sensitivity.families": "sensitivity, by the model of families",
    "specificity.families": "specificity, by the model of families",
    "correlation.labelled": "error correlation, from labels",
    "correlation.unlabelled": "error correlation, without labels",
    "correlation.families": "error correlation within families, by the model of families",
    "temperature.labelled": "temperature, from labels",
    "ece.labelled": "calibration error (ECE), from labels",
    "prevalence.corrected": "prevalence, corrected (Rogan–Gladen)",
    "prevalence.dawid_skene": "prevalence, by Dawid–Skene",
    "prevalence.families": "prevalence, by the model of families",
    "effective.labelled": "effective number of judges, from labels",
}
"""Estimator → in words; before the point is what it estimates."""


_RANKS = 2001
"""Votes of one kind whose probabilities are worked out."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """One estimate beside its truth."""

    simulation: int
    """Number of the simulated table."""
    estimator: str
    """As in :data:`ESTIMATORS`."""
    of: str
    """Judge, or pair of judges with ``+`` between; empty where it is of the whole panel."""
    truth: float
    """What was put in."""
    estimate: float
    """What came out; NaN where it is undefined."""
    low: float
    """Lower end of the 95 % interval (bootstrap over items); NaN without one."""
    high: float
    """Upper end."""
    correlation: float
    """Mean error correlation of all pairs of the panel that was put in; NaN with one judge."""

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


def recovered(
    specs: Sequence[SimulationSpec],
    resamples: int,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> list[Recovered]:
    """Every estimator on a table of each of ``specs``, with ``resamples`` behind each interval.

    Rates for the corrected prevalence are measured on another table of the same spec.
    """
    found: list[Recovered] = []
    for number, spec in enumerate(specs):
        found += _of_one(number, spec, resamples)
        told(number + 1, len(specs))
    return found


@dataclass(frozen=True, slots=True)
class Recovery:
    """How well an estimator finds its truth, with intervals over simulated tables."""

    bias: Figure
    """Mean of estimate − truth."""
    rmse: Figure
    """Root of the mean squared error."""
    coverage: Figure
    """Share of 95 % intervals that hold the truth."""
    width: Figure
    """Mean width of the intervals."""
    undefined: float
    """Share of estimates that are NaN, and are in none of the others."""


def recovery(rows: Sequence[Recovered], seed: int = 0) -> Recovery | None:
    """Of the estimates ``rows`` of one estimator; None if there are none."""
    if not rows:
        return None
    known = [row for row in rows if not np.isnan(row.estimate)]
    undefined = 1.0 - len(known) / len(rows)
    if not known:
        none = Figure(value=None)
        return Recovery(none, none, none, none, undefined)
    numbers = {number: at for at, number in enumerate(sorted({row.simulation for row in known}))}
    at = np.array([numbers[row.simulation] for row in known])
    error = np.array([row.estimate - row.truth for row in known])
    bounded = [row for row in known if not np.isnan(row.low)]
    where = np.array([numbers[row.simulation] for row in bounded], int)
    bootstrap = Bootstrap(len(numbers), seed)

    def root(sums: Array) -> Array:
        result: Array = np.sqrt(sums[:, 0] / sums[:, 1])
        return result

    return Recovery(
        bias=bootstrap.share(at, error),
        rmse=bootstrap.figure(at, [error**2, np.ones(len(error))], root),
        coverage=bootstrap.share(where, [row.covered for row in bounded]),
        width=bootstrap.share(where, [row.high - row.low for row in bounded]),
        undefined=undefined,
    )


def _of_one(number: int, spec: SimulationSpec, resamples: int) -> Iterator[Recovered]:
    # Seeds of a spec's tables follow each other: two of them, so that specs stay apart.
    table, other = simulations(spec.model_copy(update={"seed": 2 * spec.seed}), 2)
    truths = truths_of(spec)
    same = [one == other for one, other in combinations(table.families, 2)]
    weights = weights_of(table, resamples, spec.seed)
    drawn = estimates(table, weights, other, weights_of(other, resamples, spec.seed + 1))
    put_in = truths["correlation"]
    mean = float(np.mean(put_in)) if len(put_in) else float("nan")
    for name, values in drawn.items():
        truth = truths[name.partition(".")[0]]
        for at, of in enumerate(_names(name, table)):
            # Between families the model takes it to be 0: that is no estimate.
            apart = name == "correlation.families" and not same[at]
            if np.isnan(truth[at]) or apart:
                continue
            low, high = _interval(values[1:, at])
            value = float(values[0, at])
            yield Recovered(number, name, of, float(truth[at]), value, low, high, mean)


def estimates(
    table: AnswerTable, weights: Array, other: AnswerTable, other_weights: Array
) -> dict[str, Array]:
    """Return the estimates by each estimator, (resamples, judges or pairs or 1).

    ``other`` is a table of the same judges with labels, on which the rates that correct the
    prevalence are measured.
    """
    labelled, latent = labelled_rates(table, weights), latent_rates(table, weights)
    families = family_rates(table, weights)
    pairs = np.triu_indices(len(table.judges), 1)
    every = {
        "sensitivity.labelled": labelled.sensitivity,
        "specificity.labelled": labelled.specificity,
        "sensitivity.dawid_skene": latent.sensitivity,
        "specificity.dawid_skene": latent.specificity,
        "sensitivity.families": families.sensitivity,
        "specificity.families": families.specificity,
        "correlation.families": within_families(table, families.correlation)[:, *pairs],
        "prevalence.families": families.prevalence[:, None],
        "correlation.labelled": error_correlations(table, weights)[:, *pairs],
        "correlation.unlabelled": excess_correlations(table, weights, latent)[:, *pairs],
        "temperature.labelled": temperatures(table, weights),
        "ece.labelled": calibration_errors(table, weights),
        "prevalence.corrected": corrected_prevalence(
            table, weights, labelled_rates(other, other_weights)
        ),
        "prevalence.dawid_skene": latent.prevalence[:, None],
        "effective.labelled": effective_judges(error_phi(table, weights))[:, None],
    }
    return {name: every[name] for name in ESTIMATORS}


def truths_of(spec: SimulationSpec) -> dict[str, Array]:
    """Return the long-run value of each estimated quantity in the simulation.

    One a judge, a pair or the panel. Judges must have the same rates on facts of all kinds.

    A judge has no temperature (NaN) if it gives bare votes, or if its votes of one side are more
    often wrong than right: no temperature makes such probabilities honest.
    """
    prevalence = expected_prevalence(spec)
    sizes = {"object": spec.objects, "attribute": spec.attributes, "relation": spec.relations}
    total = sum(sizes.values())
    share = sum(sizes[kind] * held for kind, held in prevalence.items()) / total
    gaps = [
        sum(
            binned_gaps(judge.rates(kind), held, None if judge.votes_only else judge.temperature)
            * sizes[kind]
            / total
            for kind, held in prevalence.items()
        )
        for judge in spec.judges
    ]
    correlation = error_correlation(spec)
    pairs = np.triu_indices(len(spec.judges), 1)
    phi = _phi(spec, share, correlation)
    return {
        "sensitivity": np.array([judge.sensitivity for judge in spec.judges]),
        "specificity": np.array([judge.specificity for judge in spec.judges]),
        "correlation": correlation[pairs],
        "temperature": np.array([_temperature(judge, prevalence) for judge in spec.judges]),
        "ece": np.array([float(np.abs(gap).sum()) for gap in gaps]),
        "prevalence": np.full(len(spec.judges), share),
        "effective": effective_judges(phi[None]),
    }


def binned_gaps(
    rates: VoteRates, prevalence: float, temperature: float | None, bins: int = 10
) -> Array:
    """Return the calibration gap of answers at that temperature in equal bins of probability.

    (bins,): the share of all answers in the bin times how far their mean is above the share that
    holds. ``temperature`` None: bare votes.
    """
    se, sp = rates.sensitivity, rates.specificity
    found = np.zeros(bins)
    ranks = (np.arange(_RANKS) + 0.5) / _RANKS
    for vote, side in zip((1.0, 0.0), confidences(rates, prevalence), strict=True):
        right = prevalence * se if vote else (1.0 - prevalence) * sp
        wrong = (1.0 - prevalence) * (1.0 - sp) if vote else prevalence * (1.0 - se)
        for correct, mass in ((True, right), (False, wrong)):
            sure = side.quantiles(correct, ranks)
            said = np.full(_RANKS, vote) if temperature is None else stated(vote, sure, temperature)
            holds = vote if correct else 1.0 - vote
            at = np.minimum((said * bins).astype(int), bins - 1)
            found += np.bincount(at, said - holds, minlength=bins) * mass / _RANKS
    return found


def error_correlation(spec: SimulationSpec) -> Array:
    """Return the tetrachoric correlation of each two judges' errors given the truth.

    Over all facts, (n_judges, n_judges).
    """
    a = np.array([judge.difficulty_sensitivity for judge in spec.judges]) * np.sqrt(spec.difficulty)
    family = [judge.family or judge.id for judge in spec.judges]
    same = np.array([[one == other for other in family] for one in family])
    rho = np.array([judge.correlation for judge in spec.judges])
    rest = np.sqrt((1.0 - a**2) * rho)
    found: Array = np.outer(a, a) + np.where(same, np.outer(rest, rest), 0.0)
    found[np.diag_indices(len(a))] = 1.0
    return found


def _temperature(judge: SimulatedJudge, prevalence: Mapping[SceneKind, float]) -> float:
    sides = [
        side for kind, held in prevalence.items() for side in confidences(judge.rates(kind), held)
    ]
    told = not judge.votes_only and all(side.honest for side in sides)
    return judge.temperature if told else float("nan")


def _phi(spec: SimulationSpec, share: float, correlation: Array) -> Array:
    """Pearson's correlation of errors that the tetrachoric one means at the judges' rates."""
    shared, spread = np.zeros_like(correlation), np.zeros(len(spec.judges))
    for part, rates in (
        (share, [1.0 - judge.sensitivity for judge in spec.judges]),
        (1.0 - share, [1.0 - judge.specificity for judge in spec.judges]),
    ):
        wrong = np.array(rates)
        cut = ndtri(wrong)
        off = np.where(np.eye(len(wrong)) == 1.0, 0.0, correlation)
        both = both_below(cut[:, None], cut[None, :], off)
        shared += part * (both - np.outer(wrong, wrong))
        spread += part * wrong * (1.0 - wrong)
    result: Array = shared / np.sqrt(np.outer(spread, spread))
    return result


def _names(estimator: str, table: AnswerTable) -> tuple[str, ...]:
    ids = table.judge_ids
    if estimator.startswith("correlation"):
        return tuple(f"{ids[j]}+{ids[k]}" for j, k in combinations(range(len(ids)), 2))
    if estimator in ("prevalence.dawid_skene", "prevalence.families", "effective.labelled"):
        return ("",)
    return ids


def _interval(drawn: Array) -> tuple[float, float]:
    known = drawn[np.isfinite(drawn)]
    if len(known) < 2 or 2 * len(known) < len(drawn):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return float(low), float(high)


KINDS: tuple[SceneKind, ...] = get_args(SceneKind)
_LEAST, _MOST = 0.02, 0.98
"""Rates and prevalences: counts of a few facts tell no more."""

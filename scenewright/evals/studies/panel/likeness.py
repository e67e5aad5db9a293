"""A simulation in the likeness of a table: as many facts, and judges as good as its judges look."""

from __future__ import annotations

from typing import get_args

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.rates import COLDEST, HOTTEST, LEAST_LABELS
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.estimators import (
    error_correlations,
    excess_correlations,
    labelled_rates,
    temperatures,
)
from scenewright.evals.studies.panel.family_model import family_rates, within_families
from scenewright.evals.studies.panel.simulator import (
    SceneKind,
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
)
from scenewright.evals.studies.panel.skene_counts import LatentRates, RatesOf, latent_rates
from scenewright.evals.studies.panel.table import AnswerTable, Mask

KINDS: tuple[SceneKind, ...] = get_args(SceneKind)
_LEAST, _MOST = 0.02, 0.98
"""Rates and prevalences: counts of a few facts tell no more."""
_MOST_CORRELATION = 0.9


def spec_like(table: AnswerTable, seed: int = 0) -> SimulationSpec:
    """A simulation of the table's shape with its judges' rates, correlations and costs.

    Rates, temperatures, correlations and prevalences are measured on the facts of known truth. In a
    table without both kinds of them they are what the votes show: by the model of families where
    there are four judges, two of them of one family, else by Dawid and Skene's; temperatures are 1.
    Correlation between families becomes difficulty of the facts, what there is more within a family
    its correlation. Every image gets the mean number of facts of each kind; facts of the kind
    ``realism`` and human ratings are left out. Raises ``PanelStudyError`` for a table without
    facts, or in which nobody answered.
    """
    if not (~np.isnan(table.votes)).any():
        raise PanelStudyError(f"{table.name} has no answers: there is nothing to simulate")
    ones = np.ones((1, table.n_items))
    labelled = bool((table.truth == 1.0).any() and (table.truth == 0.0).any())
    latent: LatentRates = latent_rates(table, ones)
    found: RatesOf
    if labelled:
        found = labelled_rates(table, ones)
        correlation = error_correlations(table, ones)[0]
        temperature = temperatures(table, ones)[0]
        truth = table.truth
    else:
        families = family_rates(table, ones)
        if np.isnan(families.correlation[0]):
            found = latent
            correlation = excess_correlations(table, ones, latent)[0]
        else:
            found = latent = families
            correlation = within_families(table, families.correlation)[0]
        temperature = np.full(len(table.judges), np.nan)
        truth = _held(table, latent.sensitivity[0], latent.specificity[0], latent.prevalence[0])
    difficulty, of_family = _shared(table.families, correlation)
    asked = np.maximum(table.asked.sum(0), 1)
    answered = (~np.isnan(table.votes)).sum(0)
    mean = {
        name: np.where(table.asked, getattr(table, name), 0.0).sum(0) / asked
        for name in ("seconds", "usd", "tokens")
    }
    graded: Mask = np.any((table.said > 0.0) & (table.said < 1.0), axis=0)
    judges = tuple(
        SimulatedJudge(
            id=judge.id,
            family=judge.family,
            sensitivity=_rate(found.sensitivity[0, at]),
            specificity=_rate(found.specificity[0, at]),
            correlation=of_family[table.families[at]],
            temperature=_or(float(np.clip(temperature[at], COLDEST, HOTTEST)), 1.0),
            votes_only=not graded[at],
            unscored=float(1.0 - answered[at] / asked[at]) if table.asked[:, at].any() else 1.0,
            **{name: float(values[at]) for name, values in mean.items()},
        )
        for at, judge in enumerate(table.judges)
    )
    models = _models(table, truth)
    sizes = _sizes(table)
    return SimulationSpec(
        judges=judges,
        n_items=max(1, round(len(table.images) / len(models))),
        models=models,
        objects=sizes["object"],
        attributes=sizes["attribute"],
        relations=sizes["relation"],
        dependent=any(fact.parents for fact in table.facts),
        difficulty=difficulty,
        seed=seed,
    )


def _held(table: AnswerTable, se: Array, sp: Array, prevalence: float) -> Array:
    """Posterior of each fact by votes of those rates, (n_facts,); NaN where nobody answered."""
    known = ~np.isnan(table.votes)
    se, sp = (np.clip(np.nan_to_num(rate, nan=0.5), _LEAST, _MOST) for rate in (se, sp))
    yes = np.log(se / (1.0 - sp))
    no = np.log((1.0 - se) / sp)
    odds = np.where(known, np.where(table.votes == 1.0, yes, no), 0.0).sum(1)
    odds = odds + np.log(prevalence / (1.0 - prevalence))
    result: Array = np.where(known.any(1), 1.0 / (1.0 + np.exp(-odds)), np.nan)
    return result


def _shared(families: tuple[str, ...], correlation: Array) -> tuple[float, dict[str, float]]:
    """Difficulty of the facts, and family → correlation of its judges' errors beyond it."""
    n = len(families)
    pairs = [(j, k) for j in range(n) for k in range(j + 1, n)]

    def mean(of: list[tuple[int, int]]) -> float:
        values = [correlation[pair] for pair in of if not np.isnan(correlation[pair])]
        return float(np.clip(np.mean(values), 0.0, _MOST_CORRELATION)) if values else 0.0

    between = mean([(j, k) for j, k in pairs if families[j] != families[k]])
    found = {}
    for family in set(families):
        within = mean([(j, k) for j, k in pairs if families[j] == families[k] == family])
        beyond = (within - between) / (1.0 - between)
        found[family] = float(np.clip(beyond, 0.0, _MOST_CORRELATION))
    return between, found


def _models(table: AnswerTable, truth: Array) -> tuple[SimulatedModel, ...]:
    parents_hold = np.array(
        [all(truth[parent] > 0.5 for parent in fact.parents) for fact in table.facts], bool
    )
    told = parents_hold & ~np.isnan(truth)
    of_fact = np.array([table.images[fact.image].model for fact in table.facts])
    names = list(dict.fromkeys(image.model for image in table.images))
    found = []
    for name in names:
        mine = told & (of_fact == name)
        kinds = {
            kind: _rate(truth[rows].mean())
            for kind in KINDS
            if (rows := mine & (table.kinds == kind)).sum() >= LEAST_LABELS
        }
        overall = float(truth[mine].mean() if mine.any() else np.nanmean(truth))
        found.append(SimulatedModel(id=name, prevalence=_rate(overall), kinds=kinds))
    return tuple(found)


def _sizes(table: AnswerTable) -> dict[SceneKind, int]:
    """Kind → facts of it in an image, on average, and one fact at least."""
    with_facts = len(np.unique(table.image_of))
    mean = {kind: float((table.kinds == kind).sum()) / with_facts for kind in KINDS}
    sizes = {kind: round(number) for kind, number in mean.items()}
    if not any(sizes.values()):
        sizes[max(mean, key=mean.__getitem__)] = 1
    return sizes


def _rate(value: float) -> float:
    return float(np.clip(_or(float(value), 0.5), _LEAST, _MOST))


def _or(value: float, other: float) -> float:
    return other if np.isnan(value) else value

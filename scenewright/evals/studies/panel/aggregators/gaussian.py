"""Judges whose errors are correlated: a normal model of their log-odds, given the truth.

Linear discriminant analysis (Fisher, 1936): the judges' log-odds x on a fact are normal with a mean
that depends on the truth and the kind of fact, and with one covariance S. The log-odds that the
fact holds are then prior + d'S⁻¹(x − m) with the difference d and the middle m of the two means: a
judge that only repeats what another says adds nothing. Where answers are missing, d, S and m are
those of the judges who answered, which is exact under the model.

Log-odds are not normal (a bare vote has two values), so the result is scaled by an offset and a
slope (Platt, 1999) on the facts it learnt from. Means of a kind are drawn towards those of all
kinds, and correlations towards 0, by imaginary facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.agents.panel.stacking import log_odds, prior_log_odds, ridge_logistic
from scenewright.evals.studies.panel.aggregators.base import Aggregator, FittedTo, known_truth
from scenewright.evals.studies.panel.aggregators.evidence import CLOSEST, answered, same_judges
from scenewright.evals.studies.panel.table import AnswerTable

_POOLING = 20.0
"""Imaginary facts of each kind at the mean of all kinds, and as many without correlation."""
_LEAST_VARIANCE = 0.01
_LEAST_EIGENVALUE = 0.01
_WEAK = 0.01
"""Penalty of offset and slope, so that separable facts have an answer too."""


@dataclass(frozen=True, slots=True, eq=False)
class JointErrors:
    """What was learnt."""

    prior: float
    """Log-odds (nats) that a fact held, of all that it learnt from."""
    prior_of: dict[str, float]
    """Likewise by kind."""
    means: Array
    """Of log-odds by truth (0, 1), kind and judge, (2, n_kinds + 1, n_judges); the last row is
    that of all kinds."""
    covariance: Array
    """Given the truth, (n_judges, n_judges)."""
    offset: float = 0.0
    """Added to the result."""
    slope: float = 1.0
    """The result is multiplied by it."""

    def score(self, table: AnswerTable) -> Array:
        """d'S⁻¹(x − m) of each fact, (n_facts,); 0 without answers."""
        odds = log_odds(table.said, CLOSEST)
        place = {kind: at for at, kind in enumerate(self.prior_of)}
        kind = np.array([place.get(name, -1) for name in table.kinds.tolist()], np.intp)
        apart = (self.means[1] - self.means[0])[kind]
        middle = (self.means[1] + self.means[0])[kind] / 2.0
        found = np.zeros(len(odds))
        patterns, of_row = np.unique(~np.isnan(odds), axis=0, return_inverse=True)
        for at, pattern in enumerate(patterns):
            if pattern.any():
                rows = of_row.reshape(-1) == at
                some = self.covariance[np.ix_(pattern, pattern)]
                weights = np.linalg.solve(some, apart[rows][:, pattern].T).T
                rest = odds[rows][:, pattern] - middle[rows][:, pattern]
                found[rows] = (weights * rest).sum(1)
        return found

    def priors(self, table: AnswerTable) -> Array:
        """Log-odds that each fact holds before anybody answered, (n_facts,)."""
        return np.array([self.prior_of.get(kind, self.prior) for kind in table.kinds.tolist()])

    def log_odds(self, table: AnswerTable) -> Array:
        """That each fact holds, (n_facts,)."""
        result: Array = self.priors(table) + self.offset + self.slope * self.score(table)
        return result


def fit_joint_errors(learn: AnswerTable) -> JointErrors:
    """From the facts of ``learn`` whose truth is known."""
    known = ~np.isnan(learn.truth) & answered(learn)
    prior, prior_of = prior_log_odds(learn.truth[known], learn.kinds[known].tolist())
    odds = log_odds(learn.said, CLOSEST)
    means = np.zeros((2, len(prior_of) + 1, odds.shape[1]))
    rest = np.full(odds.shape, np.nan)
    for holds in (0, 1):
        mine = known & (learn.truth == holds)
        means[holds, -1] = _mean(odds[mine], np.zeros(odds.shape[1]), 1e-6)
        for at, kind in enumerate(prior_of):
            rows = mine & (learn.kinds == kind)
            means[holds, at] = _mean(odds[rows], means[holds, -1], _POOLING)
            rest[rows] = odds[rows] - means[holds, at]
    plain = JointErrors(prior, prior_of, means, _covariance(rest[known]))
    score = plain.score(learn)[known]
    scale = ridge_logistic(
        np.column_stack([np.ones(len(score)), score]),
        learn.truth[known],
        np.array([_WEAK, _WEAK]),
        np.array([0.0, 1.0]),
        plain.priors(learn)[known],
    )
    return replace(plain, offset=float(scale[0]), slope=float(scale[1]))


def _mean(odds: Array, towards: Array, pull: float) -> Array:
    there = ~np.isnan(odds)
    sums = np.where(there, odds, 0.0).sum(0)
    result: Array = (sums + pull * towards) / (there.sum(0) + pull)
    return result


def _covariance(rest: Array) -> Array:
    """Of residuals (n_facts, n_judges), NaN where missing: each pair by what both answered."""
    there = (~np.isnan(rest)).astype(float)
    apart = np.nan_to_num(rest)
    n = there.T @ there
    square = (apart**2).T @ there
    scale = np.sqrt(square * square.T)
    correlation = np.where(scale > 0.0, apart.T @ apart / np.where(scale > 0.0, scale, 1.0), 0.0)
    correlation *= n / (n + _POOLING)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    # Correlations of different pairs of facts need not fit together.
    mended = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    variance = np.diag(square) / np.maximum(np.diag(n), 1.0)
    spread = np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
    result: Array = mended * np.outer(spread, spread)
    return result


@dataclass(frozen=True, slots=True)
class _Correlated:
    name: str = "correlated"
    fitted_to: FittedTo = "truth"

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """With means and covariance from ``learn``."""
        model = fit_joint_errors(same_judges(table, known_truth(learn, self.name), self.name))
        result: Array = np.where(answered(table), expit(model.log_odds(table)), np.nan)
        return result


def correlated() -> Aggregator:
    """Linear discriminant analysis of the judges' log-odds."""
    return _Correlated()

"""Error rates and correlations without labels, where it is known who belongs to one family.

The latent class model with a random effect of Qu, Tan & Kutner (1996), the effect shared by the
judges of a family. Given the truth t, judge j of family f errs with probability
``Φ((h_jt + √r·u_f) / √(1 − r))``, where u_f is standard normal, so its error rate is Φ(h_jt) and
the errors of two judges of a family have the tetrachoric correlation r. Families err independently.
Dawid and Skene's model is r = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr, ndtri

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.evals.studies.panel.skene_counts import LatentRates, latent_rates, vote_patterns
from scenewright.evals.studies.panel.table import AnswerTable, Mask

LEAST_JUDGES = 4
"""Judges that the model needs: with three its parameters outnumber what can be counted."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
_FARTHEST = 3.2
"""Of a threshold: rates below 0.0007 cannot be told apart."""
_MOST_ROOT = 0.98
_STEP = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class FamilyRates(LatentRates):
    """What the model says, one row a resample."""

    correlation: Array
    """Tetrachoric correlation of errors within families, (resamples,); NaN where it cannot be
    told."""


def within_families(table: AnswerTable, correlation: Array) -> Array:
    """Correlation of the errors of each two judges, (resamples, n_judges, n_judges), of that within
    families (resamples,): 0 between them, 1 on the diagonal."""
    same = np.array([[one == other for other in table.families] for one in table.families])
    found: Array = np.where(same, correlation[:, None, None], 0.0)
    # Where the model cannot be had nothing is known between families either.
    found[np.isnan(correlation)] = np.nan
    found[:, range(len(same)), range(len(same))] = 1.0
    return found


def family_rates(table: AnswerTable, weights: Array) -> FamilyRates:
    """Maximum likelihood from the votes, for each row of ``weights`` (resamples, n_items); one
    correlation for all families of two judges or more.

    Rows after the first are one step of Newton's method from the first row's solution (the one-step
    bootstrap). All NaN with fewer than :data:`LEAST_JUDGES` judges, without a family of two, or
    where nobody voted.
    """
    families = [
        [at for at, name in enumerate(table.families) if name == family]
        for family in dict.fromkeys(table.families)
    ]
    n_judges, n = len(table.judges), len(weights)
    patterns, per_item = vote_patterns(table)
    if n_judges < LEAST_JUDGES or max(map(len, families)) < 2 or not len(patterns):
        unknown = np.full((n, n_judges), np.nan)
        return FamilyRates(unknown, unknown.copy(), unknown[:, 0].copy(), unknown[:, 0].copy())
    model = _Model(patterns, families)

    # The first row alone decides where the others start.
    counts = weights[0] @ per_item
    start = model.start(latent_rates(table, weights[:1]))
    found = minimize(
        lambda at: model.loss(at, counts),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=model.bounds,
        options={"maxiter": 500},
    ).x
    drawn = np.tile(found, (n, 1))
    drawn[1:] -= model.steps(found, weights[1:] @ per_item, counts)
    low, high = np.array(model.bounds).T
    drawn = np.clip(drawn, low, high)
    wrong = ndtr(drawn[:, : 2 * n_judges])
    answered: Mask = np.any(~np.isnan(table.votes), axis=0)
    return FamilyRates(
        np.where(answered, 1.0 - wrong[:, :n_judges], np.nan),
        np.where(answered, 1.0 - wrong[:, n_judges:], np.nan),
        expit(drawn[:, -2]),
        drawn[:, -1] ** 2,
    )


class _Model:
    """Likelihood of rows of votes. Parameters: h of every judge on facts that hold, then on facts
    that do not, the log-odds of the prevalence, and √r."""

    def __init__(self, patterns: Array, families: Sequence[Sequence[int]]) -> None:
        self._families = families
        self._n = patterns.shape[1]
        # Among facts that hold a no is wrong, among the others a yes.
        self._wrong = ((patterns == 0.0).astype(float), (patterns == 1.0).astype(float))
        self.bounds = [
            *[(-_FARTHEST, _FARTHEST)] * (2 * self._n),
            (-5.0, 5.0),
            (0.0, _MOST_ROOT),
        ]

    def start(self, rates: LatentRates) -> Array:
        """From Dawid and Skene's rates, a little less sure."""
        wrong = np.concatenate([1.0 - rates.sensitivity[0], 1.0 - rates.specificity[0]])
        h = ndtri(np.clip(np.nan_to_num(wrong, nan=0.5), 0.02, 0.98))
        share = float(np.clip(rates.prevalence[0], 0.02, 0.98))
        return np.array([*h, np.log(share / (1.0 - share)), 0.4])

    def loss(self, at: Array, counts: Array) -> tuple[float, Array]:
        """−log-likelihood a fact, and its slope."""
        value, scores = self._each(at)
        n = counts.sum()
        return -float(counts @ value) / n, -(counts @ scores) / n

    def steps(self, at: Array, resamples: Array, counts: Array) -> Array:
        """What one step of Newton's method takes off the solution, (resamples, n_parameters)."""
        _, scores = self._each(at)
        slopes = np.empty((len(at), len(at)))
        for number in range(len(at)):
            step = np.zeros(len(at))
            step[number] = _STEP
            up, down = (counts @ self._each(at + side * step)[1] for side in (1.0, -1.0))
            slopes[number] = (up - down) / (2.0 * _STEP)
        # What is left at a bound is no error of the solution: steps are from its own slope on.
        gradient = resamples @ scores - (resamples.sum(1) / counts.sum())[:, None] * (
            counts @ scores
        )
        result: Array = gradient @ np.linalg.pinv((slopes + slopes.T) / 2.0, rcond=1e-8)
        return result

    def _each(self, at: Array) -> tuple[Array, Array]:
        """log P(votes) of each pattern (n_patterns,), and its slope (n_patterns, n_parameters)."""
        n, root = self._n, at[-1]
        rest = np.sqrt(1.0 - root**2)
        classes, slopes = [], []
        for holds, wrong, right in (
            (True, self._wrong[0], self._wrong[1]),
            (False, self._wrong[1], self._wrong[0]),
        ):
            h = at[:n] if holds else at[n : 2 * n]
            total = np.zeros(len(wrong))
            slope = np.zeros((len(wrong), len(at)))
            for members in self._families:
                shared = len(members) > 1
                u = _NODES if shared else np.zeros(1)
                scale, load = (rest, root) if shared else (1.0, 0.0)
                z = (h[members][None, :] + load * u[:, None]) / scale
                up, down = log_ndtr(z), log_ndtr(-z)
                bad, good = wrong[:, members], right[:, members]
                each = bad @ up.T + good @ down.T + (_LOG_WEIGHTS if shared else 0.0)
                most = each.max(1, keepdims=True)
                parts = np.exp(each - most)
                whole = parts.sum(1, keepdims=True)
                value, posterior = (most + np.log(whole))[:, 0], parts / whole
                total += value
                log_height = -(z**2) / 2.0 - np.log(2.0 * np.pi) / 2.0
                rise, fall = np.exp(log_height - up), np.exp(log_height - down)
                pull = bad * (posterior @ rise) - good * (posterior @ fall)
                slope[:, (0 if holds else n) + np.array(members)] = pull / scale
                if shared:
                    # Of z in √r.
                    by_root = u[:, None] / rest + z * root / rest**2
                    slope[:, -1] += (
                        bad * (posterior @ (rise * by_root)) - good * (posterior @ (fall * by_root))
                    ).sum(1)
            classes.append(total)
            slopes.append(slope)
        share = expit(at[-2])
        joint = np.log(share) + classes[0], np.log1p(-share) + classes[1]
        value = np.logaddexp(*joint)
        held, absent = (np.exp(part - value)[:, None] for part in joint)
        result = held * slopes[0] + absent * slopes[1]
        result[:, -2] = held[:, 0] - share
        return value, result

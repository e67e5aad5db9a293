"""Fit aggregators to truth or to human ratings.

**Stacking** (:mod:`scenewright.agents.panel.stacking`) is fitted to truth as ``aggregation =
"stacked"`` of a run, but for the prevalence: a run takes facts that hold and facts that do not as
equally likely beforehand; here each kind's is that of the facts learnt from.

**Weights of the judges** are fitted to human ratings of images. An image's score is the mean over
its facts of a weighted mean of the judges' probabilities, so that the image's rating is regressed
on the means over its facts of what each judge said, and, in ``rated_questions``, of what the judges
say of the same question about the item's other images. Weights are not negative, and are drawn
towards equal ones by a penalty that cross-validation over items chooses. They are then made to sum
to 1, so that the result is a mean of probabilities and orders images as the regression does.

An image's rating is not the share of its facts that hold: what comes out is not calibrated.

**Linear discriminant analysis** (Fisher, 1936) is for judges whose errors are correlated: the
judges' log-odds x on a fact are normal with a mean that depends on the truth and the kind of fact,
and with one covariance S. The log-odds that the fact holds are then prior + d'S⁻¹(x − m) with the
difference d and the middle m of the two means: a judge that only repeats what another says adds
nothing. Where answers are missing, d, S and m are those of the judges who answered, which is exact
under the model.

Log-odds are not normal (a bare vote has two values), so the result is scaled by an offset and a
slope (Platt, 1999) on the facts it learnt from. Means of a kind are drawn towards those of all
kinds, and correlations towards 0, by imaginary facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from scenewright.agents.panel.aggregation import Array, expit, log_odds, mean_probability
from scenewright.agents.panel.stacking import PanelStack, fit_stack, prior_log_odds, ridge_logistic
from scenewright.evals.studies.panel.aggregators.base import (
    CLOSEST,
    Aggregator,
    answered,
    folds_of,
    known_truth,
    mean_of_others,
    questions_of,
    same_judges,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places


def _stacked(table: AnswerTable, learn: AnswerTable | None) -> Array:
    """With scales and weights from ``learn``."""
    stack = stack_of(same_judges(table, known_truth(learn, "stacked"), "stacked"))
    kinds = table.kinds.tolist()
    evidence = stack.evidence(table.said, kinds, table.judge_ids)
    odds = stack.priors(kinds) + stack.intercept + np.nan_to_num(evidence).sum(1)
    result: Array = np.where(answered(table), expit(odds), np.nan)
    return result


def stack_of(learn: AnswerTable) -> PanelStack:
    """Fit the stack on the facts of ``learn`` whose truth is known."""
    known = ~np.isnan(learn.truth)
    try:
        return fit_stack(
            learn.said[known],
            learn.truth[known],
            learn.kinds[known].tolist(),
            learn.judge_ids,
            learn.item_of[known],
        )
    except ValueError as error:
        raise PanelStudyError(f"nothing can be learnt from {learn.name}: {error}") from error


_PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Tried, as multiples of the features' total variance."""
_FOLDS = 5
_FEWEST = 10
"""Rated items that fitting needs."""


@dataclass(frozen=True, slots=True)
class Rated:
    """Weighted mean of the judges, and maybe of the same question elsewhere."""

    name: str
    """As in tables."""
    questions: bool
    """Whether the item's other images count too."""

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """By weights from the ratings of ``learn``."""
        known = known_ratings(learn, self.name)
        weights = self.weights(same_judges(table, known, self.name))
        result: Array = self.features(table) @ weights
        return result

    def weights(self, learn: AnswerTable) -> Array:
        """One a feature, summing to 1."""
        features = self.features(learn)
        images = np.column_stack([learn.image_means(column) for column in features.T])
        there = ~np.isnan(learn.ratings) & ~np.isnan(images).any(1)
        x, y, folds = images[there], learn.ratings[there], folds_of(learn, _FOLDS)[there]
        losses = {penalty: _held_out_loss(x, y, folds, penalty) for penalty in _PENALTIES}
        best = min(reversed(_PENALTIES), key=losses.__getitem__)
        found = _fitted(x, y, best)
        total = float(found.sum())
        # Ratings that fall where judges say yes leave nothing to weigh.
        if total <= 0.0:
            return np.full(len(found), 1.0 / len(found))
        return found / total

    def features(self, table: AnswerTable) -> Array:
        """Return the figures of each fact, (n_facts, n_features).

        The judges' probabilities, where one gave none the mean of the others; NaN where nobody
        answered.
        """
        mean = mean_probability(table.said)
        said = np.where(np.isnan(table.said), mean[:, None], table.said)
        if not self.questions:
            return said
        others, _ = mean_of_others(mean, questions_of(table))
        return np.column_stack([said, np.where(np.isnan(others), mean, others)])


def known_ratings(learn: AnswerTable | None, name: str) -> AnswerTable:
    """``learn`` if enough of its items have ratings that differ, else ``PanelStudyError``."""
    if learn is not None:
        rated = ~np.isnan(learn.ratings)
        n = len(set(learn.item_of_image[rated].tolist()))
        if n >= _FEWEST and np.ptp(learn.ratings[rated]) > 0.0:
            return learn
    raise PanelStudyError(
        f"{name} learns from human ratings, of {_FEWEST} items or more, that are not all the same: "
        "give a table that has them, or take mean or agreement"
    )


def _fitted(x: Array, y: Array, penalty: float) -> Array:
    """Non-negative slopes, least squares with a penalty on their distance from equal ones."""
    centred = x - x.mean(0)
    rest = y - y.mean()
    both = centred.sum(1)
    equal = max(0.0, float(both @ rest) / max(float(both @ both), 1e-12))
    strength = np.sqrt(penalty * float((centred**2).sum()) / x.shape[1] + 1e-12)
    rows = np.vstack([centred, strength * np.eye(x.shape[1])])
    target = np.concatenate([rest, np.full(x.shape[1], strength * equal)])
    found: Array = nnls(rows, target)[0]
    return found


def _held_out_loss(x: Array, y: Array, folds: Places, penalty: float) -> float:
    total = 0.0
    for fold in np.unique(folds):
        held = folds == fold
        if held.all():
            continue
        slopes = _fitted(x[~held], y[~held], penalty)
        expected = y[~held].mean() + (x[held] - x[~held].mean(0)) @ slopes
        total += float(((y[held] - expected) ** 2).sum())
    return total


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
        """Return the log-odds that each fact holds, (n_facts,)."""
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


def _correlated(table: AnswerTable, learn: AnswerTable | None) -> Array:
    """With means and covariance from ``learn``."""
    known = known_truth(learn, "correlated")
    model = fit_joint_errors(same_judges(table, known, "correlated"))
    result: Array = np.where(answered(table), expit(model.log_odds(table)), np.nan)
    return result


FITTED = (
    Aggregator("stacked", "truth",
               "calibration by judge and kind (Platt, 1999), then logistic stacking", _stacked),
    Aggregator("correlated", "truth",
               "linear discriminant analysis of the judges' log-odds", _correlated),
    Aggregator("rated", "ratings", "weights of the judges fitted to human ratings",
               Rated("rated", questions=False).combine),
    Aggregator("rated_questions", "ratings",
               "the same with the item's other images as one more voice",
               Rated("rated_questions", questions=True).combine),
)  # fmt: skip

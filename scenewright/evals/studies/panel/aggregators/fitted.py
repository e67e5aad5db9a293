"""Fit aggregators to truth or to human ratings.

**Stacking** (:mod:`scenewright.agents.panel.stacking`) is fitted to truth as ``aggregation =
"stacked"`` of a run, but for the prevalence: a run takes facts that hold and facts that do not as
equally likely beforehand; here each kind's is that of the facts learnt from.

**Weights of the judges** are fitted to human ratings of images. An image's score is the mean over
its facts of a weighted mean of the judges' probabilities, so that the image's rating is regressed
on the means over its facts of what each judge said. Weights are not negative, and are drawn towards
equal ones by a penalty that cross-validation over items chooses. They are then made to sum to 1, so
that the result is a mean of probabilities and orders images as the regression does.

An image's rating is not the share of its facts that hold: what comes out is not calibrated.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from scenewright.agents.panel.aggregation import Array, expit, mean_probability
from scenewright.agents.panel.stacking import PanelStack, fit_stack
from scenewright.evals.studies.panel.aggregators.base import (
    Aggregator,
    answered,
    folds_of,
    known_truth,
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


def _rated(table: AnswerTable, learn: AnswerTable | None) -> Array:
    """By weights from the ratings of ``learn``."""
    known = same_judges(table, known_ratings(learn, "rated"), "rated")
    result: Array = _filled(table) @ rating_weights(known)
    return result


def rating_weights(learn: AnswerTable) -> Array:
    """Return weights of the judges by the ratings of ``learn``, (n_judges,), summing to 1."""
    images = np.column_stack([learn.image_means(column) for column in _filled(learn).T])
    there = ~np.isnan(learn.ratings) & ~np.isnan(images).any(1)
    x, y, folds = images[there], learn.ratings[there], folds_of(learn, _FOLDS)[there]
    losses = {penalty: _held_out_loss(x, y, folds, penalty) for penalty in _PENALTIES}
    found = _fitted(x, y, min(reversed(_PENALTIES), key=losses.__getitem__))
    total = float(found.sum())
    # Ratings that fall where judges say yes leave nothing to weigh.
    if total <= 0.0:
        return np.full(len(found), 1.0 / len(found))
    return found / total


def _filled(table: AnswerTable) -> Array:
    """Return the probabilities, where a judge gave none the mean of the others."""
    return np.where(np.isnan(table.said), mean_probability(table.said)[:, None], table.said)


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


FITTED = (
    Aggregator("stacked", "truth",
               "calibration by judge and kind (Platt, 1999), then logistic stacking", _stacked),
    Aggregator("rated", "ratings", "weights of the judges fitted to human ratings", _rated),
)  # fmt: skip

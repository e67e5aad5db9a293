"""Weights of the judges fitted to human ratings of images.

An image's score is the mean over its facts of a weighted mean of the judges' probabilities, so that
the image's rating is regressed on the means over its facts of what each judge said, and, in
``rated_questions``, of what the judges say of the same question about the item's other images.
Weights are not negative, and are drawn towards equal ones by a penalty that cross-validation over
items chooses. They are then made to sum to 1, so that the result is a mean of probabilities and
orders images as the regression does.

An image's rating is not the share of its facts that hold: what comes out is not calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.evals.studies.panel.aggregators.base import Aggregator, FittedTo
from scenewright.evals.studies.panel.aggregators.crossval import folds_of
from scenewright.evals.studies.panel.aggregators.evidence import (
    mean_of_others,
    questions_of,
    same_judges,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable, Places

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
    fitted_to: FittedTo = "ratings"

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
        """Of each fact, (n_facts, n_features): the judges' probabilities, where one gave none the
        mean of the others; NaN where nobody answered."""
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
        "give a table that has them, or take mean or same_question"
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


def rated() -> Aggregator:
    """Weights of the judges by ratings."""
    return Rated("rated", questions=False)


def rated_questions() -> Aggregator:
    """The same with the item's other images as one more voice."""
    return Rated("rated_questions", questions=True)

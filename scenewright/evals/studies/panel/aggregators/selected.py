"""Choose a way of combining by human ratings: the mean, agreement, fitted weights or one judge.

Each is scored by cross-validation over the rated items (Spearman's correlation of the images'
scores with their mean rating): weights are fitted, and the best judge is found, on the other
items. The default, ``agreement``, is left only for one that gains :data:`LEAST_GAIN` and half of
the gain's own standard error over resamples of items: with few ratings the best of several is the
luckiest one. All rules are weighted means of probabilities, so that the scores of folds with other
rules are on one scale; agreement is that on all answers at hand.

The chosen rule is then fitted to all rated items. Its own quality is that on items that had no
part in the choice: cross-validation of the whole choice
(:func:`~scenewright.evals.studies.panel.aggregators.registry.out_of_fold`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array, weighted_means
from scenewright.agents.panel.agreement import agreement_weights
from scenewright.evals.studies.panel.aggregators.base import (
    Aggregator,
    folds_of,
    same_judges,
)
from scenewright.evals.studies.panel.aggregators.fitted import known_ratings, rating_weights
from scenewright.evals.studies.panel.aggregators.pooling import POOLS
from scenewright.evals.studies.panel.resampling import ItemResamples, RankCorrelation, image_counts
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

NAME = "selected"
DEFAULT, MEAN, WEIGHTS, JUDGE = "agreement", "mean", "rated", "best judge"
CANDIDATES = (DEFAULT, MEAN, WEIGHTS, JUDGE)
_FOLDS = 5
_RESAMPLES = 200
_MARGIN = 0.5
"""Standard errors by which another rule must exceed the default."""
LEAST_GAIN = 0.01
"""Gain in correlation that is worth another rule."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Result of a choice."""

    rule: str
    """One of :data:`CANDIDATES`."""
    judge: str
    """Id of the best judge by the same ratings; it decides alone where ``rule`` says so."""
    scores: dict[str, float]
    """Cross-validated correlation of each rule with the ratings; rules that could not be fitted are
    left out."""


def choose(learn: AnswerTable) -> Chosen:
    """Return the choice by the ratings of ``learn``.

    Raises ``PanelStudyError`` where they are too few.
    """
    known = known_ratings(learn, NAME)
    known = known.of_images(~np.isnan(known.ratings))
    folds = folds_of(known, _FOLDS)
    held_out = {name: np.full(len(known.facts), np.nan) for name in CANDIDATES}
    usable = set(CANDIDATES)
    for fold in np.unique(folds):
        held = folds == fold
        rows = held[known.image_of]
        rest = known.of_images(~held)
        held_out[JUDGE][rows] = _alone(known, _best_judge(rest))[rows]
        try:
            known_ratings(rest, WEIGHTS)
            held_out[WEIGHTS][rows] = weighted_means(known.said, rating_weights(rest))[rows]
        except PanelStudyError:
            usable.discard(WEIGHTS)
    for name in (DEFAULT, MEAN):
        held_out[name] = _combined(name, known)
    counts = image_counts(ItemResamples(known, _RESAMPLES).counts, known.item_of_image)
    rank = RankCorrelation(known.ratings, counts)
    scores, drawn = {}, {}
    for name in CANDIDATES:
        images = known.image_scores(held_out[name])
        if name in usable and np.isfinite(value := rank.value(images)):
            scores[name], drawn[name] = value, rank.drawn(images)
    return Chosen(_leading(scores, drawn), known.judge_ids[_best_judge(known)], scores)


def _leading(scores: dict[str, float], drawn: dict[str, Array]) -> str:
    if DEFAULT not in scores:
        return max(scores, key=scores.__getitem__, default=DEFAULT)
    best, gain = DEFAULT, 0.0
    for name, value in scores.items():
        spread = float(np.nanstd(drawn[name] - drawn[DEFAULT]))
        ahead = value - scores[DEFAULT]
        if ahead > max(gain, LEAST_GAIN, _MARGIN * spread):
            best, gain = name, ahead
    return best


def _best_judge(table: AnswerTable) -> int:
    """Return the column whose scores go best with the ratings."""
    rank = RankCorrelation(table.ratings, np.ones((1, len(table.images))))
    found = [rank.value(table.image_scores(column)) for column in table.said.T]
    return int(np.argmax(np.nan_to_num(found, nan=-1.0)))


def _alone(table: AnswerTable, judge: int) -> Array:
    """Return the answers of one judge; where it gave none, the others' count."""
    return weighted_means(table.said, np.arange(len(table.judges)) == judge)


def _combined(name: str, table: AnswerTable) -> Array:
    return next(one for one in POOLS if one.name == name).combine(table)


def _selected(table: AnswerTable, learn: AnswerTable | None) -> Array:
    known = same_judges(table, known_ratings(learn, NAME), NAME)
    chosen = choose(known)
    if chosen.rule == WEIGHTS:
        return weighted_means(table.said, rating_weights(known))
    if chosen.rule == JUDGE:
        return _alone(table, table.judge_ids.index(chosen.judge))
    return _agreed(table, known) if chosen.rule == DEFAULT else _combined(chosen.rule, table)


def _agreed(table: AnswerTable, known: AnswerTable) -> Array:
    """Return the default on ``table``, its weights from the answers of both."""
    answers = np.vstack([table.said, known.said])
    kinds = [*table.kinds.tolist(), *known.kinds.tolist()]
    return weighted_means(table.said, agreement_weights(answers, kinds))


SELECTED = Aggregator(
    NAME, "ratings", "the best by ratings of mean, agreement, fitted weights and one judge",
    _selected,
)  # fmt: skip

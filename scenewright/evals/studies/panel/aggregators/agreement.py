"""Weigh the judges of a table by their agreement: the default, and two plain ways beside it.

``agreement`` (:mod:`scenewright.agents.panel.agreement`) is what an evaluation does
with the answers to all its pictures; ``squared_agreement`` and ``one_factor`` are without a floor
against collusion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import (
    Array,
    checked_probabilities,
    mid_ranks,
    pooled,
    vote_log_odds,
)
from scenewright.agents.panel.agreement import (
    Agreement,
    centre_by_group,
    correlations,
    fit_agreement,
    one_factor,
    root_mean_square,
)
from scenewright.evals.studies.panel.aggregators.base import Aggregator
from scenewright.evals.studies.panel.table import AnswerTable

_STEPS = 1000


def agreement_of(table: AnswerTable) -> Agreement:
    """Return the weights of the judges of ``table``, by kind of fact where that pays."""
    return fit_agreement(table.said, table.kinds.tolist(), table.families)


def _agreed(table: AnswerTable) -> Array:
    return agreement_of(table).probabilities(table.said, table.kinds.tolist())


def squared_agreement(probabilities: ArrayLike, kinds: Sequence[str] = ()) -> Array:
    """Return plain weights by agreement, (n_judges,), summing to 1.

    Weight: the squared correlation of a judge's scaled log-odds with the weighted mean of the
    others', from equal weights on until it settles. It knows neither copies nor collusion: a clique
    that agrees takes the panel over.
    """
    answers = checked_probabilities(probabilities)
    names = list(kinds) or [""] * len(answers)
    order = sorted(set(names))
    odds = centre_by_group(
        vote_log_odds(answers), np.array([order.index(one) for one in names], np.intp)
    )
    correlation, _ = correlations(odds)
    judges = answers.shape[1]
    weights = np.full(judges, 1.0 / max(1, judges))
    for _ in range(_STEPS):
        before = weights
        rest = np.tile(weights, (judges, 1))
        np.fill_diagonal(rest, 0.0)
        spread = np.sqrt(np.maximum(((rest @ correlation) * rest).sum(1), 1e-12))
        agrees = np.maximum((rest * correlation).sum(1) / spread, 0.0) ** 2
        if not agrees.sum() > 0.0:
            return np.full(judges, 1.0 / max(1, judges))
        weights = (weights + agrees / agrees.sum()) / 2.0
        if np.abs(weights - before).max() < 1e-9:
            break
    scale = root_mean_square(odds)
    raw = np.where(scale > 0.0, weights / np.where(scale > 0.0, scale, 1.0), 0.0)
    result: Array = raw / raw.sum()
    return result


def factor_weights(probabilities: ArrayLike, kinds: Sequence[str] = ()) -> Array:
    """Return plain weights by one factor of the judges' ranks, (n_judges,), summing to 1.

    λ / (1 − λ²) with the loadings of :func:`one_factor` on rank correlations (Spearman) within the
    kinds. Like :func:`squared_agreement` it knows no collusion.
    """
    answers = checked_probabilities(probabilities)
    ranks = np.full(answers.shape, np.nan)
    names = np.array(list(kinds) or [""] * len(answers))
    for kind in np.unique(names):
        rows = names == kind
        ranks[rows] = mid_ranks(answers[rows]) - 0.5
    scale = root_mean_square(
        centre_by_group(vote_log_odds(answers), np.unique(names, return_inverse=True)[1])
    )
    loadings = np.maximum(one_factor(correlations(ranks)[0]), 0.0)
    weights = np.where(scale > 0.0, loadings / (1.0 - loadings**2), 0.0)
    weights = weights / np.where(scale > 0.0, scale, 1.0)
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(len(weights), 1.0 / max(1, len(weights)))


AGREED = (
    Aggregator("agreement", "answers",
               "weights by agreement, with a floor against collusion; the default of evaluations",
               lambda table, _: _agreed(table)),
    Aggregator("squared_agreement", "answers",
               "squared correlation with the weighted rest, iterated",
               lambda t, _: pooled(t.said, "yes_no", squared_agreement(t.said, t.kinds.tolist()))),
    Aggregator("one_factor", "answers", "weights of one factor over ranks (Spearman, 1904)",
               lambda t, _: pooled(t.said, "yes_no", factor_weights(t.said, t.kinds.tolist()))),
)  # fmt: skip

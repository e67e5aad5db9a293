"""Whether two judges err together: the correlation of their errors, within families and between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.metric_evaluator import MetricEvaluator, ratio
from scenewright.evals.studies.panel.table import AnswerTable

Pair = tuple[int, int]


def error_correlations(evaluator: MetricEvaluator) -> dict[Pair, Array]:
    """Correlation of each two judges' wrong votes given the truth, (rows,) a pair of columns.

    φ of the two errors, pooled over facts that hold and facts that do not, as deviations from each
    judge's own error rate there: what error rates make by chance is 0. Facts that both voted on,
    and whose truth is known; NaN where one of the two never erred, or always did.
    """
    table = evaluator.table
    truth = table.truth
    wrong = table.votes != truth[:, None]
    known = ~np.isnan(table.votes) & ~np.isnan(truth)[:, None]
    found: dict[Pair, Array] = {}
    for a, b in combinations(range(len(table.judges)), 2):
        both = known[:, a] & known[:, b]
        covariance, first, second = 0.0, 0.0, 0.0
        for holds in (0.0, 1.0):
            rows = both & (truth == holds)
            mine, other = rows & wrong[:, a], rows & wrong[:, b]
            n, m, o, shared = evaluator.sums([rows, mine, other, mine & other]).T
            size = np.maximum(n, 1.0)
            covariance = covariance + shared - m * o / size
            first, second = first + m - m**2 / size, second + o - o**2 / size
        found[a, b] = ratio(covariance, np.sqrt(first * second))
    return found


def vote_agreements(evaluator: MetricEvaluator) -> dict[Pair, Array]:
    """Cohen's κ of each two judges' votes, (rows,): where the truth is not known. It cannot tell
    judges that are right together from judges that err together."""
    votes = evaluator.table.votes
    found: dict[Pair, Array] = {}
    for a, b in combinations(range(votes.shape[1]), 2):
        both = ~np.isnan(votes[:, a]) & ~np.isnan(votes[:, b])
        yes, other = both & (votes[:, a] == 1.0), both & (votes[:, b] == 1.0)
        n, same, m, o = evaluator.sums([both, both & (yes == other), yes, other]).T
        chance = m * o + (n - m) * (n - o)
        found[a, b] = ratio(n * same - chance, n * n - chance)
    return found


def split_by_family(
    pairs: Mapping[Pair, Array], table: AnswerTable
) -> tuple[Array | None, Array | None]:
    """Mean over the pairs within a family and over those of two families, (rows,); None where
    there is no such pair."""
    families = table.families
    within = [v for (a, b), v in pairs.items() if families[a] == families[b]]
    between = [v for (a, b), v in pairs.items() if families[a] != families[b]]
    return (
        mean_of(within) if within else None,
        mean_of(between) if between else None,
    )


def mean_of(readings: Sequence[Array]) -> Array:
    """Mean of several readings, (rows,), of those that are defined; NaN where none is."""
    stacked = np.stack(readings)
    known = ~np.isnan(stacked)
    return ratio(np.where(known, stacked, 0.0).sum(0), known.sum(0))

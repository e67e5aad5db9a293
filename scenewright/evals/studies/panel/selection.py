"""What picking the best of several pictures by a noisy judge does: the picked one looks better to
whoever picked it than to anyone else (the winner's curse).

``gain`` of a reporter is the expected score of the picked picture minus the mean score of the
candidates. Where a judge picks the best of a random n of m candidates, the picture of rank i (from
the lowest) is picked with probability ``C(i − 1, n − 1) / C(m, n)``; pictures with equal scores
share theirs. So the expectation is exact: nothing is drawn by chance.

If the scores of the picking judge S and of a reporter T are jointly normal, E[T | S] is linear and
the reporter confirms the share ``cov(S, T) / var(S)`` of the gain that S sees, whatever n is
(regression to the mean). :func:`within_slope` is that share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import comb

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.resampling import DECIMALS
from scenewright.evals.studies.panel.table import AnswerTable, Places

LEAST_SLOPE = 0.05
"""A judge below it tells next to nothing, and its scores cannot be brought to another scale."""
Sets = tuple[Places, ...]
"""Numbers of the images of each set of candidates."""


def pick_weights(scores: Array, n: int) -> Array:
    """Probability that each of m candidates (the last axis of ``scores``) is the best of a random
    ``n`` of them; 1 ≤ n ≤ m. Same shape; sums to 1 along the last axis."""
    given = np.round(np.asarray(scores, float), DECIMALS)
    m = given.shape[-1]
    if not 1 <= n <= m:
        raise PanelStudyError(f"the best of {n} out of {m} candidates: use 1 to {m}")
    below = (given[..., None, :] < given[..., :, None]).sum(-1)
    upto = (given[..., None, :] <= given[..., :, None]).sum(-1)
    best_within = comb(np.arange(m + 1), n) / comb(m, n)
    result: Array = (best_within[upto] - best_within[below]) / (upto - below)
    return result


def candidate_sets(table: AnswerTable, scores: Array) -> tuple[Sets, str]:
    """Images among which one can be picked, and what they are in words.

    The rounds of one item and model where there are rounds, else the images of one item. ``scores``
    (n_images, n_judges): images without a score by every judge are no candidates.
    """
    rounds = len({image.round for image in table.images} - {None}) >= 2
    members: dict[tuple[str, ...], list[int]] = {}
    for at, image in enumerate(table.images):
        if not np.isnan(scores[at]).any():
            key = (image.item, image.model) if rounds else (image.item,)
            members.setdefault(key, []).append(at)
    sets = tuple(np.array(found, np.intp) for found in members.values() if len(found) > 1)
    return sets, "rounds of a loop" if rounds else "pictures of one prompt"


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """What each judge's picking gains, as each reporter sees it."""

    gains: Array
    """(n_sets, n_judges, n_reporters): the judge of the second axis picks; NaN where the reporter
    has no score of a candidate."""
    items: Places
    """Number of each set's item, (n_sets,)."""
    judges: int
    """The first so many reporters are the judges themselves, in the order of the second axis."""

    def own(self) -> Array:
        """As the picking judge sees it, (n_sets, n_judges)."""
        at = np.arange(self.judges)
        found: Array = self.gains[:, at, at]
        return found

    def others(self) -> Array:
        """As the mean of the other judges sees it, (n_sets, n_judges)."""
        total = self.gains[:, :, : self.judges].sum(2)
        found: Array = (total - self.own()) / max(1, self.judges - 1)
        return found


def gains_of(table: AnswerTable, sets: Sets, reporters: Array, judges: int, n: int = 0) -> Gains:
    """Gains of picking the best of a random ``n`` of each set (0: of all of it).

    ``reporters``: (n_images, n_reporters) scores, those of the ``judges`` first. Sets of fewer than
    ``n`` candidates are left out.
    """
    kept = [at for at in sets if len(at) >= n]
    found = np.full((len(kept), judges, reporters.shape[1]), np.nan)
    sizes = np.array([len(at) for at in kept], int)
    for m in np.unique(sizes):
        which = np.flatnonzero(sizes == m)
        scores = reporters[np.stack([kept[at] for at in which])]
        weights = pick_weights(np.moveaxis(scores[:, :, :judges], 1, 2), n or int(m))
        found[which] = np.einsum("gjm,gmr->gjr", weights - 1.0 / m, scores)
    items = np.array([table.item_of_image[at[0]] for at in kept], np.intp)
    return Gains(found, items, judges)


def ratio(items: Places, part: Array, whole: Array, bootstrap: Bootstrap) -> Figure:
    """Sum of ``part`` over that of ``whole``, both (n_rows,), over the rows that have both.

    It has no value unless the interval of the mean of ``whole`` lies above 0: the share of nothing
    is no number.
    """
    known = ~np.isnan(part) & ~np.isnan(whole)
    gain = mean_of(items, np.where(known, whole, np.nan), bootstrap)
    if gain.low is None or gain.low <= 0.0:
        return Figure(value=None, n=gain.n)

    def of(sums: Array) -> Array:
        found: Array = np.where(sums[:, 1] > 1e-9, sums[:, 0] / sums[:, 1], np.nan)
        return found

    return bootstrap.figure(items[known], [part[known], whole[known]], of)


def mean_of(items: Places, values: Array, bootstrap: Bootstrap) -> Figure:
    """Mean of ``values`` (n_rows,), NaN left out."""
    known = ~np.isnan(values)
    if not known.any():
        return Figure(value=None)
    return bootstrap.share(items[known], values[known])


def within_slope(
    table: AnswerTable,
    sets: Sets,
    picking: Array,
    reporting: Array,
    bootstrap: Bootstrap,
) -> Figure:
    """Slope of ``reporting`` on ``picking``, both (n_images,), within the sets: the share of a gain
    that is confirmed where scores are jointly normal."""
    covariance, variance, items = [], [], []
    for at in sets:
        x, y = picking[at], reporting[at]
        if np.isnan(x).any() or np.isnan(y).any():
            continue
        covariance.append(float(((x - x.mean()) * (y - y.mean())).sum()))
        variance.append(float(((x - x.mean()) ** 2).sum()))
        items.append(int(table.item_of_image[at[0]]))
    if not items:
        return Figure(value=None)
    return ratio(np.array(items, np.intp), np.array(covariance), np.array(variance), bootstrap)


def judge_scores(table: AnswerTable) -> Array:
    """Score of each image by each judge alone, (n_images, n_judges); NaN without an answer."""
    columns = [table.image_scores(table.said[:, at]) for at in range(len(table.judges))]
    return np.stack(columns, axis=1)


def true_scores(table: AnswerTable) -> Array:
    """Share of each image's facts that hold, (n_images,); NaN unless the truth of all is known."""
    known = table.image_means(np.isnan(table.truth).astype(float))
    shares = table.image_scores(np.where(np.isnan(table.truth), 0.5, table.truth), void=False)
    result: Array = np.where(known == 0.0, shares, np.nan)
    return result


def group_said(table: AnswerTable, columns: Sequence[int]) -> Array:
    """Mean probability of each fact by some judges, (n_facts,)."""
    return mean_probability(table.said[:, list(columns)])


def slopes(table: AnswerTable, said: Array) -> Array:
    """How far each column of ``said`` (n_facts, n_columns) tells facts that hold from those that do
    not: difference of its means over them (Yates' discrimination slope), (n_columns,).

    A score is that much per unit of the true share: scores over slopes are on the scale of the
    truth, and comparable. All 1 where too little truth is known, or a column tells less than
    :data:`LEAST_SLOPE`: then nothing can be brought to one scale.
    """
    sides = []
    for holds in (1.0, 0.0):
        rows = said[table.truth == holds]
        there = ~np.isnan(rows)
        n = there.sum(0)
        sides.append(np.where(n > 0, np.where(there, rows, 0.0).sum(0) / np.maximum(n, 1), np.nan))
    found: Array = sides[0] - sides[1]
    return found if (found >= LEAST_SLOPE).all() else np.ones(said.shape[1])

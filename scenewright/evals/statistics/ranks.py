"""Rank correlations, of values and of all their resamples at once.

A value that was drawn c times counts as c tied values, so its mid-rank follows from sums of counts
along the sorted values: no resample is sorted anew, and every correlation is exactly that of the
resample written out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from scenewright.evals.statistics.estimates import Array

DECIMALS = 9
"""Values this close are ties: means of the same numbers differ in their last bit."""


def spearman(first: ArrayLike, second: ArrayLike, least: int = 2) -> float:
    """Return Spearman's rank correlation of two vectors; ties share their mean rank.

    Pairs with NaN are left out. NaN with fewer than ``least`` of them, or where a side is constant.
    """
    from scipy.stats import rankdata

    return _of_pairs(
        lambda a, b: float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]), first, second, least
    )


def kendall(first: ArrayLike, second: ArrayLike, least: int = 2) -> float:
    """Return Kendall's τ-b (1945), which corrects for ties; NaN as :func:`spearman`."""
    from scipy.stats import kendalltau

    def tau(a: Array, b: Array) -> float:
        # The exact p-value is unused and would take longer than τ; of two values there is no other.
        method = "asymptotic" if len(a) > 2 else "exact"
        return float(kendalltau(a, b, method=method).statistic)

    return _of_pairs(tau, first, second, least)


def _of_pairs(
    by: Callable[[Array, Array], float], first: ArrayLike, second: ArrayLike, least: int
) -> float:
    a, b = (np.round(np.asarray(values, float), DECIMALS) for values in (first, second))
    there = ~(np.isnan(a) | np.isnan(b))
    a, b = a[there], b[there]
    if len(a) < least or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    return by(a, b)


def weighted_ranks(values: Array, counts: Array) -> Array:
    """Mid-ranks (resamples, n) of ``values`` (n,), each standing ``counts`` (resamples, n) times.

    Values closer than :data:`DECIMALS` places are ties. A value counted 0 times has the rank that
    it would have. Raises ``ValueError`` for NaN.
    """
    rounded = np.round(np.asarray(values, float), DECIMALS)
    if np.isnan(rounded).any():
        raise ValueError("values without a number have no rank: leave them out")
    if not len(rounded):
        return np.zeros_like(counts)
    codes = np.unique(rounded, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks: Array = (np.cumsum(sizes, axis=1) - sizes / 2.0 + 0.5)[:, codes]
    return ranks


def weighted_pearson(first: Array, second: Array, counts: Array) -> Array:
    """Return Pearson's correlation of each row, (resamples,).

    Values are (resamples, n) or (n,), ``counts`` (resamples, n). NaN where one of the two is
    constant.
    """
    total = counts.sum(1)
    with np.errstate(all="ignore"):

        def centred(values: Array) -> Array:
            rows: Array = np.broadcast_to(values, counts.shape)
            shifted: Array = rows - ((rows * counts).sum(1) / total)[:, None]
            return shifted

        a, b = centred(first), centred(second)
        squares = (counts * a * a).sum(1) * (counts * b * b).sum(1)
        scale = np.abs(a).max(1, initial=0.0) * np.abs(b).max(1, initial=0.0)
        flat = squares <= (1e-12 * scale * total) ** 2
        found: Array = np.where(flat, np.nan, (counts * a * b).sum(1) / np.sqrt(squares))
    # Rounding may leave a perfect correlation a little above 1.
    return np.clip(found, -1.0, 1.0)

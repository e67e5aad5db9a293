"""Agreement of raters: κ and α with intervals over items.

Values of one item depend on each other, so items are drawn with replacement, with all that was
rated of them (:class:`~scenewright.evals.statistics.figures.Bootstrap`). Each measure is a function
of sums over items.

Everywhere ``values`` is (units, raters) with NaN where a rater did not rate, and ``items`` is
(units,), the number of each unit's item from 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

Level = Literal["nominal", "interval"]
Weights = Literal["same", "quadratic"]
"""``same``: values agree or not; ``quadratic``: by the square of their distance."""
Places = NDArray[np.intp]


def alpha(boot: Bootstrap, items: Places, values: Array, level: Level) -> Figure:
    """Return Krippendorff's α (2011) with its interval.

    ``1 − D_o / D_e``, the disagreement within units over that among all values; two values differ
    by 1 if they are not the same (``nominal``) or by the square of their distance (``interval``).
    ``n`` of the figure counts the units with two ratings or more; others have no influence.
    """
    there = ~np.isnan(values)
    kept = there.sum(1) >= 2
    values, there = values[kept], there[kept]
    m = there.sum(1).astype(np.float64)
    if level == "interval":
        # Taken from the middle, so that the differences of large sums stay exact.
        middle = np.nanmean(values) if len(values) else 0.0
        filled = np.where(there, values - middle, 0.0)
        first, second = filled.sum(1), (filled**2).sum(1)
        within = 2.0 * (m * second - first**2) / (m - 1)

        def far(sums: Array) -> Array:
            inner, n, ones, squares = sums.T
            among = 2.0 * (n * squares - ones**2)
            return _one_minus(inner * (n - 1), np.where(among <= 1e-12 * n * n, np.nan, among))

        return boot.figure(items[kept], [within, m, first, second], far)
    counts = _counts(values)
    within = (m**2 - (counts**2).sum(1)) / (m - 1)

    def other(sums: Array) -> Array:
        inner, n, each = sums[:, 0], sums[:, 1], sums[:, 2:]
        among = n**2 - (each**2).sum(1)
        return _one_minus(inner * (n - 1), np.where(among == 0, np.nan, among))

    return boot.figure(items[kept], [within, m, *counts.T], other)


def fleiss(boot: Bootstrap, items: Places, values: Array) -> Figure:
    """Return Fleiss' κ (1971) of any number of raters over any categories, with its interval.

    Items may have different numbers of ratings; those with fewer than two are left out.
    """
    kept = (~np.isnan(values)).sum(1) >= 2
    counts = _counts(values[kept])
    m = counts.sum(1)
    same = ((counts**2).sum(1) - m) / (m * (m - 1))

    def statistic(sums: Array) -> Array:
        n, alike, ratings, each = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
        return chance_corrected(n, alike, n * ((each / ratings[:, None]) ** 2).sum(1))

    return boot.figure(items[kept], [np.ones(len(m)), same, m, *counts.T], statistic)


def cohen(
    boot: Bootstrap, items: Places, a: ArrayLike, b: ArrayLike, weights: Weights = "same"
) -> Figure:
    """Return Cohen's κ (1960) of two raters over any values, both (units,).

    With ``quadratic`` weights it is the weighted κ (1968) of scores. Units without a rating of both
    are left out.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    both = ~(np.isnan(first) | np.isnan(second))
    first, second, at = first[both], second[both], items[both]
    ones = np.ones(len(first))
    if weights == "quadratic":
        columns = [ones, (first - second) ** 2, first, second, first**2, second**2]

        def apart(sums: Array) -> Array:
            n, square, x, y, xx, yy = sums.T
            among = n * xx + n * yy - 2.0 * x * y
            return _one_minus(n * square, np.where(among <= 1e-12 * n * n, np.nan, among))

        return boot.figure(at, columns, apart)
    codes = np.unique(np.concatenate([first, second]))
    one, two = first[:, None] == codes, second[:, None] == codes
    k = len(codes)

    def statistic(sums: Array) -> Array:
        n, same = sums[:, 0], sums[:, 1]
        return chance_corrected(n, same, (sums[:, 2 : 2 + k] * sums[:, 2 + k :]).sum(1) / n)

    return boot.figure(at, [ones, first == second, *one.T, *two.T], statistic)


def sameness(boot: Bootstrap, items: Places, values: Array) -> Figure:
    """Return the mean share of the pairs of raters of a unit with the same answer."""
    kept = (~np.isnan(values)).sum(1) >= 2
    counts = _counts(values[kept])
    m = counts.sum(1)
    return boot.share(items[kept], ((counts**2).sum(1) - m) / (m * (m - 1)))


def chance_corrected(n: Array, agreed: Array, expected: Array) -> Array:
    """Return κ of counts (resamples,): NaN where chance alone explains all ``n`` units."""
    certain = expected >= n * (1 - 1e-12)
    result: Array = (agreed - expected) / np.where(certain, np.nan, n - expected)
    return result


def _counts(values: Array) -> Array:
    """Return (units, categories): the number of raters for each category."""
    codes = np.unique(values[~np.isnan(values)])
    counts: Array = (values[:, :, None] == codes).sum(1).astype(np.float64)
    return counts


def _one_minus(observed: Array, expected: Array) -> Array:
    result: Array = 1.0 - observed / expected
    return result

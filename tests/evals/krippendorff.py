"""Reference implementation of Krippendorff's α for one table, without intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def krippendorff_alpha(ratings: ArrayLike, level: str = "nominal") -> float:
    """Return Krippendorff's α of all judges (2011, "Computing Krippendorff's Alpha-Reliability").

    ``ratings``: (n_facts, n_judges), any finite numbers, NaN where missing. ``1 − D_o / D_e``,
    the disagreement within facts over that among all values; two values differ by 1 if they
    are not the same (``nominal``) or by the square of their distance (``interval``, for
    probabilities). 1: they agree; 0: chance; below: they oppose each other. A fact with fewer
    than two ratings says nothing of agreement and is left out.

    NaN where α is undefined: no fact with two ratings, or all values are the same.
    """
    array = np.asarray(ratings, np.float64)
    there = ~np.isnan(array)
    paired = there.sum(1) >= 2
    array, there = array[paired], there[paired]
    values = array[there]
    if not len(values) or values.min() == values.max():
        return float("nan")
    sizes = there.sum(1)
    if level == "nominal":
        codes = np.unique(values, return_inverse=True)[1]
        counts = np.zeros((len(array), codes.max() + 1))
        np.add.at(counts, (np.nonzero(there)[0], codes), 1.0)
        within = sizes**2 - (counts**2).sum(1)
        among = len(values) ** 2 - (counts.sum(0) ** 2).sum()
    else:
        # α does not change with the unit; on [0, 1] no square can overflow or vanish.
        largest = np.abs(values).max()
        scaled = np.where(there, array, 0.0) / largest
        low, high = values.min() / largest, values.max() / largest
        scaled = np.where(there, (scaled - low) / (high - low), 0.0)
        centred = np.where(there, scaled - (scaled.sum(1) / sizes)[:, None], 0.0)
        # The sum over all ordered pairs of m values is 2m times that of squares about the mean.
        within = 2.0 * sizes * (centred**2).sum(1)
        among = 2.0 * len(values) ** 2 * scaled[there].var()
    observed = (within / (sizes - 1)).sum() / len(values)
    expected = among / (len(values) * (len(values) - 1))
    return float(1.0 - observed / expected)

"""Many comparisons at once: p-values that account for how many there were.

- :func:`holm`: Holm (1979), *A simple sequentially rejective multiple test procedure*. The chance
  that any true null hypothesis of the family is rejected stays at most the level, whatever the
  dependence between the tests.
- :func:`benjamini_hochberg`: Benjamini & Hochberg (1995), *Controlling the false discovery rate*.
  The expected share of true null hypotheses among the rejected ones stays at most the level, for
  independent or positively dependent tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def holm(p_values: ArrayLike) -> Array:
    """Holm's corrected p-values, in the order of ``p_values`` (m,).

    With p₍₁₎ ≤ … ≤ p₍ₘ₎ the i-th becomes max over j ≤ i of (m − j + 1)·p₍ⱼ₎, at most 1. Raises
    ``ValueError`` for values outside of [0, 1] or not finite.
    """
    p, order = _sorted(p_values)
    m = len(p)
    stepped = np.maximum.accumulate(p * (m - np.arange(m)))
    return _back(stepped, order)


def benjamini_hochberg(p_values: ArrayLike) -> Array:
    """Corrected p-values (also called q-values) of Benjamini and Hochberg, in the given order.

    The i-th smallest of m becomes min over j ≥ i of (m / j)·p₍ⱼ₎, at most 1. Raises
    ``ValueError`` for values outside of [0, 1] or not finite.
    """
    p, order = _sorted(p_values)
    m = len(p)
    scaled = p * (m / np.arange(1, m + 1))
    return _back(np.minimum.accumulate(scaled[::-1])[::-1], order)


def _sorted(p_values: ArrayLike) -> tuple[Array, NDArray[np.intp]]:
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError("p-values are numbers from 0 to 1: correct those that exist")
    order = np.argsort(p, kind="stable")
    return p[order], order


def _back(values: Array, order: NDArray[np.intp]) -> Array:
    result = np.empty_like(values)
    result[order] = np.minimum(values, 1.0)
    return result

"""Correlations of errors by the bivariate normal distribution (tetrachoric correlations).

Pearson (1900): behind each of two yes/no variables lies a normal one that is above a threshold;
their correlation is that at which both are above as often as was counted. Unlike the correlation of
the variables themselves it can take any value whatever their rates are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from scenewright.agents.panel.aggregation import Array

BOUND = 0.99
"""Largest correlation, up or down, that is told: with no joint error at all the equation has no
other solution."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_STEPS = 60
_CLOSE = 1e-10


def both_below(h: ArrayLike, k: ArrayLike, correlation: ArrayLike) -> Array:
    """P(X ≤ h and Y ≤ k) of standard normal X and Y, broadcast; finite h and k, |r| < 1.

    ``Φ(h)·Φ(k)`` plus the integral over t from 0 to arcsin r of
    ``exp(−(h² + k² − 2·h·k·sin t) / (2·cos² t)) / 2π`` (Drezner & Wesolowsky, 1990).
    """
    x, y = np.asarray(h, float), np.asarray(k, float)
    angle = np.arcsin(np.asarray(correlation, float))[..., None]
    t = angle * (_NODES + 1.0) / 2.0
    height = _density(x[..., None], y[..., None], t)
    found: Array = ndtr(x) * ndtr(y) + (height * _WEIGHTS).sum(-1) * angle[..., 0] / 2.0
    return found


def tetrachoric(first: ArrayLike, second: ArrayLike, both: ArrayLike, n: ArrayLike) -> Array:
    """Correlation (...,) behind counts in strata, all (..., strata): ``first`` and ``second`` are
    how often one and the other happened among ``n``, and ``both`` how often both did.

    Every stratum has thresholds of its own, from its counts; the correlation is the one at which
    the expected sum of ``both`` is what was counted. Strata in which one of the two happened never
    or always tell nothing; NaN where there are no others. Within ±0.99.
    """
    one, two, joint, size = (
        np.asarray(a, float) for a in np.broadcast_arrays(first, second, both, n)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q = one / size, two / size
    told = (p > 0.0) & (p < 1.0) & (q > 0.0) & (q < 1.0)
    weight = np.where(told, size, 0.0)
    h, k = ndtri(np.where(told, p, 0.5)), ndtri(np.where(told, q, 0.5))
    wanted = np.where(told, joint, 0.0).sum(-1)
    scale = np.maximum(weight.sum(-1), _CLOSE)
    low = np.full(wanted.shape, -np.arcsin(BOUND))
    high = -low
    angle = np.zeros(wanted.shape)
    for _ in range(_STEPS):
        expected = (weight * both_below(h, k, np.sin(angle)[..., None])).sum(-1)
        gap = (expected - wanted) / scale
        low, high = np.where(gap < 0.0, angle, low), np.where(gap > 0.0, angle, high)
        slope = (weight * _density(h, k, angle[..., None])).sum(-1) / scale
        with np.errstate(invalid="ignore", divide="ignore"):
            step = angle - gap / slope
        # Newton where it stays within what is known, else halving: the sum grows with the angle.
        after = np.where((step > low) & (step < high), step, (low + high) / 2.0)
        moved = float(np.abs(after - angle).max(initial=0.0))
        angle = after
        if moved < _CLOSE:
            break
    result: Array = np.where(told.any(-1), np.sin(angle), np.nan)
    return result


def _density(h: Array, k: Array, angle: Array) -> Array:
    """Slope of :func:`both_below` in the arc sine of the correlation."""
    sine, cosine = np.sin(angle), np.cos(angle)
    power = (h**2 + k**2 - 2.0 * h * k * sine) / (2.0 * cosine**2)
    result: Array = np.exp(-power) / (2.0 * np.pi)
    return result

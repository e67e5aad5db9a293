"""The difference of two ways of drawing, on the same items.

For every item that both have scored there is a difference d. Of n of them:

- **effect**: their mean, and Cohen's d_z = mean / standard deviation with n − 1 (Cohen 1988,
  §2.3.5; Lakens 2013, Eq. 6);
- **interval**: 95 % percentile bootstrap of the mean, items drawn with replacement (Efron &
  Tibshirani 1993, ch. 13);
- **p**: two-sided sign-flip permutation test. If it makes no difference which of the two drew the
  picture, each d could as well have the other sign. With 2ⁿ sign patterns no more than the
  resamples all are taken and p is exact; otherwise patterns are drawn, and p = (b + 1) / (m + 1)
  where b of m are at least as far from 0 as the mean that was seen (Phipson & Smyth 2010): never 0.
  Differences of exactly 0 stay 0 under every pattern and do no harm.

An item is the unit: facts of one picture, and pictures of one item drawn with several seeds, depend
on each other and are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

Array = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
_BLOCK = 4_000_000
"""Numbers held at once while resampling."""
_SLACK = 1e-9
"""Sums of the same numbers in another order differ by rounding: how much still counts as equal,
relative to the largest."""


class Paired(BaseModel):
    """What the differences of one pair say."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n: int = Field(ge=0)
    """Items that both have scored."""
    mean: float | None = None
    """Mean difference; none without items."""
    low: float | None = None
    """Lower end of its 95 % interval; none with fewer than two items."""
    high: float | None = None
    """Upper end."""
    p: float | None = Field(default=None, ge=0.0, le=1.0)
    """Two-sided, before any correction; none with fewer than two items."""
    dz: float | None = None
    """Cohen's d_z; none where all differences are the same."""
    better: int = Field(default=0, ge=0)
    """Items whose difference is above 0."""
    worse: int = Field(default=0, ge=0)
    """Items whose difference is below 0."""


def paired(differences: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """The test of one list of ``differences`` (n_items,); see :func:`paired_many`."""
    return paired_many(np.asarray(differences, np.float64)[:, None], resamples, seed)[0]


def paired_many(
    differences: Array, resamples: int = RESAMPLES, seed: int = 0, flips: int = 0
) -> list[Paired]:
    """One result a column of ``differences`` (n_items, n_pairs), all over the same resamples.

    ``flips`` is the most sign patterns of the test, if more than ``resamples``: a family of m tests
    needs some multiple of m for a corrected p-value to come out small. The same ``seed`` gives the
    same result. Raises ``ValueError`` for values that are not finite
    and for fewer than 100 resamples.
    """
    if resamples < 100:
        raise ValueError(f"resamples is {resamples}: an interval of 95 % needs 100 or more")
    d = np.asarray(differences, np.float64)
    if not np.isfinite(d).all():
        raise ValueError("differences hold NaN or infinity: leave out items without both scores")
    n = len(d)
    if n == 0:
        return [Paired(n=0) for _ in range(d.shape[1])]
    means = d.mean(0)
    better, worse = (d > 0).sum(0), (d < 0).sum(0)
    if n == 1:
        return [
            Paired(n=1, mean=float(m), better=int(b), worse=int(w))
            for m, b, w in zip(means, better, worse, strict=True)
        ]
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([counts @ d / n for counts in _draws(rng, n, resamples)])
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    p = _sign_flip(rng, d, max(resamples, flips))
    spread = d.std(0, ddof=1)
    flat = spread <= _SLACK * np.abs(d).max(0)
    return [
        Paired(
            n=n,
            mean=float(means[at]),
            low=float(low[at]),
            high=float(high[at]),
            p=float(p[at]),
            dz=None if flat[at] else float(means[at] / spread[at]),
            better=int(better[at]),
            worse=int(worse[at]),
        )
        for at in range(d.shape[1])
    ]


def _draws(rng: np.random.Generator, n: int, resamples: int) -> Iterator[Array]:
    """Blocks (rows, n) of how often each item was drawn."""
    for rows in _rows(n, resamples):
        picks = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _rows(n: int, resamples: int) -> Iterator[int]:
    most = max(1, _BLOCK // n)
    for start in range(0, resamples, most):
        yield min(most, resamples - start)


def _sign_flip(rng: np.random.Generator, d: Array, resamples: int) -> Array:
    """Two-sided p of each column."""
    n = len(d)
    seen = np.abs(d.sum(0))
    # A mean that was reached by the same numbers in another order must count as reached.
    far = seen - _SLACK * np.abs(d).sum(0)
    reached = np.zeros(d.shape[1])
    if n < 63 and 2**n <= resamples:
        patterns = np.arange(2**n)[:, None] >> np.arange(n) & 1
        reached = (np.abs((1.0 - 2.0 * patterns) @ d) >= far).sum(0)
        return np.asarray(reached / 2**n)
    for rows in _rows(n, resamples):
        bits = np.unpackbits(np.frombuffer(rng.bytes(rows * (-(-n // 8))), np.uint8))
        signs = 1.0 - 2.0 * bits.reshape(rows, -1)[:, :n]
        reached += (np.abs(signs @ d) >= far).sum(0)
    return np.asarray((reached + 1.0) / (resamples + 1.0))

"""Measured numbers of studies with their uncertainty, and paired differences.

Two kinds of spread are kept apart. ``sd`` is the standard deviation (n − 1) over seeds of the mean
over items: the number behind ± in the paper's tables. ``low`` and ``high`` are a 95 % percentile
bootstrap over items, each drawn with replacement together with all of its seeds: how far another
sample of scenes would move the figure. Facts of one picture, and pictures of one item, depend on
each other, so items are the unit.

**Paired differences.** For every item that both of two ways of drawing have scored there is a
difference d. Of n of them:

- **effect**: their mean, and Cohen's d_z = mean / standard deviation with n − 1 (Cohen 1988,
  §2.3.5; Lakens 2013, Eq. 6);
- **interval**: 95 % percentile bootstrap of the mean, items drawn with replacement (Efron &
  Tibshirani 1993, ch. 13);
- **p**: two-sided sign-flip permutation test. If it makes no difference which of the two drew the
  picture, each d could as well have the other sign. With 2ⁿ sign patterns no more than the
  resamples all are taken and p is exact; otherwise patterns are drawn, and p = (b + 1) / (m + 1)
  where b of m are at least as far from 0 as the observed mean (Phipson & Smyth 2010): never 0.
  Differences of exactly 0 stay 0 under every pattern and do no harm.

**Corrections** for the number of comparisons:

- :func:`holm`: Holm (1979), *A simple sequentially rejective multiple test procedure*. The chance
  that any true null hypothesis of the family is rejected stays at most the level, whatever the
  dependence between the tests.
- :func:`benjamini_hochberg`: Benjamini & Hochberg (1995), *Controlling the false discovery rate*.
  The expected share of true null hypotheses among the rejected ones stays at most the level, for
  independent or positively dependent tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

Array = NDArray[np.float64]

PAIRED_RESAMPLES = 10_000
LEVEL = 0.95
_BLOCK = 4_000_000
"""Most numbers in memory while resampling."""
_SLACK = 1e-9
"""Relative rounding error below which sums count as equal."""


class Paired(BaseModel):
    """Result of the differences of one pair."""

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


def paired(differences: ArrayLike, *, resamples: int = PAIRED_RESAMPLES, seed: int = 0) -> Paired:
    """Return the test of one list of ``differences`` (n_items,); see :func:`paired_many`."""
    return paired_many(np.asarray(differences, np.float64)[:, None], resamples, seed)[0]


def paired_many(
    differences: Array, resamples: int = PAIRED_RESAMPLES, seed: int = 0, flips: int = 0
) -> list[Paired]:
    """Return one result a column of ``differences`` (n_items, n_pairs), over the same resamples.

    ``flips`` is the most sign patterns of the test, if more than ``resamples``: a family of m tests
    needs some multiple of m for a corrected p-value to come out small. The same ``seed`` gives the
    same result. Raises ``ValueError`` for values that are not finite and for fewer than 100
    resamples.
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
    low, high = percentiles(drawn)
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


def percentiles(drawn: Array) -> Array:
    """Return the ends (2, …) of the 95 % percentile interval of resamples (resamples, …)."""
    return np.asarray(np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0))


def _draws(rng: np.random.Generator, n: int, resamples: int) -> Iterator[Array]:
    """Yield blocks (rows, n) of how often each item was drawn."""
    for rows in _rows(n, resamples):
        picks = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _rows(n: int, resamples: int) -> Iterator[int]:
    most = max(1, _BLOCK // n)
    for start in range(0, resamples, most):
        yield min(most, resamples - start)


def _sign_flip(rng: np.random.Generator, d: Array, resamples: int) -> Array:
    """Return two-sided p of each column."""
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


def holm(p_values: ArrayLike) -> Array:
    """Return Holm's corrected p-values, in the order of ``p_values`` (m,).

    With p₍₁₎ ≤ … ≤ p₍ₘ₎ the i-th becomes max over j ≤ i of (m − j + 1)·p₍ⱼ₎, at most 1. Raises
    ``ValueError`` for values outside of [0, 1] or not finite.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    return np.minimum(corrected, 1.0)


def benjamini_hochberg(p_values: ArrayLike) -> Array:
    """Return corrected p-values (q-values) of Benjamini and Hochberg, in the given order.

    The i-th smallest of m becomes min over j ≥ i of (m / j)·p₍ⱼ₎, at most 1. Raises ``ValueError``
    for values outside of [0, 1] or not finite.
    """
    from scipy.stats import false_discovery_control

    p = _checked(p_values)
    return np.asarray(false_discovery_control(p)) if len(p) else p


def _checked(p_values: ArrayLike) -> Array:
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError("p-values are numbers from 0 to 1: correct those that exist")
    return p


RESAMPLES = 2000
FEWEST_OF_GROUP = 5
"""Items that each of two groups needs for an interval of their difference."""


class Measured(BaseModel):
    """A measured number with its interval."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def times(self, factor: float) -> Self:
        """Return the same in another unit; ``factor`` is above 0."""
        found = {name: getattr(self, name, None) for name in ("value", "low", "high", "sd")}
        return self.model_copy(
            update={name: value * factor for name, value in found.items() if value is not None}
        )


class Estimate(Measured):
    """A measured number of a study."""

    value: float | None = None
    """None: nothing was measured."""
    low: float | None = None
    """Lower end of its 95 % interval; none where there is no interval."""
    high: float | None = None
    """Upper end."""
    sd: float | None = None
    """Standard deviation over seeds; none with fewer than two."""
    n: int = Field(default=0, ge=0)
    """Number of items."""
    seeds: int = Field(default=0, ge=0)
    """Number of seeds."""
    reason: str = ""
    """Why there is no value."""

    def text(self, digits: int = 1, sign: bool = False) -> str:
        """Return ``61.2 ± 0.4 [59.1, 63.0]``, or a dash."""
        if self.value is None:
            return "–"
        shown = number(self.value, digits, sign)
        if self.sd is not None:
            shown += f" ± {number(self.sd, max(digits, 2))}"
        if self.low is not None and self.high is not None:
            shown += f" [{number(self.low, digits, sign)}, {number(self.high, digits, sign)}]"
        return shown


def number(value: float, digits: int = 1, sign: bool = False) -> str:
    """Return ``value`` with a true minus sign."""
    shown = f"{value:{'+' if sign else ''}.{digits}f}"
    # A rounded nothing has no sign.
    if float(shown) == 0.0:
        shown = f"{0.0:.{digits}f}"
    return shown.replace("-", "−")


def nothing(reason: str) -> Estimate:
    """Return an estimate without a value, for ``reason``."""
    return Estimate(reason=reason)


def mean(values: Array, seed: int = 0) -> Estimate:
    """Return the mean of ``values`` (items, seeds), NaN where there is none.

    Items weigh alike, however many of their seeds are there. ``seed`` is that of the bootstrap.
    """
    per_item = item_means(values)
    known = per_item[~np.isnan(per_item)]
    if not len(known):
        return nothing("nothing was scored")
    drawn = _means(np.random.default_rng(seed), known) if len(known) > 1 else None
    return _over_seeds(_estimate(float(known.mean()), drawn, len(known)), seed_means(values))


def difference(ours: Array, theirs: Array) -> Estimate:
    """Return the mean over items of ``ours`` − ``theirs``, where both are there.

    Both are (items, seeds) of the same items and seeds. See :func:`paired`.
    """
    gaps = ours - theirs
    per_item = item_means(gaps)
    found = paired(per_item[~np.isnan(per_item)], resamples=RESAMPLES)
    if found.mean is None:
        return nothing("no item was scored in both")
    known = Estimate(value=found.mean, low=found.low, high=found.high, n=found.n)
    return _over_seeds(known, seed_means(gaps))


def contrast(ours: Array, theirs: Array, seed: int = 0) -> Estimate:
    """Return the difference of the means of two groups of other items, each (items, seeds).

    There is no interval if a group has fewer than :data:`FEWEST_OF_GROUP` items: resamples of so
    few are too similar.
    """
    a, b = (per[~np.isnan(per)] for per in (item_means(ours), item_means(theirs)))
    if not len(a) or not len(b):
        return nothing("one of the two groups has no scored item")
    gap = float(a.mean() - b.mean())
    n = len(a) + len(b)
    if min(len(a), len(b)) < FEWEST_OF_GROUP:
        return _estimate(gap, None, n)
    rng = np.random.default_rng(seed)
    return _estimate(gap, _means(rng, a) - _means(rng, b), n)


def slope(x: Array, values: Array, seed: int = 0) -> Estimate:
    """Return the least-squares change of the item's mean value for one more of ``x`` (items,).

    ``values`` is (items, seeds). Resamples in which all ``x`` are equal are left out.
    """
    per_item = item_means(values)
    known = ~np.isnan(per_item) & ~np.isnan(x)
    at, y = x[known], per_item[known]
    if len(y) < 2 or np.ptp(at) == 0.0:
        return nothing("a slope needs scored items of two complexities")
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), size=_resamples(len(y)))
    drawn = _slopes(counts.astype(np.float64), at, y)
    return _estimate(float(_slopes(np.ones((1, len(y))), at, y)[0]), drawn, len(y))


def rank_agreement(a: Array, b: Array, seed: int = 0) -> Estimate:
    """Return Spearman's rank correlation of two values of the same items, both (items,).

    Items with both values count. Undefined with fewer than three of them, or where one side is
    constant.
    """
    known = ~np.isnan(a) & ~np.isnan(b)
    first, second = a[known], b[known]
    n = len(first)
    value = float(rank_correlation(first[None], second[None])[0]) if n > 2 else math.nan
    if math.isnan(value):
        return nothing("fewer than three items, or all of them alike")
    picks = np.random.default_rng(seed).integers(n, size=(_resamples(n), n))
    return _estimate(value, rank_correlation(first[picks], second[picks]), n)


def rank_correlation(a: Array, b: Array) -> Array:
    """Return Spearman's rank correlation of each row of ``a`` and ``b`` (rows, values).

    Ties share their mean rank. NaN where one of the two is constant or holds NaN.
    """
    from scipy.stats import rankdata

    x, y = (
        side - side.mean(1, keepdims=True) for side in (rankdata(a, axis=1), rankdata(b, axis=1))
    )
    with np.errstate(all="ignore"):
        found: Array = (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))
    found[np.isnan(a).any(1) | np.isnan(b).any(1)] = np.nan
    return found


def over_seeds(values: Sequence[float | None], n: int, reason: str = "") -> Estimate:
    """Return mean and spread of scores of sets, one a seed: they have no interval over items."""
    known = [value for value in values if value is not None]
    if not known:
        return nothing(reason or "nothing was scored")
    return _over_seeds(Estimate(value=float(np.mean(known)), n=n), np.array(known))


def _estimate(value: float, drawn: Array | None, n: int) -> Estimate:
    """Return ``value`` with the interval of its resamples; undefined ones are left out."""
    known = np.zeros(0) if drawn is None else drawn[np.isfinite(drawn)]
    if not len(known):
        return Estimate(value=value, n=n)
    low, high = percentiles(known)
    return Estimate(value=value, low=float(low), high=float(high), n=n)


def _over_seeds(found: Estimate, by_seed: Array) -> Estimate:
    """Return ``found`` with the standard deviation of its values by seed, (seeds,)."""
    sd = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return found.model_copy(update={"sd": sd, "seeds": len(by_seed)})


def item_means(values: Array) -> Array:
    """Return mean over seeds of (items, seeds) → (items,); NaN where no seed has a value."""
    there = ~np.isnan(values)
    counts = there.sum(1)
    sums = np.where(there, values, 0.0).sum(1)
    result: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return result


def seed_means(values: Array) -> Array:
    """Return mean over items of (items, seeds) → one a seed that has any."""
    found = [column[~np.isnan(column)] for column in values.T]
    return np.array([column.mean() for column in found if len(column)])


def _resamples(n: int) -> int:
    return max(200, min(RESAMPLES, _BLOCK // n))


def _means(rng: np.random.Generator, known: Array) -> Array:
    """Return means of resamples of ``known``, in blocks of bounded size."""
    n = len(known)
    blocks = _rows(n, RESAMPLES)
    return np.concatenate([known[rng.integers(n, size=(rows, n))].mean(1) for rows in blocks])


def _slopes(counts: Array, x: Array, y: Array) -> Array:
    total = counts.sum(1)
    mean_x, mean_y = counts @ x / total, counts @ y / total
    spread = counts @ x**2 / total - mean_x**2
    with np.errstate(all="ignore"):
        result: Array = (counts @ (x * y) / total - mean_x * mean_y) / np.where(
            spread > 1e-12, spread, np.nan
        )
    return result

"""Measured numbers of studies with their uncertainty.

Two kinds of spread are told apart. ``sd`` is the standard deviation (n − 1) over seeds of the mean
over items: what stands behind ± in the paper's tables. ``low`` and ``high`` are a 95 % percentile
bootstrap over items, each drawn with replacement together with all of its seeds: how far another
sample of scenes would move the figure. Facts of one picture, and pictures of one item, depend on
each other, so items are the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.statistics.paired import paired

Array = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95
FEWEST_OF_GROUP = 5
"""Items that each of two groups needs for an interval of their difference."""
_BLOCK = 4_000_000


class Estimate(BaseModel):
    """A measured number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: float | None = None
    """None: there was nothing to measure it on."""
    low: float | None = None
    """Lower end of its 95 % interval; none where there is no interval."""
    high: float | None = None
    """Upper end."""
    sd: float | None = None
    """Standard deviation over seeds; none with fewer than two."""
    n: int = Field(default=0, ge=0)
    """Items it is measured on."""
    seeds: int = Field(default=0, ge=0)
    """Seeds it is measured on."""
    reason: str = ""
    """Why there is no value."""

    def times(self, factor: float) -> Estimate:
        """The same in another unit; ``factor`` is above 0."""

        def scaled(number: float | None) -> float | None:
            return None if number is None else number * factor

        return self.model_copy(
            update={name: scaled(getattr(self, name)) for name in ("value", "low", "high", "sd")}
        )

    def text(self, digits: int = 1, sign: bool = False) -> str:
        """``61.2 ± 0.4 [59.1, 63.0]``, or a dash."""
        if self.value is None:
            return "–"
        shown = number(self.value, digits, sign)
        if self.sd is not None:
            shown += f" ± {number(self.sd, max(digits, 2))}"
        if self.low is not None and self.high is not None:
            shown += f" [{number(self.low, digits, sign)}, {number(self.high, digits, sign)}]"
        return shown


def number(value: float, digits: int = 1, sign: bool = False) -> str:
    """``value`` with a true minus sign."""
    shown = f"{value:{'+' if sign else ''}.{digits}f}"
    # A rounded nothing has no sign.
    if float(shown) == 0.0:
        shown = f"{0.0:.{digits}f}"
    return shown.replace("-", "−")


def nothing(reason: str) -> Estimate:
    """No number, and why."""
    return Estimate(reason=reason)


def mean(values: Array, seed: int = 0) -> Estimate:
    """The mean of ``values`` (items, seeds), NaN where there is none.

    Items weigh alike, however many of their seeds are there. ``seed`` is that of the bootstrap.
    """
    per_item = item_means(values)
    known = per_item[~np.isnan(per_item)]
    if not len(known):
        return nothing("nothing was scored")
    low, high = _interval(known, seed)
    by_seed = seed_means(values)
    return Estimate(
        value=float(known.mean()),
        low=low,
        high=high,
        sd=float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None,
        n=len(known),
        seeds=len(by_seed),
    )


def difference(ours: Array, theirs: Array) -> Estimate:
    """Mean over items of ``ours`` − ``theirs``, both (items, seeds) of the same items and seeds;
    only where both are there (see :mod:`scenewright.evals.statistics.paired`)."""
    gaps = ours - theirs
    per_item = item_means(gaps)
    found = paired(per_item[~np.isnan(per_item)], resamples=RESAMPLES)
    if found.mean is None:
        return nothing("no item was scored in both")
    by_seed = seed_means(gaps)
    return Estimate(
        value=found.mean,
        low=found.low,
        high=found.high,
        sd=float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None,
        n=found.n,
        seeds=len(by_seed),
    )


def contrast(ours: Array, theirs: Array, seed: int = 0) -> Estimate:
    """Difference of the means of two groups of other items, each (items, seeds).

    There is no interval if a group has fewer than :data:`FEWEST_OF_GROUP` items: resamples of so
    few are too much alike.
    """
    a, b = (per[~np.isnan(per)] for per in (item_means(ours), item_means(theirs)))
    if not len(a) or not len(b):
        return nothing("one of the two groups has no scored item")
    gap = float(a.mean() - b.mean())
    n = len(a) + len(b)
    if min(len(a), len(b)) < FEWEST_OF_GROUP:
        return Estimate(value=gap, n=n)
    rng = np.random.default_rng(seed)
    drawn = _means(rng, a) - _means(rng, b)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=gap, low=float(low), high=float(high), n=n)


def slope(x: Array, values: Array, seed: int = 0) -> Estimate:
    """Least-squares change of the item's mean value for one more of ``x`` (items,).

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
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(_slopes(np.ones((1, len(y))), at, y)[0])
    return Estimate(value=value, low=float(low), high=float(high), n=len(y))


def rank_agreement(a: Array, b: Array, seed: int = 0) -> Estimate:
    """Spearman's rank correlation of two values of the same items, both (items,), where both are
    there; undefined with fewer than three of them, or where one of the two is constant."""
    known = ~np.isnan(a) & ~np.isnan(b)
    first, second = a[known], b[known]
    n = len(first)
    value = float(rank_correlation(first[None], second[None])[0]) if n > 2 else math.nan
    if math.isnan(value):
        return nothing("fewer than three items, or all of them alike")
    picks = np.random.default_rng(seed).integers(n, size=(_resamples(n), n))
    drawn = rank_correlation(first[picks], second[picks])
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Estimate(value=value, n=n)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=float(low), high=float(high), n=n)


def rank_correlation(a: Array, b: Array) -> Array:
    """Spearman's rank correlation of each row of ``a`` and ``b`` (rows, values); ties share their
    mean rank. NaN where one of the two is constant or holds NaN."""
    from scipy.stats import rankdata

    x, y = (
        side - side.mean(1, keepdims=True) for side in (rankdata(a, axis=1), rankdata(b, axis=1))
    )
    with np.errstate(all="ignore"):
        found: Array = (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))
    found[np.isnan(a).any(1) | np.isnan(b).any(1)] = np.nan
    return found


def over_seeds(values: Sequence[float | None], n: int, reason: str = "") -> Estimate:
    """Mean and spread of scores of sets, one a seed: they have no interval over items."""
    known = [value for value in values if value is not None]
    if not known:
        return nothing(reason or "nothing was scored")
    return Estimate(
        value=float(np.mean(known)),
        sd=float(np.std(known, ddof=1)) if len(known) > 1 else None,
        n=n,
        seeds=len(known),
    )


def item_means(values: Array) -> Array:
    """Mean over seeds of (items, seeds) → (items,); NaN where no seed has a value."""
    there = ~np.isnan(values)
    counts = there.sum(1)
    sums = np.where(there, values, 0.0).sum(1)
    result: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return result


def seed_means(values: Array) -> Array:
    """Mean over items of (items, seeds) → one a seed that has any."""
    found = [column[~np.isnan(column)] for column in values.T]
    return np.array([column.mean() for column in found if len(column)])


def _interval(known: Array, seed: int) -> tuple[float | None, float | None]:
    if len(known) < 2:
        return None, None
    drawn = _means(np.random.default_rng(seed), known)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _resamples(n: int) -> int:
    return max(200, min(RESAMPLES, _BLOCK // n))


def _means(rng: np.random.Generator, known: Array) -> Array:
    """Means of resamples of ``known``, in blocks of bounded size."""
    left, found = RESAMPLES, []
    while left:
        rows = min(left, max(1, _BLOCK // len(known)))
        found.append(known[rng.integers(len(known), size=(rows, len(known)))].mean(1))
        left -= rows
    return np.concatenate(found)


def _slopes(counts: Array, x: Array, y: Array) -> Array:
    total = counts.sum(1)
    mean_x, mean_y = counts @ x / total, counts @ y / total
    spread = counts @ x**2 / total - mean_x**2
    with np.errstate(all="ignore"):
        result: Array = (counts @ (x * y) / total - mean_x * mean_y) / np.where(
            spread > 1e-12, spread, np.nan
        )
    return result

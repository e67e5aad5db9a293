"""Figures with a percentile bootstrap over pictures, and rank correlations with people.

Facts of one picture depend on each other, so pictures are drawn with replacement, not facts. Every
statistic of :class:`Bootstrap` is a function of sums over pictures; a resample then is a row of
counts, and all resamples together are one matrix product.

For the correlations of metrics with people, items are drawn with replacement, each with all its
pictures: pictures of one item share their question and their raters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.statistics.estimates import LEVEL as LEVEL
from scenewright.evals.statistics.estimates import Array as Array
from scenewright.evals.statistics.estimates import Measured
from scenewright.evals.statistics.ranks import (
    DECIMALS,
    kendall,
    spearman,
    weighted_pearson,
    weighted_ranks,
)

Statistic = Callable[[Array], Array]
"""From sums (resamples, columns) to one number each, NaN where it is undefined."""

RESAMPLES = 1000
_MOST = 5_000_000
"""Largest number of counts kept; with more pictures there are fewer resamples."""
_FEWEST = 200
_BLOCK = 1_000_000
"""Rows of a block of resamples whose ranks are computed at once."""


class Figure(Measured):
    """A measured number with its 95 % interval."""

    value: float | None
    """None: nothing was measured."""
    low: float | None = None
    """Lower end of the interval; None with fewer than two pictures."""
    high: float | None = None
    """Upper end."""
    n: int = Field(default=0, ge=0)
    """Number of answers (or pairs of answers)."""

    def text(self, digits: int = 3) -> str:
        """Return ``0.931 [0.902, 0.957]``, or a dash."""
        if self.value is None:
            return "–"
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}f}"
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def summary(value: float, drawn: Array, n: int) -> Figure:
    """Return a value with the percentile interval of its resamples.

    None where most are undefined.
    """
    if not np.isfinite(value):
        return Figure(value=None, n=n)
    known = drawn[np.isfinite(drawn)]
    if len(known) < 2 or 2 * len(known) < len(drawn):
        return Figure(value=float(value), n=n)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(value=float(value), low=float(low), high=float(high), n=n)


class Interval(Protocol):
    """A figure with the ends of its interval."""

    @property
    def low(self) -> float | None:
        """Lower end; None without an interval."""
        ...

    @property
    def high(self) -> float | None:
        """Upper end."""
        ...


def side_of_zero(figure: Interval, digits: int = 3) -> int:
    """Return 1 if the interval is above 0, −1 if it is below 0, else 0.

    The ends count as they are shown, with ``digits`` places: an end that is shown as 0 touches 0.
    """
    if figure.low is None or figure.high is None:
        return 0
    return int(round(figure.low, digits) > 0.0) - int(round(figure.high, digits) < 0.0)


class Bootstrap:
    """Intervals over the same resamples of ``n_pictures``; the same seed gives the same ones."""

    def __init__(self, n_pictures: int, seed: int = 0, resamples: int = RESAMPLES) -> None:
        if n_pictures < 1:
            raise ValueError("no pictures: nothing was measured")
        self.n_pictures = n_pictures
        n = max(_FEWEST, min(resamples, _MOST // n_pictures))
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n_pictures, np.full(n_pictures, 1 / n_pictures), size=n)
        self._counts: Array = counts.astype(np.float64)

    def figure(
        self, pictures: ArrayLike, columns: Sequence[ArrayLike], statistic: Statistic
    ) -> Figure:
        """Return a statistic of sums of ``columns``, each (n_rows,), over ``pictures`` (n_rows,).

        ``pictures`` holds the number of each row's picture, from 0.
        """
        at = np.asarray(pictures, np.intp)
        per = np.zeros((self.n_pictures, len(columns)))
        for number, column in enumerate(columns):
            np.add.at(per[:, number], at, np.asarray(column, np.float64))
        with np.errstate(all="ignore"):
            value = float(statistic(per.sum(0)[None, :])[0])
            drawn = statistic(self._counts @ per)
        return self._figure(value, drawn, len(at))

    def spearman(self, pictures: ArrayLike, *pairs: tuple[ArrayLike, ArrayLike]) -> Figure:
        """Return Spearman's rank correlation of the two sides of each pair, all (n_rows,).

        Of several pairs it is the mean. Ties share their mean rank. None for fewer than three rows,
        or where a side is constant.
        """
        at = np.asarray(pictures, np.intp)
        if len(at) < 3:
            return Figure(value=None, n=len(at))
        sides = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]

        def found(counts: Array) -> Array:
            n = counts[:, at]
            each = [
                weighted_pearson(weighted_ranks(a, n), weighted_ranks(b, n), n) for a, b in sides
            ]
            result: Array = np.mean(each, axis=0)
            return result

        with np.errstate(all="ignore"):
            value = float(found(np.ones((1, self.n_pictures)))[0])
            rows = max(1, _BLOCK // len(at))
            drawn = np.concatenate(
                [
                    found(some)
                    for some in np.split(self._counts, range(rows, len(self._counts), rows))
                ]
            )
        return self._figure(value, drawn, len(at))

    def _figure(self, value: float, drawn: Array, n: int) -> Figure:
        return summary(value, drawn if self.n_pictures > 1 else drawn[:0], n)

    def share(self, pictures: ArrayLike, part: ArrayLike, less: float = 0.0) -> Figure:
        """Return the mean of ``part`` (n_rows,), NaN left out, minus ``less``."""
        values = np.asarray(part, np.float64)
        known = ~np.isnan(values)
        if not known.any():
            return Figure(value=None)
        columns = [values[known], np.ones(int(known.sum()))]
        places = np.asarray(pictures, np.intp)[known]
        return self.figure(places, columns, lambda s: s[:, 0] / s[:, 1] - less)

    def balanced(self, pictures: ArrayLike, right: ArrayLike, truth: ArrayLike) -> Figure:
        """Return mean of sensitivity and specificity of votes that are ``right`` or not."""
        good, holds = np.asarray(right, np.float64), np.asarray(truth, np.float64)
        columns = [good * holds, holds, good * (1 - holds), 1 - holds]
        return self.figure(pictures, columns, lambda s: (s[:, 0] / s[:, 1] + s[:, 2] / s[:, 3]) / 2)

    def calibration_error(
        self, pictures: ArrayLike, said: ArrayLike, truth: ArrayLike, bins: int = 10
    ) -> Figure:
        """Return the expected calibration error.

        See :func:`~scenewright.agents.panel.aggregation.expected_calibration_error`.
        """
        given, holds = np.asarray(said, np.float64), np.asarray(truth, np.float64)
        at = np.minimum((given * bins).astype(int), bins - 1)
        columns = [np.where(at == b, given - holds, 0.0) for b in range(bins)]

        def error(sums: Array) -> Array:
            result: Array = np.abs(sums[:, :bins]).sum(1) / sums[:, bins]
            return result

        return self.figure(pictures, [*columns, np.ones(len(given))], error)


Pictured = tuple[str, str]
"""Item and arm."""
Places = NDArray[np.intp]
Rank = Callable[[Array, Array], float]


class Correlation(BaseModel):
    """Rank correlations of one metric with people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """Name of the metric."""
    spearman: Figure
    """Spearman's rank correlation over all pictures."""
    kendall: Figure
    """τ-b over all pictures."""
    within: Figure
    """Mean over items of τ-b among the item's pictures; items of whose pictures people think
    the same are left out, and a metric that cannot tell them apart counts 0. ``n`` counts items."""
    arms_spearman: Figure
    """Spearman's of the arms' means over the pictures that both know; ``n`` counts arms."""
    arms_kendall: Figure
    """τ-b of the same."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    items: Places
    """(n,) number of the item of each picture."""
    arms: Places
    """(n,) number of its arm."""
    people: Array
    """(n,)"""
    metric: Array
    """(n,)"""


def correlate(
    metric: str,
    values: Mapping[Pictured, float],
    people: Mapping[Pictured, float],
    *,
    resamples: int,
    seed: int,
) -> Correlation:
    """Return the correlations of a metric's ``values`` with those of ``people``."""
    both = sorted(set(values) & set(people))
    items = {item: at for at, item in enumerate(sorted({item for item, _ in both}))}
    arms = {arm: at for at, arm in enumerate(sorted({arm for _, arm in both}))}
    pairs = _Pairs(
        np.array([items[item] for item, _ in both], np.intp),
        np.array([arms[arm] for _, arm in both], np.intp),
        np.round(np.array([people[key] for key in both]), DECIMALS),
        np.round(np.array([values[key] for key in both]), DECIMALS),
    )
    drawn = resamples_of(pairs.items, len(items), resamples, seed)
    whole = np.arange(len(both))
    taus = _item_taus(pairs, len(items))

    def over_pictures(rank: Rank) -> Figure:
        return figure_of(
            lambda at: rank(pairs.people[at], pairs.metric[at]), whole, drawn, len(both)
        )

    def over_arms(rank: Rank) -> Figure:
        return figure_of(lambda at: rank(*_means(pairs, at, len(arms))), whole, drawn, len(arms))

    return Correlation(
        metric=metric,
        spearman=over_pictures(partial(spearman, least=3)),
        kendall=over_pictures(partial(kendall, least=3)),
        within=_mean_figure(taus, resamples, seed),
        arms_spearman=over_arms(partial(spearman, least=3)),
        arms_kendall=over_arms(partial(kendall, least=3)),
    )


def _item_taus(pairs: _Pairs, n_items: int) -> Array:
    """Return (n_items,): τ-b among the pictures of each item, NaN where all are rated alike."""
    found = np.full(n_items, np.nan)
    order = np.argsort(pairs.items, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(pairs.items[order])) + 1):
        if len(at) >= 2 and np.ptp(pairs.people[at]) > 0.0:
            same = np.ptp(pairs.metric[at]) == 0.0
            found[pairs.items[at[0]]] = 0.0 if same else kendall(pairs.people[at], pairs.metric[at])
    return found


def _means(pairs: _Pairs, at: Places, n_arms: int) -> tuple[Array, Array]:
    """Return means of the arms that the resample has."""
    count = np.bincount(pairs.arms[at], minlength=n_arms)
    there = count > 0
    people = np.bincount(pairs.arms[at], pairs.people[at], minlength=n_arms)[there] / count[there]
    metric = np.bincount(pairs.arms[at], pairs.metric[at], minlength=n_arms)[there] / count[there]
    return np.round(people, DECIMALS), np.round(metric, DECIMALS)


def resamples_of(items: Places, n_items: int, count: int, seed: int) -> list[Places]:
    """Return ``count`` draws of items with replacement, each as the rows of the item.

    None of fewer than two items. ``items`` is (n,), the number of each row's item from 0.
    """
    if n_items < 2:
        return []
    rows = [np.flatnonzero(items == at) for at in range(n_items)]
    picks = np.random.default_rng(seed).integers(0, n_items, (count, n_items))
    return [np.concatenate([rows[at] for at in pick]) for pick in picks]


def figure_of(
    statistic: Callable[[Places], float], whole: Places, drawn: Sequence[Places], n: int
) -> Figure:
    """Return a statistic of the rows ``whole`` with its interval over the resamples ``drawn``."""
    value = statistic(whole) if len(whole) else float("nan")
    if np.isnan(value):
        return Figure(value=None, n=n)
    return summary(value, np.array([statistic(at) for at in drawn]), n)


def _mean_figure(values: Array, count: int, seed: int) -> Figure:
    known = values[~np.isnan(values)]
    n = len(known)
    if not n:
        return Figure(value=None)
    picks = np.random.default_rng(seed).integers(0, n, (count if n > 1 else 0, n))
    return summary(float(known.mean()), known[picks].mean(1), n)

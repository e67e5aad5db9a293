"""Whether metrics rank pictures as people do: Spearman's and Kendall's rank correlations.

For the intervals items are drawn with replacement, each with all its pictures: pictures of one
item share what was asked, and are rated by the same people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from scenewright.evals.statistics.figures import LEVEL, Array, Figure

_DECIMALS = 9
"""Values this close are ties: means of the same ratings differ in their last bit."""
Pictured = tuple[str, str]
"""Item and arm."""
Places = NDArray[np.intp]
Rank = Callable[[Array, Array], float]


class Correlation(BaseModel):
    """One metric beside the people."""

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
    """``values`` of a metric against what ``people`` make of the same pictures."""
    both = sorted(set(values) & set(people))
    items = {item: at for at, item in enumerate(sorted({item for item, _ in both}))}
    arms = {arm: at for at, arm in enumerate(sorted({arm for _, arm in both}))}
    pairs = _Pairs(
        np.array([items[item] for item, _ in both], np.intp),
        np.array([arms[arm] for _, arm in both], np.intp),
        np.round(np.array([people[key] for key in both]), _DECIMALS),
        np.round(np.array([values[key] for key in both]), _DECIMALS),
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
        spearman=over_pictures(spearman),
        kendall=over_pictures(kendall),
        within=_mean_figure(taus, resamples, seed),
        arms_spearman=over_arms(spearman),
        arms_kendall=over_arms(kendall),
    )


def spearman(a: Array, b: Array) -> float:
    """Spearman's rank correlation of two vectors; ties share their mean rank. NaN with fewer
    than three values, or where one side is constant."""
    if len(a) < 3 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def kendall(a: Array, b: Array) -> float:
    """Kendall's τ-b (1945), which corrects for ties; NaN as :func:`spearman`."""
    if len(a) < 3 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    return _tau(a, b)


def _tau(a: Array, b: Array) -> float:
    from scipy.stats import kendalltau

    # The exact p-value, which nobody reads, would take longer than τ.
    return float(kendalltau(a, b, method="asymptotic").statistic)


def _item_taus(pairs: _Pairs, n_items: int) -> Array:
    """(n_items,) τ-b among the pictures of each item, NaN where people think the same of all."""
    found = np.full(n_items, np.nan)
    order = np.argsort(pairs.items, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(pairs.items[order])) + 1):
        if len(at) >= 2 and np.ptp(pairs.people[at]) > 0.0:
            same = np.ptp(pairs.metric[at]) == 0.0
            found[pairs.items[at[0]]] = 0.0 if same else _tau(pairs.people[at], pairs.metric[at])
    return found


def _means(pairs: _Pairs, at: Places, n_arms: int) -> tuple[Array, Array]:
    """Means of the arms that the resample has."""
    count = np.bincount(pairs.arms[at], minlength=n_arms)
    there = count > 0
    people = np.bincount(pairs.arms[at], pairs.people[at], minlength=n_arms)[there] / count[there]
    metric = np.bincount(pairs.arms[at], pairs.metric[at], minlength=n_arms)[there] / count[there]
    return np.round(people, _DECIMALS), np.round(metric, _DECIMALS)


def resamples_of(items: Places, n_items: int, count: int, seed: int) -> list[Places]:
    """``count`` draws of items with replacement, each as the rows of the item; none of fewer than
    two items. ``items`` is (n,), the number of each row's item from 0."""
    if n_items < 2:
        return []
    rows = [np.flatnonzero(items == at) for at in range(n_items)]
    picks = np.random.default_rng(seed).integers(0, n_items, (count, n_items))
    return [np.concatenate([rows[at] for at in pick]) for pick in picks]


def figure_of(
    statistic: Callable[[Places], float], whole: Places, drawn: Sequence[Places], n: int
) -> Figure:
    """A statistic of the rows ``whole``, with the interval that it has over the rows ``drawn``."""
    value = statistic(whole) if len(whole) else float("nan")
    if np.isnan(value):
        return Figure(value=None, n=n)
    return _with_interval(value, np.array([statistic(at) for at in drawn]), n)


def _mean_figure(values: Array, count: int, seed: int) -> Figure:
    known = values[~np.isnan(values)]
    n = len(known)
    if not n:
        return Figure(value=None)
    picks = np.random.default_rng(seed).integers(0, n, (count if n > 1 else 0, n))
    return _with_interval(float(known.mean()), known[picks].mean(1), n)


def _with_interval(value: float, drawn: Array, n: int) -> Figure:
    known = drawn[~np.isnan(drawn)]
    if not len(drawn) or 2 * len(known) < len(drawn):
        return Figure(value=value, n=n)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(value=value, low=float(low), high=float(high), n=n)

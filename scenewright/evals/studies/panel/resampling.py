"""Intervals by drawing items: images of one prompt share its questions, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import LEVEL, Figure
from scenewright.evals.studies.panel.table import AnswerTable, Places

OfImages = Callable[[Places], float]
"""A statistic of a sample of images, given by their numbers (with repeats); NaN where undefined."""
DECIMALS = 9
"""Scores this close are ties: means of the same answers differ in their last bit."""


class ItemResamples:
    """The same resamples of items for everything that is compared; equal seeds give equal ones."""

    def __init__(self, table: AnswerTable, resamples: int = 1000, seed: int = 0) -> None:
        """Draws ``resamples`` times as many items as there are, with replacement."""
        self._table = table
        rng = np.random.default_rng(seed)
        n = table.n_items
        self._picks = rng.integers(0, max(n, 1), (resamples if n else 0, n))

    @cached_property
    def counts(self) -> Array:
        """How often each item was drawn, (resamples, n_items): for sums over items."""
        n = self._table.n_items
        return np.array([np.bincount(row, minlength=n) for row in self._picks], float)

    @cached_property
    def images(self) -> tuple[Places, ...]:
        """Numbers of the images of each resample."""
        members = [
            np.flatnonzero(self._table.item_of_image == item) for item in range(self._table.n_items)
        ]
        return tuple(np.concatenate([members[item] for item in row]) for row in self._picks)

    def figure(self, statistic: OfImages) -> Figure:
        """The statistic of all images, with its 95 % percentile interval."""
        every = np.arange(len(self._table.images))
        return summary(statistic(every), self.drawn(statistic), len(every))

    def drawn(self, statistic: OfImages) -> Array:
        """The statistic of every resample, (resamples,)."""
        return np.array([statistic(images) for images in self.images], float)

    def compared(self, statistics: Mapping[str, OfImages], base: str) -> dict[str, Figure]:
        """Name → difference from the statistic ``base``, paired on the same resamples."""
        every = np.arange(len(self._table.images))
        mine = {name: (by(every), self.drawn(by)) for name, by in statistics.items()}
        value, drawn = mine[base]
        return {
            name: summary(found - value, other - drawn, len(every))
            for name, (found, other) in mine.items()
            if name != base
        }


def summary(value: float, drawn: Array, n: int) -> Figure:
    """A value with the percentile interval of its resamples; none where most are undefined."""
    if not np.isfinite(value):
        return Figure(value=None, n=n)
    known = drawn[np.isfinite(drawn)]
    if len(known) < 2 or 2 * len(known) < len(drawn):
        return Figure(value=float(value), n=n)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(value=float(value), low=float(low), high=float(high), n=n)


def spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Spearman's rank correlation of two arrays (n,), ties with their mean rank; pairs with NaN are
    left out; NaN where one of them is constant."""
    a, b = _paired(first, second)
    if len(a) < 2 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def kendall(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Kendall's tau-b, likewise."""
    a, b = _paired(first, second)
    if len(a) < 2 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    return float(kendalltau(a, b).statistic)


def _paired(first: Array, second: Array) -> tuple[Array, Array]:
    a, b = (np.round(np.asarray(values, float), DECIMALS) for values in (first, second))
    there = ~(np.isnan(a) | np.isnan(b))
    return a[there], b[there]

"""Draw items with replacement, and compute rank correlations in every resample.

Images of one prompt share its questions, and their errors, so items are drawn. A resample of images
is a row of counts. An image that was drawn c times counts as c tied images, so its mid-rank follows
from sums of counts along the sorted values: no resample is sorted anew, and every correlation is
exactly that of the resample written out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure, summary
from scenewright.evals.statistics.ranks import DECIMALS, kendall, weighted_pearson, weighted_ranks
from scenewright.evals.studies.panel.table import AnswerTable, Places

OfImages = Callable[[Places], float]
"""A statistic of a sample of images, given by their numbers (with repeats); NaN where undefined."""


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
        """Return the statistic of all images, with its 95 % percentile interval."""
        every = np.arange(len(self._table.images))
        return summary(statistic(every), self.drawn(statistic), len(every))

    def drawn(self, statistic: OfImages) -> Array:
        """Return the statistic of every resample, (resamples,)."""
        return np.array([statistic(images) for images in self.images], float)


_BLOCK = 1_000_000
"""Numbers held at once."""
MOST_PAIRED = 3000
"""Images of which all pairs are compared."""


def image_counts(items: Array, item_of_image: Places) -> Array:
    """Return how often each image is in each resample, (resamples, n_images).

    From how often its item is, ``items`` (resamples, n_items).
    """
    found: Array = items[:, item_of_image]
    return found


class RankCorrelation:
    """Spearman's correlation of scores with one and the same target, in the same resamples."""

    def __init__(self, target: Array, counts: Array) -> None:
        """``target`` (n,), NaN where there is none; ``counts`` (resamples, n)."""
        self._target = np.asarray(target, float)
        self._counts = counts
        # Scores mostly miss the same images: the target's ranks among the others are kept.
        self._there: NDArray[np.bool_] | None = None
        self._ranks = np.zeros((0, 0))

    def value(self, scores: Array) -> float:
        """Of all images; those without a score are left out, and without two there is NaN."""
        return float(
            RankCorrelation(self._target, np.ones((1, len(self._target)))).drawn(scores)[0]
        )

    def drawn(self, scores: Array) -> Array:
        """Of every resample, (resamples,)."""
        there = ~(np.isnan(self._target) | np.isnan(scores))
        counts = self._counts[:, there]
        found = np.full(len(counts), np.nan)
        if there.sum() < 2:
            return found
        if self._there is None or not np.array_equal(self._there, there):
            self._there, self._ranks = there, weighted_ranks(self._target[there], counts)
        values = np.asarray(scores, float)[there]
        step = max(1, _BLOCK // counts.shape[1])
        for start in range(0, len(counts), step):
            rows = slice(start, start + step)
            ranks = weighted_ranks(values, counts[rows])
            found[rows] = weighted_pearson(self._ranks[rows], ranks, counts[rows])
        return found


def kendall_drawn(first: Array, second: Array, counts: Array) -> Array:
    """Return Kendall's τ-b (1945) of two values of images in each row of ``counts``, (rows,).

    Values are (n_images,), NaN left out; NaN where one of the two is constant. All pairs of images
    are compared, a block of them at a time; with more than :data:`MOST_PAIRED` images each row is
    sorted by itself, since the pairs grow with their square.
    """
    there = ~(np.isnan(first) | np.isnan(second))
    a, b = (np.round(values[there], DECIMALS) for values in (first, second))
    n = counts[:, there]
    if len(a) > MOST_PAIRED:
        drawn = (np.repeat(np.arange(len(a)), row.astype(np.intp)) for row in n)
        return np.array([kendall(a[at], b[at]) for at in drawn], float)
    # Sums of small whole numbers: exact in half the width, at half the time.
    narrow = n.astype(np.float32)
    sums = np.zeros((3, len(n)))
    step = max(1, _BLOCK // max(1, len(a)))
    for start in range(0, len(a), step):
        rows = slice(start, start + step)
        x, y = (np.sign(v[rows, None] - v[None, :]).astype(np.float32) for v in (a, b))
        for at, signs in enumerate((x * y, np.abs(x), np.abs(y))):
            sums[at] += ((narrow @ signs.T).astype(float) * n[:, rows]).sum(1)
    with np.errstate(all="ignore"):
        found: Array = sums[0] / np.sqrt(sums[1] * sums[2])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A statistic and its resamples."""

    value: float
    """Of all items; NaN where it is undefined."""
    resamples: Array
    """Of every resample, (resamples,)."""

    def __sub__(self, other: Drawn) -> Drawn:
        """Return the difference, paired on the same resamples."""
        return Drawn(self.value - other.value, self.resamples - other.resamples)

    @classmethod
    def of(cls, reading: Array) -> Self:
        """Split a reading, (1 + resamples,), whose first number is that of all items."""
        return cls(float(reading[0]), reading[1:])


def intervals_apart(one: Figure, other: Figure) -> bool:
    """Return whether the intervals of two figures have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low

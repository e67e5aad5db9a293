"""Rank correlations of many resamples at once.

A resample of images is a row of counts. An image that was drawn c times stands for c tied images,
so its mid-rank follows from sums of counts along the sorted values: no resample is sorted anew, and
every correlation is exactly that of the resample written out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.resampling import DECIMALS
from scenewright.evals.studies.panel.table import Places

_BLOCK = 1_000_000
"""Numbers held at once."""


def image_counts(items: Array, item_of_image: Places) -> Array:
    """How often each image is in each resample, (resamples, n_images), from how often its item is,
    ``items`` (resamples, n_items)."""
    found: Array = items[:, item_of_image]
    return found


def weighted_ranks(values: Array, counts: Array) -> Array:
    """Mid-ranks (resamples, n) of ``values`` (n,), each standing ``counts`` (resamples, n) times.

    Values closer than :data:`~scenewright.evals.studies.panel.resampling.DECIMALS` places are ties.
    What stands 0 times has the rank that it would have. Raises ``PanelStudyError`` for NaN.
    """
    rounded = np.round(np.asarray(values, float), DECIMALS)
    if np.isnan(rounded).any():
        raise PanelStudyError("values without a number have no rank: leave them out")
    if not len(rounded):
        return np.zeros_like(counts)
    codes = np.unique(rounded, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks: Array = (np.cumsum(sizes, axis=1) - sizes / 2.0 + 0.5)[:, codes]
    return ranks


def weighted_pearson(first: Array, second: Array, counts: Array) -> Array:
    """Pearson's correlation of each row, (resamples,), of values (resamples, n) or (n,) by
    ``counts`` (resamples, n); NaN where one of the two is constant."""
    total = counts.sum(1)
    with np.errstate(all="ignore"):

        def centred(values: Array) -> Array:
            rows: Array = np.broadcast_to(values, counts.shape)
            shifted: Array = rows - ((rows * counts).sum(1) / total)[:, None]
            return shifted

        a, b = centred(first), centred(second)
        squares = (counts * a * a).sum(1) * (counts * b * b).sum(1)
        scale = np.abs(a).max(1, initial=0.0) * np.abs(b).max(1, initial=0.0)
        flat = squares <= (1e-12 * scale * total) ** 2
        found: Array = np.where(flat, np.nan, (counts * a * b).sum(1) / np.sqrt(squares))
    return found


class RankCorrelation:
    """Spearman's correlation of scores with one and the same target, in the same resamples."""

    def __init__(self, target: Array, counts: Array) -> None:
        """``target`` (n,), NaN where there is none; ``counts`` (resamples, n)."""
        self._target = np.asarray(target, float)
        self._counts = counts
        self._one = np.ones((1, len(self._target)))
        # Scores mostly miss the same images: the target's ranks among the others are kept.
        self._there: NDArray[np.bool_] | None = None
        self._ranks = np.zeros((0, 0))

    def value(self, scores: Array) -> float:
        """Of all images; those without a score are left out, and without two there is NaN."""
        there = self._both(scores)
        if there.sum() < 2:
            return float("nan")
        one = self._one[:, there]
        first, second = (weighted_ranks(v[there], one) for v in (self._target, np.asarray(scores)))
        return float(weighted_pearson(first, second, one)[0])

    def drawn(self, scores: Array) -> Array:
        """Of every resample, (resamples,)."""
        there = self._both(scores)
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

    def _both(self, scores: Array) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = ~(np.isnan(self._target) | np.isnan(scores))
        return found

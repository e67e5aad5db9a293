"""Pairs of pictures of one item by scores and by people, with ties counted as what they are.

People tie often: ratings are few whole numbers. Kendall's τ-b leaves tied pairs out, so that a
score which ties where people do gains nothing, and one which ties everywhere else loses nothing.
*Pairwise accuracy with ties* (Deutsch, Foster and Freitag, "Ties Matter", EMNLP 2023) is the share
of all pairs that a score puts as people do, tied pairs included. Scores with decimals hardly ever
tie, so that differences up to a threshold count as ties: the one that suits the score best (tie
calibration), a single number found on the same pairs.

*Kendall within items* is (concordant − discordant) over the pairs that people order. A pair that
the score ties is neither, so a score cannot gain by telling only what it is sure of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.statistics.estimates import Array
from scenewright.evals.statistics.ranks import DECIMALS


@dataclass(frozen=True, slots=True, eq=False)
class ItemPairs:
    """All pairs of two pictures of one item that have both a score and a rating."""

    items: NDArray[np.intp]
    """Number of each pair's item, (n_pairs,)."""
    judged: Array
    """Difference of the scores, (n_pairs,)."""
    people: Array
    """Sign of the difference of the mean ratings, (n_pairs,)."""
    n_items: int
    """How many items there are."""

    @classmethod
    def of(
        cls, scores: Array, ratings: Array, item_of: NDArray[np.intp], n_items: int
    ) -> ItemPairs:
        """Return the pairs of images with ``scores`` and ``ratings`` (n_images,), NaN left out."""
        there = ~np.isnan(scores) & ~np.isnan(ratings)
        first, second = [], []
        for item in np.unique(item_of[there]):
            at = np.flatnonzero(there & (item_of == item))
            one, two = np.triu_indices(len(at), 1)
            first.append(at[one])
            second.append(at[two])
        a = np.concatenate(first) if first else np.zeros(0, np.intp)
        b = np.concatenate(second) if second else np.zeros(0, np.intp)
        judged = np.round(scores[a] - scores[b], DECIMALS)
        return cls(
            item_of[a], judged, np.sign(np.round(ratings[a] - ratings[b], DECIMALS)), n_items
        )

    def tie_threshold(self) -> float:
        """Return the difference up to which a tie of the scores agrees best with people."""
        apart = np.abs(self.judged)
        # A tie wins the pairs that people tie, and loses those that the score had in order.
        gained = (self.people == 0.0).astype(float) - (self.people * self.judged > 0.0)
        sizes, of = np.unique(np.concatenate([[0.0], apart]), return_inverse=True)
        sums = np.cumsum(np.bincount(of[1:], gained, minlength=len(sizes)))
        return float(sizes[int(np.argmax(sums))])

    def accuracy(self, threshold: float = 0.0) -> Array:
        """Return sums for pairwise accuracy with ties by item, (n_items, 2): right, all."""
        tied = np.abs(self.judged) <= threshold
        right = np.where(tied, self.people == 0.0, self.people * self.judged > 0.0)
        return self._sums(right, np.ones(len(right)))

    def kendall(self) -> Array:
        """Return sums for Kendall within items, (n_items, 2): concordant − discordant, ordered."""
        return self._sums(self.people * np.sign(self.judged), self.people != 0.0)

    def in_order(self) -> Array:
        """Return sums for the share of ordered pairs in people's order, ties ½, (n_items, 2)."""
        told = self.people != 0.0
        return self._sums((self.people * np.sign(self.judged) / 2.0 + 0.5) * told, told)

    def _sums(self, above: Array, below: Array) -> Array:
        columns = [
            np.bincount(self.items, np.asarray(one, float), minlength=self.n_items)
            for one in (above, below)
        ]
        return np.stack(columns, axis=1)

"""Every measure of a panel's probabilities, on all items and on every resample of them at once.

A row of weights (n_items,) says how often each item counts: once each, or as often as a resample
drew it. Sums over items then are a product of matrices, and ranks come from running sums of
weights, so that a thousand resamples of a thousand images take hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.ranks import RankCorrelation, image_counts
from scenewright.evals.studies.panel.resampling import ItemResamples, summary
from scenewright.evals.studies.panel.table import AnswerTable

Measure = Literal[
    "balanced_accuracy", "accuracy", "brier", "truth_rank", "rating_rank", "full_agreement"
]
"""What can be measured of probabilities (:data:`MEASURES`)."""
Wanted = Literal["auto", "balanced_accuracy", "accuracy", "truth_rank", "rating_rank"]
"""The measure that a study turns on; ``auto``: the first that can be had."""


@dataclass(frozen=True, slots=True)
class MeasureInfo:
    """What a measure is."""

    title: str
    """For tables and axes."""
    phrase: str
    """For sentences, with its article."""
    chance: float
    """Of a panel that tells nothing: every fact ½."""
    higher: bool = True
    """Whether more is better."""
    quality: bool = True
    """Whether it compares with the truth or with people."""


MEASURES: dict[Measure, MeasureInfo] = {
    "balanced_accuracy": MeasureInfo("balanced accuracy of facts", "a balanced accuracy", 0.5),
    "accuracy": MeasureInfo("accuracy of facts", "an accuracy", 0.5),
    "brier": MeasureInfo("Brier score of facts", "a Brier score", 0.25, higher=False),
    "truth_rank": MeasureInfo(
        "rank correlation of image scores with the true share",
        "a rank correlation with the true share of facts",
        0.0,
    ),
    "rating_rank": MeasureInfo(
        "rank correlation of image scores with people",
        "a rank correlation with the mean human rating",
        0.0,
    ),
    "full_agreement": MeasureInfo(
        "share of facts decided as by the full panel (no quality)",
        "an agreement with the full panel, which is no quality,",
        0.5,
        quality=False,
    ),
}
"""Measure → what it is, the one that counts most first where there is truth."""


class MetricEvaluator:
    """Measures probabilities of the facts of one table on the same resamples.

    Row 0 of every reading is on all items as they are, the next ``resamples`` are on items drawn
    with replacement (as :class:`~scenewright.evals.studies.panel.resampling.ItemResamples` draws
    them), and each two of the last ``2 × halves`` are on two random halves of the items, to choose
    on one and to measure on the other.
    """

    def __init__(
        self,
        table: AnswerTable,
        *,
        resamples: int = 1000,
        seed: int = 0,
        halves: int = 0,
        full: Array | None = None,
    ) -> None:
        """``full`` (n_facts,) are the full panel's probabilities, against which panels are held
        where nothing else is known. Raises ``PanelStudyError`` for a table without facts."""
        if not table.facts:
            raise PanelStudyError(f"{table.name} has no facts: nothing can be measured")
        self.table = table
        self.resamples = resamples
        n = table.n_items
        drawn = ItemResamples(table, resamples, seed).counts if resamples else np.zeros((0, n))
        self.weights: Array = np.concatenate([np.ones((1, n)), drawn, _halves(n, halves, seed)])
        self._full = full

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What can be measured here, the measure that counts most first: by the truth where it is
        known, else by people, else the agreement with the full panel."""
        truth = self.table.truth
        found: list[Measure] = []
        if (truth == 1.0).any() and (truth == 0.0).any():
            found += ["balanced_accuracy", "accuracy", "brier", "truth_rank"]
        if (~np.isnan(self.table.ratings)).sum() >= 2:
            found.append("rating_rank")
        if not found and self._full is not None:
            found.append("full_agreement")
        return tuple(found)

    def choose(self, wanted: str) -> Measure:
        """The measure ``wanted``, or the first one for ``auto``. Raises ``PanelStudyError`` for one
        that cannot be had."""
        if not self.measures:
            raise PanelStudyError(
                f"{self.table.name} has neither facts of known truth (some that hold and some that "
                "do not) nor human ratings: give one of them"
            )
        if wanted == "auto":
            return self.measures[0]
        found = next((name for name in self.measures if name == wanted), None)
        if found is None:
            raise PanelStudyError(
                f"{wanted} cannot be measured on {self.table.name}: use one of "
                f"{', '.join(self.measures)}"
            )
        return found

    def check(self, likely: Array, measure: Measure) -> None:
        """Raises ``PanelStudyError`` where ``measure`` of ``likely`` is undefined on all items."""
        if np.isnan(self.read(likely, measure, self.weights[:1])[0]):
            raise PanelStudyError(
                f"{MEASURES[measure].title} of all judges of {self.table.name} is undefined: too "
                "few of their answers can be used, or the answers are all alike"
            )

    def read(self, likely: Array, measure: Measure, weights: Array | None = None) -> Array:
        """``measure`` of ``likely`` (n_facts,) for every row of ``weights`` (default: its own),
        (rows,); NaN where it is undefined.

        Facts without a probability are left out. Of facts each counts as judged; image scores
        count facts under an absent parent as 0.
        """
        rows = self.weights if weights is None else weights
        if measure in ("truth_rank", "rating_rank"):
            scores = self.table.image_scores(likely)
            if weights is None:
                return self._goals[measure].drawn(scores)
            return self.rank_correlation(scores, self._goal(measure), rows)
        if measure == "full_agreement":
            if self._full is None:
                raise PanelStudyError("the full panel's probabilities are not known")
            known = ~np.isnan(likely) & ~np.isnan(self._full)
            same = (likely > THRESHOLD) == (self._full > THRESHOLD)
            n, hits = self.sums([known, known & same], rows).T
            return ratio(hits, n)
        truth = self.table.truth
        known = ~np.isnan(likely) & ~np.isnan(truth)
        if measure == "brier":
            n, total = self.sums([known, np.where(known, (likely - truth) ** 2, 0.0)], rows).T
            return ratio(total, n)
        right = known & ((likely > THRESHOLD) == (truth == 1.0))
        true, false = known & (truth == 1.0), known & (truth == 0.0)
        columns = [true, false, right & true, right & false]
        n_true, n_false, hits, rejections = self.sums(columns, rows).T
        if measure == "accuracy":
            return ratio(hits + rejections, n_true + n_false)
        return (ratio(hits, n_true) + ratio(rejections, n_false)) / 2.0

    def sums(self, columns: Sequence[ArrayLike], weights: Array | None = None) -> Array:
        """Weighted sums over all facts of ``columns``, each (n_facts,), (rows, n_columns)."""
        n, at = self.table.n_items, self.table.item_of
        per = np.stack([np.bincount(at, np.asarray(c, float), minlength=n) for c in columns], 1)
        result: Array = (self.weights if weights is None else weights) @ per
        return result

    def per_image(self, values: ArrayLike, weights: Array | None = None) -> Array:
        """Weighted mean over images of what each image's facts add up to, (rows,); ``values`` is
        (n_facts,)."""
        rows = self.weights if weights is None else weights
        images = np.bincount(self.table.item_of_image, minlength=self.table.n_items).astype(float)
        return ratio(self.sums([values], rows)[:, 0], rows @ images)

    def rank_correlation(self, first: Array, second: Array, weights: Array | None = None) -> Array:
        """Spearman's rank correlation of two values of images (n_images,), (rows,). Images with a
        NaN are left out, ties share their mean rank; NaN where one of the two is constant."""
        return self._correlations(second, weights).drawn(first)

    def figure(self, reading: Array) -> Figure:
        """The value on all items with its interval over resamples; none with a single item, which
        tells nothing of others."""
        drawn = reading[1 : 1 + self.resamples] if self.table.n_items > 1 else np.zeros(0)
        return summary(float(reading[0]), drawn, self.table.n_items)

    @cached_property
    def halves(self) -> tuple[tuple[int, int], ...]:
        """Rows of a reading that are on two halves of the items, each pair both ways round."""
        first = 1 + self.resamples
        pairs = [(at, at + 1) for at in range(first, len(self.weights), 2)]
        return tuple(both for a, b in pairs for both in ((a, b), (b, a)))

    def _goal(self, measure: Measure) -> Array:
        if measure == "rating_rank":
            return self.table.ratings
        return self.table.image_scores(self.table.truth)

    @cached_property
    def _goals(self) -> dict[Measure, RankCorrelation]:
        wanted: tuple[Measure, ...] = ("truth_rank", "rating_rank")
        return {name: self._correlations(self._goal(name)) for name in wanted}

    def _correlations(self, goal: Array, weights: Array | None = None) -> RankCorrelation:
        rows = self.weights if weights is None else weights
        return RankCorrelation(goal, image_counts(rows, self.table.item_of_image))


def ratio(above: ArrayLike, below: ArrayLike) -> Array:
    """``above / below``, NaN where ``below`` is not above 0."""
    over, under = np.asarray(above, float), np.asarray(below, float)
    result: Array = np.full(np.broadcast_shapes(over.shape, under.shape), np.nan)
    np.divide(over, under, out=result, where=under > 0.0)
    return result


def _halves(n: int, times: int, seed: int) -> Array:
    """``times`` pairs of rows, each with one half of the items and the other."""
    rng = np.random.default_rng([seed, 1])
    rows = np.zeros((2 * times, n))
    for at in range(times):
        order = rng.permutation(n)
        rows[2 * at, order[: n // 2]] = 1.0
        rows[2 * at + 1, order[n // 2 :]] = 1.0
    return rows

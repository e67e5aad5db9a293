"""How good one probability a fact is: against the truth, or against people, with resamples.

With truth, **balanced accuracy** of the decisions (probability above ½): the mean of sensitivity
and specificity, ½ by chance whatever share of facts holds. Without, **Spearman's correlation** of
the images' scores with their mean human rating, 0 by chance. What nobody answered is left out and
counted in :meth:`Quality.scored`; it is never a no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.ranks import RankCorrelation, image_counts
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.table import AnswerTable

Measure = Literal["balanced accuracy", "Spearman with people"]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A statistic and its resamples."""

    value: float
    """Of all items; NaN where it is undefined."""
    resamples: Array
    """Of every resample, (resamples,)."""


class Quality:
    """The quality of any values for the facts of one table, always on the same resamples."""

    def __init__(self, table: AnswerTable, resamples: int = 1000, seed: int = 0) -> None:
        """Raises ``PanelStudyError`` for a table that has neither truth nor ratings."""
        self._table = table
        truth = table.truth
        counts = ItemResamples(table, resamples, seed).counts
        self._counts = counts
        self._known = ~np.isnan(truth)
        self._people: RankCorrelation | None = None
        self.measure: Measure = "balanced accuracy"
        """What is measured."""
        if not ((truth == 1.0).any() and (truth == 0.0).any()):
            if (~np.isnan(table.ratings)).sum() < 2:
                raise PanelStudyError(
                    f"{table.name} has neither facts of known truth (some that hold and some that "
                    "do not) nor human ratings: give one of them, or nothing can be called better"
                )
            self.measure = "Spearman with people"
            self._people = RankCorrelation(table.ratings, image_counts(counts, table.item_of_image))

    def __len__(self) -> int:
        """Facts of known truth, or rated images."""
        if self._people is None:
            return int(self._known.sum())
        return int((~np.isnan(self._table.ratings)).sum())

    @property
    def chance(self) -> float:
        """What guessing reaches."""
        return 0.5 if self._people is None else 0.0

    def of(self, likely: Array) -> Drawn:
        """The quality of ``likely`` (n_facts,), NaN where nobody answered."""
        if self._people is not None:
            scores = self._table.image_scores(likely)
            return Drawn(self._people.value(scores), self._people.drawn(scores))
        rows = np.flatnonzero(self._known & ~np.isnan(likely))
        yes, holds = likely[rows] > THRESHOLD, self._table.truth[rows] == 1.0
        columns = (yes & holds, holds, ~yes & ~holds, ~holds)
        at, n = self._table.item_of[rows], self._table.n_items
        sums = np.stack([np.bincount(at, column, n) for column in columns], 1)
        return Drawn(float(_balanced(sums.sum(0)[None])[0]), _balanced(self._counts @ sums))

    def scored(self, likely: Array) -> float:
        """Share of the facts with a value, of those that some judge was asked about."""
        asked = self._table.asked.any(1)
        return float((~np.isnan(likely[asked])).mean()) if asked.any() else float("nan")


def _balanced(sums: Array) -> Array:
    hits, holds, rejected, fails = sums.T
    with np.errstate(all="ignore"):
        found: Array = (hits / holds + rejected / fails) / 2.0
    return found

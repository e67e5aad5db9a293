"""Every measure of one probability a fact, on the same resamples of items.

Against the truth, over facts: ``accuracy`` and ``balanced_accuracy`` of the decisions (probability
above ½; the second is the mean of sensitivity and specificity), ``brier`` score, ``log_loss``
(nats, probabilities kept within [0.001, 0.999]) and ``ece``, the expected calibration error in ten
bins; over images, ``spearman_truth``, Spearman's correlation of the score with the share of facts
that hold.

Against people, over images: ``spearman`` and ``kendall`` (tau-b) of the score with the mean rating,
and ``within_item``, tau-b among the images of one item, mean over the items whose ratings differ; a
score that cannot tell them apart counts 0.

What nobody answered is left out of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.quality import Drawn
from scenewright.evals.studies.panel.ranks import RankCorrelation, image_counts
from scenewright.evals.studies.panel.resampling import DECIMALS, ItemResamples, kendall, summary
from scenewright.evals.studies.panel.table import AnswerTable, Mask, Places

_BINS = 10
_CLOSEST = 1e-3
_MOST_IMAGES = 3000
"""Kendall's tau compares all pairs: with more images it is left out."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure."""

    key: str
    """In files."""
    title: str
    """For people."""
    better: int = 1
    """−1: less is better."""


OF_TRUTH: tuple[Measure, ...] = (
    Measure("balanced_accuracy", "balanced accuracy ↑"),
    Measure("accuracy", "accuracy ↑"),
    Measure("brier", "Brier score ↓", -1),
    Measure("log_loss", "log loss ↓", -1),
    Measure("ece", "calibration error ↓", -1),
    Measure("spearman_truth", "Spearman with the true share ↑"),
)
OF_PEOPLE: tuple[Measure, ...] = (
    Measure("spearman", "Spearman with ratings ↑"),
    Measure("kendall", "Kendall with ratings ↑"),
    Measure("within_item", "Kendall within an item ↑"),
)


class Measures:
    """All measures that a table allows."""

    def __init__(self, table: AnswerTable, resamples: int = 1000, seed: int = 0) -> None:
        """Raises ``PanelStudyError`` for a table with neither truth nor ratings."""
        self._table = table
        self._resamples = ItemResamples(table, resamples, seed)
        counts = self._resamples.counts
        self._images = image_counts(counts, table.item_of_image)
        self._truth = table.truth
        self._with_truth = bool((self._truth == 1.0).any() and (self._truth == 0.0).any())
        self._with_people = bool((~np.isnan(table.ratings)).sum() >= 2)
        if not (self._with_truth or self._with_people):
            raise PanelStudyError(
                f"{table.name} has neither facts of known truth (some that hold and some that do "
                "not) nor human ratings: give one of them, or nothing can be called better"
            )
        self._people = RankCorrelation(table.ratings, self._images)
        self._shares = RankCorrelation(table.image_means(self._truth), self._images)
        # Pairs of images by which people rated higher.
        rated = table.ratings
        pairs = len(rated) <= _MOST_IMAGES and self._with_people
        self._order = _order(rated) if pairs else None
        self._kept: dict[tuple[bytes, int], Array] = {}

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those that can be had, the main one first."""
        people = OF_PEOPLE
        if self._order is None:
            people = tuple(one for one in people if one.key != "kendall")
        return (OF_TRUTH if self._with_truth else ()) + (people if self._with_people else ())

    def of(self, likely: Array) -> dict[str, Drawn]:
        """Measure → value and resamples, of ``likely`` (n_facts,)."""
        found: dict[str, Drawn] = {}
        scores = self._table.image_scores(likely)
        if self._with_truth:
            found |= self._of_facts(likely)
            found["spearman_truth"] = Drawn(self._shares.value(scores), self._shares.drawn(scores))
        if self._with_people:
            found["spearman"] = Drawn(self._people.value(scores), self._people.drawn(scores))
            if self._order is not None:
                found["kendall"] = self._kendall(scores)
            found["within_item"] = self._within(scores)
        return found

    def _of_facts(self, likely: Array) -> dict[str, Drawn]:
        rows = np.flatnonzero(~np.isnan(self._truth) & ~np.isnan(likely))
        p, holds = likely[rows], self._truth[rows]
        yes = (p > THRESHOLD).astype(float)
        inner = np.clip(p, _CLOSEST, 1.0 - _CLOSEST)
        loss = -(holds * np.log(inner) + (1.0 - holds) * np.log1p(-inner))
        bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
        one = np.ones(len(rows))

        return {
            "balanced_accuracy": self._sums(
                [yes * holds, holds, (1.0 - yes) * (1.0 - holds), 1.0 - holds],
                lambda s: (s[:, 0] / s[:, 1] + s[:, 2] / s[:, 3]) / 2.0,
                rows,
            ),
            "accuracy": self._sums([(yes == holds).astype(float), one], _ratio, rows),
            "brier": self._sums([(p - holds) ** 2, one], _ratio, rows),
            "log_loss": self._sums([loss, one], _ratio, rows),
            "ece": self._sums(
                [*(np.where(bins == b, p - holds, 0.0) for b in range(_BINS)), one],
                lambda s: np.abs(s[:, :_BINS]).sum(1) / s[:, _BINS],
                rows,
            ),
        }

    def _sums(
        self, columns: list[Array], statistic: Callable[[Array], Array], rows: Places
    ) -> Drawn:
        items, n = self._table.item_of[rows], self._table.n_items
        sums = np.stack([np.bincount(items, column, n) for column in columns], 1)
        with np.errstate(all="ignore"):
            value = float(statistic(sums.sum(0)[None])[0])
            return Drawn(value, statistic(self._resamples.counts @ sums))

    def _kendall(self, scores: Array) -> Drawn:
        assert self._order is not None
        there = ~np.isnan(scores) & ~np.isnan(self._table.ratings)
        order = _order(scores)[np.ix_(there, there)]
        people = self._order[np.ix_(there, there)]
        counts = self._images[:, there]

        def tau(n: Array) -> Array:
            with np.errstate(all="ignore"):
                found: Array = _pairs(order * people, n) / np.sqrt(
                    _pairs(np.abs(order), n) * self._rated_pairs(people, there, n)
                )
            return found

        return Drawn(float(tau(np.ones((1, int(there.sum()))))[0]), tau(counts))

    def _rated_pairs(self, people: Array, there: Mask, n: Array) -> Array:
        """Pairs that people did not rate alike; the same for all scores of the same images."""
        key = (there.tobytes(), len(n))
        if key not in self._kept:
            self._kept[key] = _pairs(np.abs(people), n)
        return self._kept[key]

    def _within(self, scores: Array) -> Drawn:
        table, ratings = self._table, self._table.ratings
        found, there = np.zeros(table.n_items), np.zeros(table.n_items)
        usable = ~np.isnan(scores) & ~np.isnan(ratings)
        for item in range(table.n_items):
            rows = np.flatnonzero((table.item_of_image == item) & usable)
            if len(rows) > 1 and np.ptp(np.round(ratings[rows], DECIMALS)) > 0.0:
                there[item] = 1.0
                tau = kendall(scores[rows], ratings[rows])
                found[item] = 0.0 if np.isnan(tau) else tau
        with np.errstate(all="ignore"):
            counts = self._resamples.counts
            return Drawn(
                float(np.divide(found.sum(), there.sum())), (counts @ found) / (counts @ there)
            )


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better than the base, in the direction that is better."""

    figure: Figure
    """The difference with its 95 % interval."""
    p: float
    """Two-sided, of no difference, by the standard deviation of the paired resamples."""
    p_holm: float
    """The same among all that were tried (Holm, 1979)."""

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``tied`` by the interval alone."""
        low, high = self.figure.low, self.figure.high
        if low is None or high is None:
            return "tied"
        return "better" if low > 0.0 else "worse" if high < 0.0 else "tied"

    @property
    def sure(self) -> bool:
        """Whether the difference stands among all that were tried."""
        return self.p_holm < 0.05


def gains(
    found: Mapping[str, Mapping[str, Drawn]], base: str, measure: Measure, n: int
) -> dict[str, Gain]:
    """Name → gain over ``base`` in one measure, paired on the same resamples; ``n`` is what the
    figures are said to be measured on."""
    figures: dict[str, Figure] = {}
    raw: dict[str, float] = {}
    mine = found[base][measure.key]
    for name, measured in found.items():
        if name == base or measure.key not in measured:
            continue
        other = measured[measure.key]
        drawn = measure.better * (other.resamples - mine.resamples)
        value = measure.better * (other.value - mine.value)
        figures[name] = summary(value, drawn, n)
        raw[name] = _p_value(value, drawn)
    corrected = holm(raw)
    return {name: Gain(figures[name], raw[name], corrected[name]) for name in figures}


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Name → p corrected for their number (Holm, 1979): the k-th smallest of m times m − k + 1,
    never below a smaller one's, at most 1."""
    found: dict[str, float] = {}
    last, m = 0.0, len(p_values)
    for at, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        last = max(last, min(1.0, (m - at) * p_values[name]))
        found[name] = last
    return {name: found[name] for name in p_values}


def _p_value(value: float, drawn: Array) -> float:
    known = drawn[np.isfinite(drawn)]
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    if not np.isfinite(value) or spread == 0.0:
        return 1.0
    return float(2.0 * norm.sf(abs(value) / spread))


def _ratio(sums: Array) -> Array:
    result: Array = sums[:, 0] / sums[:, 1]
    return result


def _pairs(signs: Array, n: Array) -> Array:
    """Σ n_i·n_j·signs_ij for each row of counts ``n`` (resamples, images), (resamples,)."""
    # Sums of small whole numbers: exact in half the width, at half the time.
    inner = n.astype(np.float32) @ signs.astype(np.float32)
    result: Array = (inner.astype(float) * n).sum(1)
    return result


def _order(values: Array) -> Array:
    """Sign of each pair's difference, (n, n)."""
    rounded = np.round(values, DECIMALS)
    result: Array = np.sign(rounded[:, None] - rounded[None, :])
    return result

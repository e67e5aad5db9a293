"""Measure a panel's probabilities, on all items and on every resample of them at once.

A row of weights (n_items,) says how often each item counts: once each, or as often as a resample
drew it. Sums over items then are a product of matrices, and ranks come from running sums of
weights, so that a thousand resamples of a thousand images take hundredths of a second.

- :class:`MetricEvaluator` reads one measure of one panel.
- :class:`Quality` is the one that counts most: by the truth, else by people.
- :class:`Measures` are all that a table allows. Against the truth, over facts: ``accuracy`` and
  ``balanced_accuracy`` of the decisions (probability above ½; the second is the mean of sensitivity
  and specificity), ``brier`` score, ``log_loss`` (nats, probabilities kept within [0.001, 0.999])
  and ``ece``, the expected calibration error in ten bins; over images, ``spearman_truth``,
  Spearman's correlation of the score with the share of facts that hold. Against people, over
  images: ``spearman`` and ``kendall`` (tau-b) of the score with the mean rating, and
  ``within_item``, tau-b among the images of one item, mean over the items whose ratings differ; a
  score that does not distinguish them counts 0.

Facts that nobody answered are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.statistics.estimates import holm
from scenewright.evals.statistics.figures import Figure, side_of_zero, summary
from scenewright.evals.statistics.pairs import ItemPairs
from scenewright.evals.statistics.ranks import DECIMALS
from scenewright.evals.studies.panel.resampling import (
    Drawn,
    ItemResamples,
    RankCorrelation,
    image_counts,
    kendall_drawn,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

MeasureName = Literal[
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
    """Of a panel without information: every fact ½."""
    higher: bool = True
    """Whether more is better."""
    quality: bool = True
    """Whether it compares with the truth or with people."""


MEASURES: dict[MeasureName, MeasureInfo] = {
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
        """Draw the resamples.

        ``full`` (n_facts,) are the full panel's probabilities, with which panels are compared where
        nothing else is known. Raises ``PanelStudyError`` for a table without facts.
        """
        if not table.facts:
            raise PanelStudyError(f"{table.name} has no facts: nothing can be measured")
        self.table = table
        self.resamples = resamples
        n = table.n_items
        drawn = ItemResamples(table, resamples, seed).counts if resamples else np.zeros((0, n))
        self.weights: Array = np.concatenate([np.ones((1, n)), drawn, _halves(n, halves, seed)])
        self._full = full

    @property
    def measures(self) -> tuple[MeasureName, ...]:
        """What can be measured here, the measure that counts most first.

        By the truth where it is known, else by people, else the agreement with the full panel.
        """
        found: list[MeasureName] = []
        if self.table.is_labelled:
            found += ["balanced_accuracy", "accuracy", "brier", "truth_rank"]
        if (~np.isnan(self.table.ratings)).sum() >= 2:
            found.append("rating_rank")
        if not found and self._full is not None:
            found.append("full_agreement")
        return tuple(found)

    def choose(self, wanted: str) -> MeasureName:
        """Return the measure ``wanted``, or the first one for ``auto``.

        Raises ``PanelStudyError`` for one that cannot be had.
        """
        if not self.measures:
            raise PanelStudyError(
                f"{self.table.name} has neither facts of known truth (some that hold and some that "
                "do not) nor human ratings: give one of them, or nothing can be called better"
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

    def check(self, likely: Array, measure: MeasureName) -> None:
        """Raise ``PanelStudyError`` where ``measure`` of ``likely`` is undefined on all items."""
        if np.isnan(self.read(likely, measure, self.weights[:1])[0]):
            raise PanelStudyError(
                f"{MEASURES[measure].title} of all judges of {self.table.name} is undefined: too "
                "few of their answers can be used, or the answers are all alike"
            )

    def read(self, likely: Array, measure: MeasureName, weights: Array | None = None) -> Array:
        """Return ``measure`` of ``likely`` for every row of ``weights``, (rows,).

        ``likely`` is (n_facts,); ``weights`` are its own by default. NaN where the measure is
        undefined.

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
        """Return the weighted mean over images of what each image's facts add up to, (rows,).

        ``values`` is (n_facts,).
        """
        rows = self.weights if weights is None else weights
        images = np.bincount(self.table.item_of_image, minlength=self.table.n_items).astype(float)
        return ratio(self.sums([values], rows)[:, 0], rows @ images)

    def rank_correlation(self, first: Array, second: Array, weights: Array | None = None) -> Array:
        """Return Spearman's rank correlation of two values of images (n_images,), (rows,).

        Images with a NaN are left out, ties share their mean rank; NaN where one of the two is
        constant.
        """
        return self._correlations(second, weights).drawn(first)

    def figure(self, reading: Array) -> Figure:
        """Return the value on all items with its interval over resamples.

        None with a single item.
        """
        drawn = reading[1 : 1 + self.resamples] if self.table.n_items > 1 else np.zeros(0)
        return summary(float(reading[0]), drawn, self.table.n_items)

    @cached_property
    def halves(self) -> tuple[tuple[int, int], ...]:
        """Rows of a reading that are on two halves of the items, each pair both ways round."""
        first = 1 + self.resamples
        pairs = [(at, at + 1) for at in range(first, len(self.weights), 2)]
        return tuple(both for a, b in pairs for both in ((a, b), (b, a)))

    def _goal(self, measure: MeasureName) -> Array:
        if measure == "rating_rank":
            return self.table.ratings
        return self.table.image_scores(self.table.truth)

    @cached_property
    def _goals(self) -> dict[MeasureName, RankCorrelation]:
        wanted: tuple[MeasureName, ...] = ("truth_rank", "rating_rank")
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
    """Return ``times`` pairs of rows, each with one half of the items and the other."""
    rng = np.random.default_rng([seed, 1])
    rows = np.zeros((2 * times, n))
    for at in range(times):
        order = rng.permutation(n)
        rows[2 * at, order[: n // 2]] = 1.0
        rows[2 * at + 1, order[n // 2 :]] = 1.0
    return rows


class Quality:
    """Quality of any values for the facts of one table, always on the same resamples.

    With truth it is the balanced accuracy, ½ by chance whatever share of facts holds; without,
    Spearman's correlation of the images' scores with their mean human rating, 0 by chance. Facts
    that nobody answered are left out and counted in :meth:`scored`.
    """

    def __init__(self, table: AnswerTable, resamples: int = 1000, seed: int = 0) -> None:
        """Raise ``PanelStudyError`` for a table that has neither truth nor ratings."""
        self._evaluator = MetricEvaluator(table, resamples=resamples, seed=seed)
        self._measure = self._evaluator.choose("auto")
        by_truth = self._measure == "balanced_accuracy"
        self.measure = "balanced accuracy" if by_truth else "Spearman with people"
        self.chance = MEASURES[self._measure].chance
        known = table.truth if by_truth else table.ratings
        self._n = int((~np.isnan(known)).sum())

    def __len__(self) -> int:
        """Count the facts of known truth, or the rated images."""
        return self._n

    def of(self, likely: Array) -> Drawn:
        """Return the quality of ``likely`` (n_facts,), NaN where nobody answered."""
        return Drawn.of(self._evaluator.read(likely, self._measure))

    def scored(self, likely: Array) -> float:
        """Return the share of facts with a value, of those that some judge was asked about."""
        asked = self._evaluator.table.asked.any(1)
        return float((~np.isnan(likely[asked])).mean()) if asked.any() else float("nan")


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
    Measure("pairwise", "pairwise accuracy with ties ↑"),
)


class Measures:
    """All measures that a table allows."""

    def __init__(self, table: AnswerTable, resamples: int = 1000, seed: int = 0) -> None:
        """Raise ``PanelStudyError`` for a table with neither truth nor ratings."""
        self._table = table
        self._evaluator = MetricEvaluator(table, resamples=resamples, seed=seed)
        self._evaluator.choose("auto")
        self._with_truth = "balanced_accuracy" in self._evaluator.measures
        self._with_people = "rating_rank" in self._evaluator.measures
        self._images = image_counts(self._evaluator.weights, table.item_of_image)
        self._shares = RankCorrelation(table.image_means(table.truth), self._images)
        self._few = len(table.images) <= _MOST_IMAGES

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those that can be had, the main one first."""
        people = tuple(one for one in OF_PEOPLE if self._few or one.key != "kendall")
        return (OF_TRUTH if self._with_truth else ()) + (people if self._with_people else ())

    def of(self, likely: Array) -> dict[str, Drawn]:
        """Return the value and resamples of each measure of ``likely`` (n_facts,)."""
        found: dict[str, Array] = {}
        scores = self._table.image_scores(likely)
        read = self._evaluator.read
        if self._with_truth:
            found |= {
                "balanced_accuracy": read(likely, "balanced_accuracy"),
                "accuracy": read(likely, "accuracy"),
                "brier": read(likely, "brier"),
                **self._calibration(likely),
                "spearman_truth": self._shares.drawn(scores),
            }
        if self._with_people:
            found["spearman"] = read(likely, "rating_rank")
            if self._few:
                found["kendall"] = kendall_drawn(scores, self._table.ratings, self._images)
            found |= self._within(scores)
        return {name: Drawn.of(reading) for name, reading in found.items()}

    def _calibration(self, likely: Array) -> dict[str, Array]:
        truth = self._table.truth
        known = ~np.isnan(truth) & ~np.isnan(likely)
        p, holds = np.where(known, likely, 0.5), np.where(known, truth, 0.5)
        inner = np.clip(p, _CLOSEST, 1.0 - _CLOSEST)
        loss = -(holds * np.log(inner) + (1.0 - holds) * np.log1p(-inner))
        bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
        gaps = [np.where(bins == b, p - holds, 0.0) for b in range(_BINS)]
        sums = self._evaluator.sums([known, known * loss, *gaps])
        return {
            "log_loss": ratio(sums[:, 1], sums[:, 0]),
            "ece": ratio(np.abs(sums[:, 2:]).sum(1), sums[:, 0]),
        }

    def _within(self, scores: Array) -> dict[str, Array]:
        table = self._table
        pairs = ItemPairs.of(scores, table.ratings, table.item_of_image, table.n_items)
        sums = {
            "within_item": pairs.kendall(),
            "pairwise": pairs.accuracy(pairs.tie_threshold()),
        }
        return {name: ratio(*(self._evaluator.weights @ each).T) for name, each in sums.items()}


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better than the base, in the direction that is better."""

    figure: Figure
    """The difference with its 95 % interval."""
    p: float
    """Two-sided, of no difference, by the standard deviation of the paired resamples."""
    p_holm: float
    """The same among all that were tried (Holm, 1979)."""
    same_as: str = ""
    """Another one, or the base, that comes out alike in every resample; the two count as one."""

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``tied`` by the interval alone."""
        return {1: "better", -1: "worse", 0: "tied"}[side_of_zero(self.figure)]

    @property
    def sure(self) -> bool:
        """Whether the difference is significant among all that were tried."""
        return self.p_holm < 0.05


def gains(
    found: Mapping[str, Mapping[str, Drawn]], base: str, measure: Measure, n: int
) -> dict[str, Gain]:
    """Return each gain over ``base`` in one measure, paired on the same resamples.

    ``n`` is what the figures are said to be measured on.
    """
    figures: dict[str, Figure] = {}
    raw: dict[str, float] = {}
    same: dict[str, str] = {}
    tried: dict[bytes, str] = {_mark(found[base][measure.key]): base}
    mine = found[base][measure.key]
    for name, measured in found.items():
        if name == base or measure.key not in measured:
            continue
        other = measured[measure.key]
        drawn = measure.better * (other.resamples - mine.resamples)
        value = measure.better * (other.value - mine.value)
        figures[name] = summary(value, drawn, n)
        same[name] = tried.setdefault(_mark(other), name)
        if same[name] == name:
            raw[name] = _p_value(value, drawn)
    corrected = dict(zip(raw, holm(list(raw.values())).tolist(), strict=True))
    raw[base] = corrected[base] = 1.0
    return {
        name: Gain(
            figure,
            raw[same[name]],
            corrected[same[name]],
            "" if same[name] == name else same[name],
        )
        for name, figure in figures.items()
    }


def _mark(drawn: Drawn) -> bytes:
    """Return what is equal for two that come out alike in every resample."""
    return np.round(np.append(drawn.resamples, drawn.value), DECIMALS).tobytes()


def _p_value(value: float, drawn: Array) -> float:
    known = drawn[np.isfinite(drawn)]
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    if not np.isfinite(value) or spread == 0.0:
        return 1.0
    return float(2.0 * norm.sf(abs(value) / spread))

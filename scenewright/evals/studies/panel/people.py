"""Agreement with people, and how much of it is possible.

People disagree too: the mean of k ratings is not what all people would say on average. What a score
can reach at best follows from how well the ratings repeat:

- **split half**: the ratings of each image are parted at random into two halves; the correlation r
  of their means, averaged over many splits;
- **reliability** of the mean of all ratings, by Spearman (1910) and Brown (1910): ``2r / (1 + r)``;
- **ceiling**: a score that knew the expected rating exactly would correlate ``√reliability`` with
  the mean rating. A correlation divided by it is corrected for attenuation (Spearman, 1904);
- **one rater**: a rating against the mean of the image's others, as a judge is measured against
  the same mean of others.

Ratings have no names here, so which rater is whose is drawn anew for every image. Every statistic
is resampled over items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.pairs import ItemPairs
from scenewright.evals.statistics.ranks import weighted_pearson, weighted_ranks
from scenewright.evals.studies.panel.metrics import ratio
from scenewright.evals.studies.panel.resampling import (
    Drawn,
    ItemResamples,
    RankCorrelation,
    image_counts,
    kendall_drawn,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

MOST_LEVELS = 50
"""Different ratings up to which α is by their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Ceilings:
    """How well ratings repeat; all are rank correlations (Spearman)."""

    raters: float
    """Ratings of an image, on average, of those that have two or more."""
    images: int
    """Images with two ratings or more."""
    half: Drawn
    """One half of the raters against the other."""
    reliability: Drawn
    """Of the mean of all ratings."""
    ceiling: Drawn
    """√reliability."""
    one: Drawn
    """One rater against the mean of the others."""
    alpha: Drawn
    """Krippendorff's α of single ratings, ordinal."""


class People:
    """Agreement of any scores of a table's images with its ratings, on the same resamples."""

    def __init__(
        self, table: AnswerTable, resamples: int = 1000, splits: int = 100, seed: int = 0
    ) -> None:
        """Raise ``PanelStudyError`` for a table with fewer than two rated images."""
        self.table = table
        self.rated = ~np.isnan(table.ratings)
        if self.rated.sum() < 2:
            raise PanelStudyError(f"{table.name} has no human ratings of two images or more")
        if splits < 1:
            raise PanelStudyError(f"{splits} splits of the raters: use 1 or more")
        counts = ItemResamples(table, resamples, seed).counts
        # Row 0 of every reading is on all items as they are.
        self._items: Array = np.concatenate([np.ones((1, table.n_items)), counts])
        self._counts = image_counts(self._items, table.item_of_image)
        self._rank = RankCorrelation(table.ratings, self._counts)
        self._seed, self._splits = seed, splits

    def spearman(self, scores: Array) -> Drawn:
        """Rank correlation of ``scores`` (n_images,), NaN where there is none."""
        return Drawn.of(self._rank.drawn(scores))

    def kendall(self, scores: Array) -> Drawn:
        """Kendall's tau-b."""
        return Drawn.of(kendall_drawn(scores, self.table.ratings, self._counts))

    def pearson(self, scores: Array) -> Drawn:
        """Pearson's correlation."""
        there = self.rated & ~np.isnan(scores)
        a, b = scores[there], self.table.ratings[there]
        return Drawn.of(weighted_pearson(a, b, self._counts[:, there]))

    def within_items(self, scores: Array) -> Drawn:
        """Return the share of pairs of images of one item that the scores put in people's order.

        Pairs that people rated differently; those with equal scores count half. NaN without such
        pairs.
        """
        return self._share(self.pairs(scores).in_order())

    def pairwise(self, scores: Array) -> Drawn:
        """Return pairwise accuracy with ties, of images of one item (Deutsch et al., 2023)."""
        pairs = self.pairs(scores)
        return self._share(pairs.accuracy(pairs.tie_threshold()))

    def pairs(self, scores: Array) -> ItemPairs:
        """Return the pairs of images of one item."""
        table = self.table
        return ItemPairs.of(scores, table.ratings, table.item_of_image, table.n_items)

    def of_model(self, scores: Array, model: str) -> Drawn:
        """:meth:`spearman` among the images of one model."""
        mine = np.array([image.model == model for image in self.table.images])
        return self.spearman(np.where(mine, scores, np.nan))

    def ceilings(self) -> Ceilings:
        """Return how well the ratings repeat.

        Raises ``PanelStudyError`` if fewer than two images have two ratings.
        """
        images = np.array([len(image.ratings) >= 2 for image in self.table.images])
        if images.sum() < 2:
            raise PanelStudyError(
                f"{self.table.name} has one rating an image: without a second one it is not known "
                "how well people agree"
            )
        half = self._over_splits(self._halves)
        reliability = _mapped(half, lambda r: 2.0 * r / (1.0 + r))
        return Ceilings(
            raters=float(
                np.mean([len(i.ratings) for i in self.table.images if len(i.ratings) > 1])
            ),
            images=int(images.sum()),
            half=half,
            reliability=reliability,
            ceiling=_mapped(reliability, lambda r: np.sqrt(np.maximum(r, 0.0))),
            one=self._over_splits(self._one_out),
            alpha=self.alpha(),
        )

    def as_a_rater(self, scores: Array) -> tuple[Drawn, Drawn]:
        """Correlate ``scores`` and one rater with the mean of all raters but that one.

        Returns the rank correlation of the scores, and that minus the rater's, on the same images,
        splits and resamples.
        """

        def of_scores(rng: np.random.Generator) -> tuple[Array, Array]:
            one, others = self._one_out(rng)
            return np.where(np.isnan(one), np.nan, scores), others

        def of_rater(rng: np.random.Generator) -> tuple[Array, Array]:
            one, others = self._one_out(rng)
            return np.where(np.isnan(scores), np.nan, one), others

        judged, person = self._over_splits(of_scores), self._over_splits(of_rater)
        return judged, judged - person

    def corrected(self, found: Drawn, ceilings: Ceilings) -> Drawn:
        """Return a correlation with the mean rating as a share of the ceiling.

        What it would be with ratings that repeat exactly. NaN where the reliability is not above 0.
        """
        with np.errstate(all="ignore"):
            value = found.value / ceilings.ceiling.value if ceilings.ceiling.value > 0 else np.nan
            drawn = np.where(
                ceilings.ceiling.resamples > 0,
                found.resamples / ceilings.ceiling.resamples,
                np.nan,
            )
        return Drawn(float(value), drawn)

    def alpha(self) -> Drawn:
        """Return Krippendorff's α (2011) of single ratings, by their order.

        The square of the ratings that lie between two; by their distance with more than
        :data:`MOST_LEVELS` different ones.
        """
        levels = np.unique([r for image in self.table.images for r in image.ratings])
        n = len(levels)
        if n > MOST_LEVELS:
            from scenewright.evals.statistics.agreement import alpha
            from scenewright.evals.statistics.figures import Bootstrap

            most = max(len(image.ratings) for image in self.table.images)
            rows = [(*i.ratings, *[np.nan] * (most - len(i.ratings))) for i in self.table.images]
            ratings = np.array(rows)
            found = alpha(Bootstrap(1), np.zeros(len(ratings), np.intp), ratings, "interval").value
            value = np.nan if found is None else found
            return Drawn(value, np.full(len(self._counts) - 1, np.nan))
        pairs = np.zeros((self.table.n_items, n * n))
        for image, item in zip(self.table.images, self.table.item_of_image, strict=True):
            m = len(image.ratings)
            if m >= 2:
                here = np.bincount(np.searchsorted(levels, image.ratings), minlength=n)
                both = (np.outer(here, here) - np.diag(here)) / (m - 1)
                pairs[item] += both.ravel()
        return Drawn.of(_ordinal(self._items @ pairs, n))

    def model_means(self, values: Array) -> dict[str, Drawn]:
        """Model → mean of ``values`` (n_images,) over its images."""
        found = {}
        for model in sorted({image.model for image in self.table.images} - {""}):
            mine = np.array([image.model == model for image in self.table.images])
            mine &= ~np.isnan(values)
            known = np.where(mine, np.nan_to_num(values), 0.0)
            found[model] = Drawn.of(ratio(self._counts @ known, self._counts @ mine.astype(float)))
        return found

    def _share(self, sums: Array) -> Drawn:
        """Return the ratio of two sums over each item, (n_items, 2)."""
        return Drawn.of(ratio(*(self._items @ sums).T))

    def order_of_models(
        self, scores: Array
    ) -> tuple[Drawn, dict[tuple[str, str], tuple[Drawn, Drawn]]]:
        """Return the share of pairs of models that the scores put in the order of the mean ratings.

        And for each pair the difference of the mean ratings and that of the mean scores. Images
        that have both count. NaN with fewer than two models.
        """
        both = self.rated & ~np.isnan(scores)
        people = self.model_means(np.where(both, self.table.ratings, np.nan))
        judged = self.model_means(np.where(both, scores, np.nan))
        gaps = {
            (a, b): (people[a] - people[b], judged[a] - judged[b])
            for a, b in combinations(people, 2)
        }
        if not gaps:
            return Drawn.of(np.full(len(self._counts), np.nan)), {}
        # An order that is a tie on one side only is half right.
        value = np.mean([_same(h.value, s.value) for h, s in gaps.values()])
        drawn = np.mean([_same(h.resamples, s.resamples) for h, s in gaps.values()], axis=0)
        return Drawn(float(value), drawn), gaps

    def _halves(self, rng: np.random.Generator) -> tuple[Array, Array]:
        return self._parted(rng, lambda m: m // 2)

    def _one_out(self, rng: np.random.Generator) -> tuple[Array, Array]:
        return self._parted(rng, lambda m: 1)

    def _parted(self, rng: np.random.Generator, first: Callable[[int], int]) -> tuple[Array, Array]:
        """Means of a part of each image's ratings, and of the rest, (n_images,) each."""
        one, two = (np.full(len(self.table.images), np.nan) for _ in range(2))
        for at, image in enumerate(self.table.images):
            m = len(image.ratings)
            if m >= 2:
                order = rng.permutation(m)
                ratings = np.asarray(image.ratings)[order]
                one[at], two[at] = ratings[: first(m)].mean(), ratings[first(m) :].mean()
        return one, two

    def _over_splits(self, part: Callable[[np.random.Generator], tuple[Array, Array]]) -> Drawn:
        """Return the mean over splits of the rank correlation.

        Each resample has a split of its own, as far as there are so many.
        """
        rng = np.random.default_rng([self._seed, self._splits])
        values, drawn = [], np.full(len(self._counts) - 1, np.nan)
        for split in range(self._splits):
            one, two = part(rng)
            there = ~(np.isnan(one) | np.isnan(two))
            a, b = one[there], two[there]
            rows = slice(split, None, self._splits)
            counts = np.vstack([self._counts[:1], self._counts[1:][rows]])[:, there]
            found = weighted_pearson(weighted_ranks(a, counts), weighted_ranks(b, counts), counts)
            values.append(found[0])
            drawn[rows] = found[1:]
        # Single splits scatter about their mean, so the intervals are a little too wide.
        return Drawn(float(np.mean(values)), drawn)


def _mapped(drawn: Drawn, by: Callable[[Array], Array]) -> Drawn:
    return Drawn(float(by(np.array(drawn.value))), by(drawn.resamples))


def _same(people: Array | float, judged: Array | float) -> Array:
    found: Array = 0.5 + 0.5 * np.sign(np.asarray(people) * np.asarray(judged))
    return found


def _ordinal(pairs: Array, n: int) -> Array:
    """α of coincidences (rows, n·n), by the ordinal distance; NaN where all ratings are alike."""
    found = np.full(len(pairs), np.nan)
    for at, row in enumerate(pairs.reshape(len(pairs), n, n)):
        each = row.sum(1)
        upto = np.cumsum(each) - each / 2.0
        distance = (upto[:, None] - upto[None, :]) ** 2
        expected = float((np.outer(each, each) * distance).sum())
        if expected > 0.0:
            found[at] = 1.0 - (each.sum() - 1.0) * float((row * distance).sum()) / expected
    return found

"""Compute how many images and judges it takes to distinguish two models (statistical power).

Two models draw the same items (paired) or other items (unpaired); a panel scores every image with
the mean over its facts; a two-sided t-test compares the means. Of the difference on one item, over
items, facts, and judges like those of the table, the variance is

``V(J, F) = item + fact / F + judge_item / J + judge_fact / (J·F)``

with J judges and F facts an image. More images shrink all of it, more judges only what they do not
share. A difference Δ of the shares of facts that hold is seen as λ·Δ: λ is how much higher the
panel's mean answer is to facts that hold than to those that do not, Se + Sp − 1 for votes (Rogan &
Gladen, 1978). So n images of each model give the noncentrality ``λ·Δ·√(n / V)`` of Student's t
(Cohen, 1988, ch. 2). Effects are shares here: 0.02 is two points.

The variance components of a table are estimated by the analysis of variance: facts within items,
judges crossed with them, items random (Searle, Casella & McCulloch, 1992, ch. 4); a component that
comes out negative is 0. Items are the unit of resampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.optimize import brentq
from scipy.stats import nct, norm, t

from scenewright.agents.panel.aggregation import Array, dawid_skene
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places

ALPHA = 0.05
POWER = 0.8
MOST_IMAGES = 10**8
"""Beyond this the answer is that no number of images will do."""
_CERTAIN = 30.0
"""Noncentrality from which on power is 1 to machine precision, and its formula is not."""


class Spread(BaseModel):
    """Variance of the difference of two models on one item, by where it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    item: float = Field(ge=0.0)
    """Between items, common to all judges."""
    fact: float = Field(ge=0.0)
    """Between the facts of an item, common to all judges."""
    judge_item: float = Field(ge=0.0)
    """One judge's own, common to the facts of an item."""
    judge_fact: float = Field(ge=0.0)
    """One judge's own on one fact."""

    def variance(self, judges: float, facts: float) -> float:
        """V(J, F). Raises ``PanelStudyError`` for fewer than one judge or fact."""
        if not (judges >= 1 and facts >= 1):
            raise PanelStudyError(f"{judges} judges and {facts} facts: use 1 or more of each")
        common = self.item + self.fact / facts
        return common + (self.judge_item + self.judge_fact / facts) / judges


class Test(BaseModel):
    """Which test, and how sure it has to be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    __test__ = False

    paired: bool = True
    """Whether both models draw the same items."""
    alpha: float = Field(default=ALPHA, gt=0.0, lt=1.0)
    """Two-sided level."""
    power: float = Field(default=POWER, gt=0.0, lt=1.0)
    """Chance to find a difference that is there."""
    comparisons: int = Field(default=1, ge=1)
    """Tests among which the level is shared, as Bonferroni does. Holm's procedure never finds
    less."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.power <= self.level:
            raise ValueError("power must be above alpha / comparisons, which chance alone reaches")
        return self

    @property
    def level(self) -> float:
        """Level of one comparison."""
        return self.alpha / self.comparisons

    def freedom(self, n: int) -> int:
        """Degrees of freedom with n images of each model."""
        return n - 1 if self.paired else 2 * (n - 1)


def all_pairs(models: int) -> int:
    """Comparisons of so many models, each with each."""
    if models < 2:
        raise PanelStudyError(f"{models} models: a comparison needs two or more")
    return models * (models - 1) // 2


def power_at(n: int, effect: float, variance: float, test: Test | None = None) -> float:
    """Chance that the test finds a measured difference ``effect`` with n images of each model.

    ``variance`` is that of the difference of two images, V(J, F): for unpaired ones twice the
    variance of one. Raises ``PanelStudyError`` for fewer than two images.
    """
    chosen = test or Test()
    if n < 2:
        raise PanelStudyError(f"{n} images of each model: a test needs 2 or more")
    _check_variance(variance)
    if effect == 0.0:
        return chosen.level
    if variance == 0.0:
        return 1.0
    shift = abs(effect) * math.sqrt(n / variance)
    freedom = chosen.freedom(n)
    edge = float(t.isf(chosen.level / 2.0, freedom))
    if shift - edge > _CERTAIN:
        return 1.0
    below = float(np.nan_to_num(nct.cdf(-edge, freedom, shift)))
    found = float(nct.sf(edge, freedom, shift)) + below
    # Far in the tails the series of the noncentral t fails; there it is as good as normal.
    return found if math.isfinite(found) else float(norm.cdf(shift - edge))


def images_needed(
    effect: float, variance: float, *, slope: float = 1.0, test: Test | None = None
) -> int:
    """Fewest images of each model with which the test finds a true difference ``effect``.

    ``slope`` is λ, by which judges' errors shrink it. Raises ``PanelStudyError`` if that is not
    above 0 (such judges tell nothing), for an effect of 0, and if no number up to
    :data:`MOST_IMAGES` is enough.
    """
    chosen = test or Test()
    if not slope > 0.0:
        raise PanelStudyError(
            f"the judges' answers are {slope:.3g} higher for facts that hold than for those that "
            "do not: with such judges no number of images is enough"
        )
    _check_variance(variance)
    seen = abs(effect) * slope
    if not 0.0 < seen < math.inf:
        raise PanelStudyError(f"an effect of {effect} cannot be found: use one that is not 0")
    high = 2
    while power_at(high, seen, variance, chosen) < chosen.power:
        high *= 2
        if high > MOST_IMAGES:
            raise PanelStudyError(f"an effect of {effect} needs more than {MOST_IMAGES:,} images")
    low = max(high // 2, 1)
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_at(middle, seen, variance, chosen) >= chosen.power
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable(n: int, variance: float, *, slope: float = 1.0, test: Test | None = None) -> float:
    """Smallest true difference that n images of each model find with the wanted power.

    May be above 1: then these images cannot tell any two models apart. Raises ``PanelStudyError``
    as :func:`images_needed` does.
    """
    chosen = test or Test()
    if not slope > 0.0:
        raise PanelStudyError(f"a slope of {slope:.3g}: such judges tell nothing")
    _check_variance(variance)
    if n < 2:
        raise PanelStudyError(f"{n} images of each model: a test needs 2 or more")
    if variance == 0.0:
        return 0.0
    scale = math.sqrt(variance / n)

    def missing(shift: float) -> float:
        return power_at(n, shift * scale, variance, chosen) - chosen.power

    high = 1.0
    while missing(high) < 0.0:
        high *= 2.0
    return float(brentq(missing, 0.0, high, xtol=1e-10)) * scale / slope


def observed_share(prevalence: float, sensitivity: float, specificity: float) -> float:
    """Share of yes by a judge of those rates where a share ``prevalence`` of facts holds."""
    return prevalence * sensitivity + (1.0 - prevalence) * (1.0 - specificity)


def images_by_rates(
    first: float,
    second: float,
    *,
    sensitivity: float = 1.0,
    specificity: float = 1.0,
    facts: int = 1,
    agreement: float = 0.0,
    test: Test | None = None,
) -> int:
    """Images of each model, without any table: for planning before there is one.

    ``first`` and ``second`` are the shares of facts that hold in two models' images, which one
    judge of those rates answers. The normal test of two proportions, unpaired (Fleiss, Levin &
    Paik, 2003, Eq. 4.14 without the correction for continuity): with observed shares p and q, their
    mean m, and ``z`` of the level and the power, ``n·F / D = (z_a·√(2m(1 − m)) + z_b·√(p(1 − p) +
    q(1 − q)))² / (p − q)²``. D is the design effect ``1 + (F − 1)·agreement`` of F facts an image
    that are correlated so (Kish, 1965). Raises ``PanelStudyError`` for shares that are equal as
    observed, and for numbers that are not shares.
    """
    chosen = test or Test(paired=False)
    rates = (first, second, sensitivity, specificity, agreement)
    if not all(0.0 <= rate <= 1.0 for rate in rates) or facts < 1:
        raise PanelStudyError(f"{rates}, {facts} facts: use shares from 0 to 1, and 1 fact or more")
    p, q = (observed_share(share, sensitivity, specificity) for share in (first, second))
    if math.isclose(p, q, abs_tol=1e-12):
        raise PanelStudyError(
            "the two models would get the same share of yes: choose different shares, or a judge "
            "whose sensitivity and specificity add up to more than 1"
        )
    middle = (p + q) / 2.0
    a, b = float(norm.isf(chosen.level / 2.0)), float(norm.ppf(chosen.power))
    spread = p * (1.0 - p) + q * (1.0 - q)
    asked = (a * math.sqrt(2.0 * middle * (1.0 - middle)) + b * math.sqrt(spread)) ** 2
    design = 1.0 + (facts - 1) * agreement
    return max(2, math.ceil(asked / (p - q) ** 2 * design / facts - 1e-9))


def _check_variance(variance: float) -> None:
    if not 0.0 <= variance < math.inf:
        raise PanelStudyError(f"a variance of {variance}: it must be 0 or more, and finite")


_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Differences:
    """What two models' images of the same items differ by, as each judge has it."""

    models: tuple[str, str]
    """The first minus the second; equal where images of one model are compared (unpaired)."""
    facts: Array
    """By fact, (n_facts, n_judges): facts under an absent parent count 0, no NaN."""
    item: Places
    """Number of each fact's item, (n_facts,), from 0."""
    items: Places
    """Number in the table of each item, (n_items,)."""

    @property
    def n(self) -> int:
        """How many items there are."""
        return int(self.item.max()) + 1 if len(self.item) else 0

    @property
    def by_item(self) -> Array:
        """Mean over each item's facts, (n_items, n_judges)."""
        sums = np.zeros((self.n, self.facts.shape[1]))
        np.add.at(sums, self.item, self.facts)
        return sums / np.bincount(self.item)[:, None]


def judged_values(table: AnswerTable) -> Array:
    """Each judge's probabilities (n_facts, n_judges), 0 under a parent that it found absent."""
    return np.stack([table.voided(column) for column in table.said.T], 1)


def paired_differences(table: AnswerTable) -> list[Differences]:
    """Return one entry a pair of models that drew the same items.

    Facts count that all judges answered of both images.
    """
    values = judged_values(table)
    complete = ~np.isnan(values).any(1)
    cells: dict[str, dict[tuple[int, str], list[int]]] = {}
    for row in np.flatnonzero(complete):
        fact = table.facts[row]
        model = table.images[fact.image].model
        key = (int(table.item_of[row]), fact.id)
        cells.setdefault(model, {}).setdefault(key, []).append(int(row))
    found = []
    for a, b in combinations(sorted(set(cells) - {""}), 2):
        keys = sorted(cells[a].keys() & cells[b].keys())
        if not keys:
            continue
        gaps = [values[cells[a][k]].mean(0) - values[cells[b][k]].mean(0) for k in keys]
        items, numbers = np.unique([item for item, _ in keys], return_inverse=True)
        found.append(Differences((a, b), np.array(gaps), numbers, items.astype(np.intp)))
    return found


def single_images(table: AnswerTable) -> list[Differences]:
    """Return one entry a model: its images, centred, for the unpaired design.

    The variance of a difference of two of them is twice theirs.
    """
    values = judged_values(table)
    complete = ~np.isnan(values).any(1)
    models = np.array([image.model for image in table.images])[table.image_of]
    found = []
    for model in np.unique(models):
        rows = np.flatnonzero(complete & (models == model))
        if len(rows):
            items, numbers = np.unique(table.item_of[rows], return_inverse=True)
            found.append(Differences((str(model), str(model)), values[rows], numbers, items))
    return found


class Moments:
    """What the components of one set of differences are made of, by item: fit for resampling."""

    def __init__(self, differences: Differences) -> None:
        """Raise ``PanelStudyError`` for fewer than two items."""
        if differences.n < 2:
            raise PanelStudyError("a variance needs two items or more that all judges answered")
        values, item = differences.facts, differences.item
        self.n, self.judges = differences.n, values.shape[1]
        self.sizes = np.bincount(item, minlength=self.n).astype(float)
        self.means = differences.by_item
        within = values - self.means[item]
        common = within.mean(1)
        own = within - common[:, None]
        self._common = np.bincount(item, common**2, self.n)
        self._own = np.bincount(item, (own**2).sum(1), self.n)

    def spread(self, counts: Array | None = None) -> Spread:
        """Return the components of a resample in which each item is ``counts`` (n_items,) times."""
        k = np.ones(self.n) if counts is None else counts
        n, j = float(k.sum()), self.judges
        free = float(k @ (self.sizes - 1.0))
        facts = n / float(k @ (1.0 / self.sizes))
        middle = self.means.mean(1)
        own = self.means - middle[:, None]
        own = own - (k @ own) / n
        # Mean squares: of facts, of facts by judges, of items, of items by judges.
        ms_fact = float(k @ self._common) / free if free else 0.0
        ms_own = float(k @ self._own) / (free * (j - 1)) if free and j > 1 else 0.0
        ms_item = float(k @ (middle - k @ middle / n) ** 2) / (n - 1)
        ms_both = float(k @ (own**2).sum(1)) / ((n - 1) * (j - 1)) if j > 1 else 0.0
        judge_fact, fact = ms_own, max(0.0, ms_fact - ms_own / j)
        judge_item = max(0.0, ms_both - judge_fact / facts)
        common = max(0.0, ms_item - ms_both / j)
        return Spread(
            item=max(0.0, common - fact / facts),
            fact=fact,
            judge_item=judge_item,
            judge_fact=judge_fact,
        )

    @property
    def facts(self) -> float:
        """Facts of an item: their harmonic mean, which the variance of means follows."""
        return self.n / float((1.0 / self.sizes).sum())


def pooled(spreads: Sequence[Spread], factor: float = 1.0) -> Spread:
    """Mean of the components, times ``factor``."""
    if not spreads:
        raise PanelStudyError("no differences to take a variance of: give two items or more")
    names = tuple(Spread.model_fields)
    means = {name: factor * float(np.mean([getattr(s, name) for s in spreads])) for name in names}
    return Spread(**means)


class Slopes:
    """λ of each judge: its mean answer to facts that hold minus that to others.

    By the truth where it is known; where it is not known of any fact, by the Dawid–Skene posterior.
    """

    def __init__(self, table: AnswerTable) -> None:
        """Raise ``PanelStudyError`` for a table without an answer."""
        truth = table.truth
        self.labelled = not np.isnan(truth).all()
        """Whether the truth was read."""
        if not self.labelled:
            truth = dawid_skene(table.said).probabilities
        values = judged_values(table)
        there = ~np.isnan(values) & ~np.isnan(truth)[:, None]
        if not there.any():
            raise PanelStudyError(
                f"{table.name} has no answers that could be held against anything"
            )
        given = np.nan_to_num(values)
        sides = (np.nan_to_num(truth), np.nan_to_num(1.0 - truth))
        columns = [np.where(there, side[:, None], 0.0) for side in sides]
        every = np.concatenate([given * columns[0], columns[0], given * columns[1], columns[1]], 1)
        self._sums = np.zeros((table.n_items, every.shape[1]))
        np.add.at(self._sums, table.item_of, every)
        self._judges = values.shape[1]

    def of(self, counts: Array | None = None) -> Array:
        """Return λ of each judge, (n_judges,), or of resamples, (resamples, n_judges).

        ``counts`` (resamples, n_items). NaN for a judge without answers to facts of either side.
        """
        k = np.ones((1, len(self._sums))) if counts is None else counts
        sums = (k @ self._sums).reshape(len(k), 4, self._judges)
        with np.errstate(all="ignore"):
            found: Array = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return found[0] if counts is None else found


def drawn_power(
    differences: Differences,
    n: int,
    effect: float,
    judges: int,
    *,
    test: Test | None = None,
    simulations: int = 2000,
    seed: int = 0,
) -> tuple[float, int]:
    """(share of simulated studies that find ``effect``, how many were simulated).

    Each draws n items with replacement and ``judges`` of the table's judges without, shifts the
    differences to the measured ``effect``, and does the paired test; nothing is taken to be normal.
    Unpaired, two such samples are drawn. Raises ``PanelStudyError`` for more judges than there are.
    """
    chosen = test or Test()
    values = differences.by_item
    items, k = values.shape
    if not 1 <= judges <= k:
        raise PanelStudyError(f"{judges} of {k} judges cannot be drawn")
    centred = (values - values.mean(0)) * np.sqrt(items / (items - 1))
    rng = np.random.default_rng([seed, n, judges])
    edge = float(t.isf(chosen.level / 2.0, chosen.freedom(n)))
    found = 0
    step = max(1, _BLOCK // n)
    for start in range(0, simulations, step):
        rows = min(step, simulations - start)
        at = np.argsort(rng.random((rows, k)), 1)[:, :judges]
        weights = np.zeros((rows, k))
        np.put_along_axis(weights, at, 1.0 / judges, 1)
        one = _means(centred, weights, rng.integers(0, items, (rows, n))) + effect
        if chosen.paired:
            error = one.std(1, ddof=1) / np.sqrt(n)
            gap = one.mean(1)
        else:
            two = _means(centred, weights, rng.integers(0, items, (rows, n)))
            error = np.sqrt((one.var(1, ddof=1) + two.var(1, ddof=1)) / n)
            gap = one.mean(1) - two.mean(1)
        found += int((np.abs(gap) > edge * error).sum())
    return found / simulations, simulations


def _means(values: Array, weights: Array, picks: Places) -> Array:
    """Return (simulations, n): the drawn items' means over each simulation's judges."""
    scores = weights @ values.T
    found: Array = np.take_along_axis(scores, picks, 1)
    return found


def holm_power(
    n: int,
    effect: float,
    variance: float,
    models: int,
    *,
    test: Test | None = None,
    simulations: int = 400,
    seed: int = 0,
) -> float:
    """Share of the differences that are there that Holm's (1979) procedure finds, simulated.

    One of ``models`` is better by the measured ``effect`` than the others, which are alike; all
    pairs are compared on the same n items. Scores are normal, so that the difference of two has the
    ``variance``. Raises ``PanelStudyError`` for fewer than two models or images.
    """
    chosen = test or Test()
    if models < 2 or n < 2:
        raise PanelStudyError(f"{models} models with {n} images: use 2 or more of each")
    pairs = np.array(list(combinations(range(models), 2)))
    steps = chosen.alpha / np.arange(len(pairs), 0, -1)
    rng = np.random.default_rng([seed, n, models])
    found = 0
    for _ in range(simulations):
        scores = rng.standard_normal((models, n)) * np.sqrt(variance / 2.0)
        scores[0] += effect
        gaps = scores[pairs[:, 0]] - scores[pairs[:, 1]]
        shift = np.abs(gaps.mean(1)) / (gaps.std(1, ddof=1) / np.sqrt(n))
        p = 2.0 * t.sf(shift, n - 1)
        order = np.argsort(p)
        passed = np.cumprod(p[order] <= steps).astype(bool)
        found += int((pairs[order[passed], 0] == 0).sum())
    return found / (simulations * (models - 1))

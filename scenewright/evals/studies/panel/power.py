"""Statistical power: how many images and judges it takes to tell two models apart.

Two models draw the same items (paired) or other items (unpaired); a panel scores every image with
the mean over its facts; a two-sided t-test compares the means. Of the difference on one item, over
items, facts, and judges like those of the table, the variance is

``V(J, F) = item + fact / F + judge_item / J + judge_fact / (J·F)``

with J judges and F facts an image. More images shrink all of it, more judges only what they do not
share. A difference Δ of the shares of facts that hold is seen as λ·Δ: λ is how much higher the
panel's mean answer is to facts that hold than to those that do not, Se + Sp − 1 for votes (Rogan &
Gladen, 1978). So n images of each model give the noncentrality ``λ·Δ·√(n / V)`` of Student's t
(Cohen, 1988, ch. 2). Effects are shares here: 0.02 is two points.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.optimize import brentq
from scipy.stats import nct, norm, t

from scenewright.evals.studies.panel.errors import PanelStudyError

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

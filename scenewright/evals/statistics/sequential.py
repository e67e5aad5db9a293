"""Sequential test of paired differences: is the mean below 0, or not below −margin?

Differences d in [−1, 1] come one after the other, in random order. Two wealth processes bet against
the two hypotheses (Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by
betting*, §4):

- against "the mean is 0 or more": W = Π (1 − λ d), with λ ≤ 0.95,
- against "the mean is −m or less": S = Π (1 + μ (d + m)), with μ ≤ 0.95 / (1 − m).

λ and μ are chosen before d is seen, and no factor can be negative. Wherever the hypothesis of a
process holds, it is a non-negative supermartingale that begins at 1, and by Ville's inequality it
reaches 1/α (1/β) with a probability of at most α (β), however often one looks and whenever one
stops, and whatever the shape of the differences: also where a few scenes gain all that can be
gained and the others lose a little.

The stake is that of the loss to be found: at a mean of −m and a variance of σ², m / (σ² + m²)
maximises the growth of log W to second order. σ² is estimated from the differences before. A larger
loss is found with the same stake, and sooner.

- W ≥ 1/α first: **worse**. A candidate as good as the baseline gets this with a probability of at
  most α.
- S ≥ 1/β first: **not worse** by the margin or more. A candidate that is worse by the margin gets
  this with a probability of at most β = 1 − power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
Decision = Literal["worse", "not worse", "undecided"]

_MOST = 0.95
"""Most of the wealth that one difference can take: a single scene never ends a test."""
_SPREAD = 0.15
"""Standard deviation that is assumed before there are differences."""
_WEIGHT = 5.0
"""Differences that this assumption counts for."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Errors and loss of a sequential test. Raises ``ValueError`` for values that are no rule."""

    margin: float = 0.03
    """Loss of the mean to be found: 0.03 is three points of a score from 0 to 1."""
    alpha: float = 0.05
    """Highest probability of "worse" where the mean did not fall."""
    power: float = 0.9
    """1 − the highest probability of "not worse" where the mean fell by the margin."""

    def __post_init__(self) -> None:
        if not 0.0 < self.margin < 1.0:
            raise ValueError(f"the margin is {self.margin}: a loss is between 0 and 1")
        if not 0.0 < self.alpha < 0.5:
            raise ValueError(f"alpha is {self.alpha}: choose a probability between 0 and 0.5")
        if not 0.5 < self.power < 1.0:
            raise ValueError(f"power is {self.power}: choose a probability between 0.5 and 1")


@dataclass(frozen=True, slots=True)
class Decided:
    """Result of a sequential test."""

    decision: Decision
    at: int
    """Differences until the decision; all of them where it is undecided."""
    evidence_worse: float
    """Largest W so far: a p-value of "the mean did not fall" is 1 over it."""
    evidence_sound: float
    """Largest S so far, against a fall by the margin or more."""


def log_wealth(differences: ArrayLike, rule: Rule) -> tuple[Array, Array]:
    """Return log W and log S after each of the ``differences`` (…, n), each (…, n).

    Raises ``ValueError`` for differences outside of [−1, 1] or not finite.
    """
    d = np.asarray(differences, np.float64)
    if not (np.abs(d) <= 1.0).all():
        raise ValueError("differences of scores between 0 and 1 lie between −1 and 1")
    stake = rule.margin / (_variances(d) + rule.margin**2)
    worse = np.minimum(stake, _MOST) * d
    sound = np.minimum(stake, _MOST / (1.0 - rule.margin)) * (d + rule.margin)
    return np.cumsum(np.log1p(-worse), -1), np.cumsum(np.log1p(sound), -1)


def _variances(d: Array) -> Array:
    """Return the estimated variance before each difference, (…, n)."""
    before = np.arange(d.shape[-1], dtype=np.float64)
    total, square = (np.cumsum(x, -1) - x for x in (d, d * d))
    spread = square - total**2 / np.maximum(before, 1.0)
    return np.asarray((_WEIGHT * _SPREAD**2 + np.maximum(spread, 0.0)) / (_WEIGHT + before))


def decide(differences: ArrayLike, rule: Rule) -> Decided:
    """Return the decision on ``differences`` (n,) in their order.

    It is made at the first crossing, so that further differences do not change it.
    """
    worse, sound = log_wealth(differences, rule)
    if not len(worse):
        return Decided("undecided", 0, 1.0, 1.0)
    at_worse = _first(worse, -math.log(rule.alpha))
    at_sound = _first(sound, -math.log(1.0 - rule.power))
    at = min(at_worse, at_sound, len(worse))
    # Both cross at one difference only where the margin is near 1: the alarm goes first.
    name: Decision = (
        "undecided"
        if min(at_worse, at_sound) > len(worse)
        else "worse"
        if at_worse <= at_sound
        else "not worse"
    )
    return Decided(name, at, *(float(np.exp(max(0.0, x[:at].max()))) for x in (worse, sound)))


def _first(wealth: Array, level: float) -> int:
    reached = wealth >= level
    return int(reached.argmax()) + 1 if reached.any() else len(wealth) + 1


def crossings(differences: ArrayLike, rule: Rule) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return when W and S cross in each row of ``differences`` (rows, n), n + 1 for never."""
    worse, sound = log_wealth(differences, rule)
    levels = -math.log(rule.alpha), -math.log(1.0 - rule.power)
    found = []
    for wealth, level in zip((worse, sound), levels, strict=True):
        reached = wealth >= level
        found.append(np.where(reached.any(1), reached.argmax(1), wealth.shape[1]) + 1)
    return found[0], found[1]


def fixed_size(deviation: float, rule: Rule) -> int:
    """Return the pairs of a one-sided paired test of fixed size with the same errors.

    n = ((z₁₋α + z_power) · σ / margin)², σ the standard ``deviation`` of the differences.
    """
    z = float(ndtri(1.0 - rule.alpha) + ndtri(rule.power))
    return max(2, math.ceil((z * deviation / rule.margin) ** 2))


def oracle_share(rule: Rule) -> float:
    """Return the pairs of Wald's test over those of the fixed size, where the mean fell by margin.

    The sequential probability ratio test of normal differences with known variance needs the
    fewest of all tests with these errors on average (Wald & Wolfowitz 1948), to first order
    ((1 − β) log((1 − β) / α) + β log(β / (1 − α))) / (m² / 2σ²). σ and m cancel out.
    """
    beta = 1.0 - rule.power
    gain = rule.power * math.log(rule.power / rule.alpha) + beta * math.log(
        beta / (1.0 - rule.alpha)
    )
    z = float(ndtri(1.0 - rule.alpha) + ndtri(rule.power))
    return 2.0 * gain / z**2


def mean_interval(differences: ArrayLike, rule: Rule, step: float = 0.0025) -> tuple[float, float]:
    """Return a 95 % interval of the mean that holds whenever one stops.

    It holds the means on a grid of ``step`` against which neither side's bets reached 1 / 0.025,
    with W's stake. Without differences it is (−1, 1).
    """
    d = np.asarray(differences, np.float64)
    if not len(d):
        return -1.0, 1.0
    stake = rule.margin / (_variances(d) + rule.margin**2)
    grid = np.arange(-1.0, 1.0 + step / 2, step)
    means = grid[:, None]
    # No factor is negative, whatever comes: d − mean is between −1 − mean and 1 − mean.
    most = [
        np.cumsum(
            np.log1p(sign * np.minimum(stake, _MOST / (1.0 + sign * means + 1e-9)) * (d - means)), 1
        ).max(1)
        for sign in (1.0, -1.0)
    ]
    above, below = (grid[wealth < -math.log(0.025)] for wealth in most)
    return float(above.min(initial=1.0)), float(below.max(initial=-1.0))

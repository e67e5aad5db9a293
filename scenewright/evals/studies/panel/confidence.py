"""How sure simulated judges are of their votes: probabilities that are honest before a temperature.

Of honest answers of probability q a share q holds. A vote of yes that is right in a share m of the
cases has q = (1 + B) / 2, where B has a Beta distribution of mean 2m − 1; a vote of no likewise of
1 − q. Given whether the vote is right the density of B is then (1 + B) or (1 − B) times the Beta
density, to scale: both are mixtures of Beta distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import betainc

from scenewright.agents.panel.aggregation import Array, expit

SceneKind = Literal["object", "attribute", "relation"]
"""Kinds of simulated facts."""

_CONCENTRATION = 4.0
"""a + b of the Beta distribution: spread wide, few near certainty."""
_LEAST = 0.02
"""Of the mean of B and of one minus it: a vote that says nothing still has a side."""
_GRID = 2001
_EDGE = 1e-6
_SURE: Array = expit(np.linspace(-15.0, 15.0, _GRID))
"""Values of B, dense at both ends."""


class VoteRates(BaseModel):
    """How often a judge's votes are right."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sensitivity: float = Field(ge=0.0, le=1.0)
    """P(yes | the fact holds)."""
    specificity: float = Field(ge=0.0, le=1.0)
    """P(no | the fact does not hold)."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a judge's votes of one side are."""

    a: float
    """First parameter of the Beta distribution of B."""
    b: float
    """The other."""
    honest: bool
    """Whether such votes are right more often than wrong."""

    @classmethod
    def of(cls, right: float) -> Self:
        """Of votes of which a share ``right`` is right.

        No probability above one half is honest for a vote that is more often wrong: it is as sure
        as if it were right as often as it is wrong.
        """
        mean = float(np.clip(abs(2.0 * right - 1.0), _LEAST, 1.0 - _LEAST))
        return cls(mean * _CONCENTRATION, (1.0 - mean) * _CONCENTRATION, right >= 0.5)

    def quantiles(self, correct: bool, ranks: Array) -> Array:
        """B of votes that are ``correct`` or not, at ``ranks`` in [0, 1] (n,), in (0, 1)."""
        found = np.interp(ranks, _below(self.a, self.b, correct == self.honest), _SURE)
        # A confidence of exactly 0 has no side, and one of 1 no log-odds to scale.
        result: Array = np.clip(found, _EDGE, 1.0 - _EDGE)
        return result


def confidences(rates: VoteRates, prevalence: float) -> tuple[Confidence, Confidence]:
    """Of votes of yes and of no by a judge of those rates where that share of facts holds."""
    se, sp = rates.sensitivity, rates.specificity
    return (
        _side(prevalence * se, (1.0 - prevalence) * (1.0 - sp)),
        _side((1.0 - prevalence) * sp, prevalence * (1.0 - se)),
    )


def binned_gaps(
    rates: VoteRates, prevalence: float, temperature: float | None, bins: int = 10
) -> Array:
    """Of answers at that temperature (None: bare votes), by equal bins of probability: the share of
    all answers that lie in the bin times how far their mean is above the share that holds, (bins,).

    The sum of the sizes is the expected calibration error of infinitely many answers; of several
    kinds of facts the gaps are added before.
    """
    se, sp = rates.sensitivity, rates.specificity
    found = np.zeros(bins)
    ranks = (np.arange(_GRID) + 0.5) / _GRID
    for vote, side in zip((1.0, 0.0), confidences(rates, prevalence), strict=True):
        right = prevalence * se if vote else (1.0 - prevalence) * sp
        wrong = (1.0 - prevalence) * (1.0 - sp) if vote else prevalence * (1.0 - se)
        for correct, mass in ((True, right), (False, wrong)):
            sure = side.quantiles(correct, ranks)
            said = np.full(_GRID, vote) if temperature is None else stated(vote, sure, temperature)
            holds = vote if correct else 1.0 - vote
            at = np.minimum((said * bins).astype(int), bins - 1)
            found += np.bincount(at, said - holds, minlength=bins) * mass / _GRID
    return found


def stated(vote: float, sure: Array, temperature: float) -> Array:
    """Probability that goes with ``vote`` (1 or 0) and B = ``sure`` (n,), its log-odds times the
    temperature."""
    odds = (np.log1p(sure) - np.log1p(-sure)) * temperature
    return expit(odds if vote == 1.0 else -odds)


@lru_cache(maxsize=512)
def _below(a: float, b: float, likely: bool) -> Array:
    """Distribution function at :data:`_SURE` of the density (1 + B) · Beta(a, b), or (1 − B) ·
    Beta(a, b) where not ``likely``."""
    if not likely:
        result: Array = betainc(a, b + 1.0, _SURE)
        return result
    mean = a / (a + b)
    result = (betainc(a, b, _SURE) + mean * betainc(a + 1.0, b, _SURE)) / (1.0 + mean)
    return result


def _side(right: float, wrong: float) -> Confidence:
    return Confidence.of(right / (right + wrong) if right + wrong > 0.0 else 0.5)

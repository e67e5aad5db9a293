"""Bounds beyond which a cascade accepts verdicts of its first judges, with a known risk.

For each kind of question a level of sureness is chosen on labelled facts so that, with the wanted
confidence, accepted verdicts are wrong in at most the wanted share *of every kind*. This is Learn
then Test (Angelopoulos et al., 2021): each level is a hypothesis "more than that share is wrong",
tested by the exact binomial; the fallback procedure (Wiens, 2003) runs from the strictest level to
the loosest, and a kind of which all is accepted hands its error budget on to the others (Bretz et
al., 2009), so that any accepted level is too risky only with the chance ``1 − confidence``. Facts
of one picture err together: they count as fewer by their design effect (Korn & Graubard, 1998). It
holds for pictures that are exchangeable with the labelled ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.core.facts import FACT_KINDS, FactKind
from scenewright.core.validation import FiniteModel

LEVELS = (
    *(0.9985, 0.9955, 0.9925, 0.985, 0.975, 0.965, 0.945, 0.925, 0.895, 0.865, 0.835),
    *(0.79, 0.74, 0.69, 0.64, 0.59, 0.5),
)
"""Levels of certainty above which a verdict is accepted, strictest first. None is a round number,
which models like to state.
"""
WEIGHTS: Mapping[float, float] = {0.985: 0.15, 0.945: 0.15, 0.835: 0.2, 0.5: 0.5}
"""Share of a kind's error budget that starts at a level."""
NOTHING = (0.0, 1.0)
"""Bounds that accept no verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledVerdicts:
    """Verdicts of the first judges on labelled facts, one a row."""

    kinds: NDArray[np.str_]
    """Kind of each fact."""
    lead: Array
    """Probability against the strongest rival, as ``Verdict.lead``; NaN: unscored."""
    says: NDArray[np.bool_]
    """Whether the verdict is yes."""
    holds: NDArray[np.bool_]
    """Whether the fact holds."""
    pictures: NDArray[np.intp]
    """Number of each fact's picture."""


class KindBound(FiniteModel):
    """Accepted verdicts of a kind, and their measured errors."""

    kinds: tuple[FactKind, ...]
    """Kinds of facts; several where each alone has too few."""
    level: float | None = Field(ge=0.5, lt=1.0)
    """Accepted above this certainty; None: never, since nothing could be shown."""
    n: int = Field(ge=0)
    """Labelled verdicts of these kinds."""
    accepted: int = Field(ge=0)
    """Verdicts accepted by the level."""
    wrong: int = Field(ge=0)
    """Wrong ones among the accepted."""
    at_most: float = Field(ge=0.0, le=1.0)
    """Upper bound of the share of wrong ones among the accepted, at the guarantee's confidence for
    these kinds alone; 1 without accepted ones."""
    design_effect: float = Field(ge=1.0)
    """Number of facts that count as one, since facts of one picture err together."""


class CascadeGuarantee(FiniteModel):
    """Bounds of a cascade whose accepted verdicts are wrong in at most ``risk``."""

    first: tuple[str, ...] = Field(min_length=1)
    """Ids of the judges that are asked first, sorted."""
    aggregation: str
    """Rule by which their answers became verdicts."""
    quorum: int = Field(ge=1)
    """Fewest of them that a verdict needed."""
    risk: float = Field(gt=0.0, lt=0.5)
    """Largest share of wrong verdicts among the accepted ones, of every kind."""
    confidence: float = Field(gt=0.0, lt=1.0)
    """Chance that the bounds keep to it, over draws of the labelled pictures."""
    pictures: int = Field(ge=1)
    """Labelled pictures."""
    facts: int = Field(ge=1)
    """Labelled facts that the first judges were asked."""
    kinds: tuple[KindBound, ...]
    """One a kind, or several kinds that are taken together."""

    @property
    def coverage(self) -> float:
        """Share of the labelled facts whose verdict is accepted."""
        return sum(found.accepted for found in self.kinds) / self.facts

    def bounds(self, kind: FactKind) -> tuple[float, float]:
        """Return the bounds of uncertainty for a fact of ``kind``, both included."""
        for found in self.kinds:
            if kind in found.kinds and found.level is not None:
                return 1.0 - found.level, found.level
        return NOTHING


def guarantee_of(
    judged: LabelledVerdicts,
    *,
    first: Sequence[str],
    aggregation: str,
    quorum: int,
    risk: float,
    confidence: float = 0.95,
) -> CascadeGuarantee:
    """Choose the bounds for ``risk``.

    Kinds with too few verdicts are taken together; without evidence nothing is accepted. Raises
    ``ValueError`` for numbers out of range and without facts.
    """
    if not 0.0 < risk < 0.5 or not 0.0 < confidence < 1.0:
        raise ValueError(f"risk {risk} and confidence {confidence}: use (0, ½) and (0, 1)")
    if not len(judged.kinds):
        raise ValueError("no labelled facts: no bounds can be chosen")
    budget = 1.0 - confidence
    known = ~np.isnan(judged.lead)
    wrong = judged.says != judged.holds
    least = fewest(risk, budget / len(FACT_KINDS))
    counts = {kind: int((known & (judged.kinds == kind)).sum()) for kind in FACT_KINDS}
    few = tuple(kind for kind in FACT_KINDS if 0 < counts[kind] < least)
    together = [(kind,) for kind in FACT_KINDS if counts[kind] >= least] + [few] * bool(few)
    shared = design_effect(wrong[known], judged.pictures[known])
    groups: list[_Group] = []
    for kinds in together:
        rows = known & np.isin(judged.kinds, kinds)
        effect = max(shared, design_effect(wrong[rows], judged.pictures[rows]))
        groups.append(_Group(kinds, judged.lead[rows], wrong[rows], effect))
    levels = _choose_levels(groups, risk, budget)
    return CascadeGuarantee(
        first=tuple(sorted(first)),
        aggregation=aggregation,
        quorum=quorum,
        risk=risk,
        confidence=confidence,
        pictures=len(np.unique(judged.pictures)),
        facts=len(judged.kinds),
        kinds=tuple(
            group.bound(level, budget) for group, level in zip(groups, levels, strict=True)
        ),
    )


def fewest(risk: float, budget: float) -> int:
    """Return how many faultless verdicts show a risk of at most ``risk`` at ``budget``."""
    return math.ceil(math.log(budget) / math.log1p(-risk))


def binomial_tail(wrong: float, n: float, risk: float) -> float:
    """Return P(at most ``wrong`` of ``n`` are wrong) at chance ``risk`` each.

    Exact for whole numbers; between them the continuous form of Clopper and Pearson.
    """
    if wrong >= n:
        return 1.0
    # Commands that compute no bound do not wait for it.
    from scipy.special import betainc

    return float(betainc(n - wrong, wrong + 1.0, 1.0 - risk))


def upper_bound(wrong: float, n: float, budget: float) -> float:
    """Return Clopper and Pearson's upper bound of a share at one-sided ``budget``."""
    if wrong >= n:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(wrong + 1.0, n - wrong, 1.0 - budget))


def design_effect(wrong: NDArray[np.bool_], pictures: NDArray[np.intp]) -> float:
    """Return the variance of the share of ``wrong`` over pictures, relative to independent facts.

    It is 1 or more.
    """
    n, k = len(wrong), int(wrong.sum())
    if k in (0, n):
        return 1.0
    numbers = np.unique(pictures, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    share = k / n
    apart = np.bincount(numbers, weights=wrong) - share * sizes
    count = len(sizes)
    if count < 2:
        return float(n)
    variance = count / (count - 1) * float((apart**2).sum()) / n**2
    return max(1.0, variance / (share * (1.0 - share) / n))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Verdicts of some kinds."""

    kinds: tuple[FactKind, ...]
    lead: Array
    wrong: NDArray[np.bool_]
    design_effect: float

    def accepted(self, level: float | None) -> tuple[int, int]:
        """Return the number of accepted verdicts, and of wrong ones among them."""
        if level is None:
            return 0, 0
        # As a run compares: the bound of a no is 1 − level.
        rows = (self.lead > level) | (self.lead < 1.0 - level)
        return int(rows.sum()), int(self.wrong[rows].sum())

    def tail(self, level: float, risk: float) -> float:
        """Return the chance of so few wrong ones at ``risk``."""
        n, wrong = self.accepted(level)
        return binomial_tail(wrong / self.design_effect, n / self.design_effect, risk)

    def bound(self, level: float | None, budget: float) -> KindBound:
        n, wrong = self.accepted(level)
        return KindBound(
            kinds=self.kinds,
            level=level,
            n=len(self.wrong),
            accepted=n,
            wrong=wrong,
            at_most=upper_bound(wrong / self.design_effect, n / self.design_effect, budget),
            design_effect=self.design_effect,
        )


def _choose_levels(groups: Sequence[_Group], risk: float, budget: float) -> list[float | None]:
    """Return the loosest acceptable level of each group, or None."""
    tails = [[group.tail(level, risk) for level in LEVELS] for group in groups]
    share = dict.fromkeys(range(len(groups)), budget / max(1, len(groups)))
    found: list[float | None] = [None] * len(groups)
    waiting = set(share)
    while True:
        freed, done = 0.0, set()
        for at in waiting:
            carried = 0.0
            for level, tail in zip(LEVELS, tails[at], strict=True):
                carried += share[at] * WEIGHTS.get(level, 0.0)
                if 0.0 < carried >= tail:
                    found[at] = level
                elif level != LEVELS[-1]:
                    carried = 0.0
            if found[at] == LEVELS[-1]:
                done.add(at)
                freed += carried
        waiting -= done
        if not done or not waiting:
            return found
        for at in waiting:
            share[at] += freed / len(waiting)

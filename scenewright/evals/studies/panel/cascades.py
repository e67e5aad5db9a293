"""Cascades on a table: what each would have asked and found, all facts of all images at once.

The rule is that of :mod:`scenewright.agents.panel.cascade`: in each wave (objects, then what
depends on them) all facts whose parents are not absent go to the first judges, and those that these
are unsure of, or left unscored, to the others as well. With a panel that judges each fact by its
own answers (mean, majority, calibrated) the counts are those of ``replay_cascade`` on every image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.subsets import Members
from scenewright.evals.studies.panel.table import AnswerTable, Mask, Places

COSTS = ("calls", "answers", "tokens", "usd")
"""What asking takes, as in :class:`scenewright.agents.panel.cascade.Spent`."""
_PRESENT = 1e-12


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to ask, and when the others too."""

    first: Members
    """Columns of the judges that every fact goes to."""
    others: Members = ()
    """Columns of those that the unsure ones go to; empty: a panel without a cascade."""
    unsure: tuple[float, float] = (0.1, 0.9)
    """Bounds, both included."""

    @property
    def everyone(self) -> Members:
        """All columns that may be asked."""
        return tuple(sorted((*self.first, *self.others)))


@dataclass(frozen=True, slots=True, eq=False)
class CascadeReplay:
    """What a plan found, and what it took."""

    likely: Array
    """Probability of each fact, (n_facts,); 0 for one under an absent parent, which nobody was
    asked; NaN where nobody answered."""
    void: Mask
    """Facts that nobody was asked, since a parent is absent, (n_facts,)."""
    unsure: Mask
    """Facts that went to the others too, (n_facts,)."""
    calls: Array
    """Calls that are booked on each fact, (n_facts,): one a judge, on the first fact of an image
    that is asked in a wave. Their sum over an image's facts is that image's calls."""
    answers: Array
    """Judges that each fact was put to, (n_facts,)."""
    tokens: Array
    """Tokens of these answers, (n_facts,)."""
    usd: Array
    """Dollars of these answers, (n_facts,)."""

    def cost(self, name: str) -> Array:
        """One of :data:`COSTS`, (n_facts,)."""
        found: Array = getattr(self, name)
        return found


@dataclass(eq=False)
class CascadeReplayer:
    """Walks plans over one table."""

    table: AnswerTable
    threshold: float = 0.5
    """Above which a fact holds."""

    @cached_property
    def _visits(self) -> Places:
        """Number of each fact's image and wave, (n_facts,)."""
        wave = np.zeros(len(self.table.facts), np.intp)
        for number, rows in enumerate(self.table.waves):
            wave[rows] = number
        found: Places = self.table.image_of * len(self.table.waves) + wave
        return found

    def walk(self, plan: Plan, by_first: Array, by_all: Array) -> CascadeReplay:
        """``plan``, with the probabilities (n_facts,) by its first judges alone and by all of its
        judges, of which a cascade reads the latter only where it has asked. Raises
        ``PanelStudyError`` for a judge that is asked twice or is not there."""
        everyone = plan.everyone
        if len(set(everyone)) != len(everyone) or not plan.first:
            raise PanelStudyError(f"a cascade asks some judges first, each once: {plan}")
        if not set(everyone) <= set(range(len(self.table.judges))):
            raise PanelStudyError(f"there are {len(self.table.judges)} judges, not those of {plan}")
        low, high = plan.unsure
        with np.errstate(invalid="ignore"):
            torn = np.isnan(by_first) | ((by_first >= low) & (by_first <= high))
        unsure = torn & bool(plan.others)
        likely = np.where(unsure, by_all, by_first)
        # Only a void fact becomes 0 exactly.
        voided = self.table.voided(np.maximum(likely, _PRESENT), self.threshold)
        void: Mask = voided == 0.0
        unsure &= ~void
        likely = np.where(void, 0.0, likely)
        groups = [(~void, plan.first)]
        if plan.others:
            groups.append((unsure, plan.others))
        spent = {name: np.zeros(len(likely)) for name in COSTS}
        for asked, judges in groups:
            spent["answers"][asked] += len(judges)
            spent["calls"][self._firsts(asked)] += len(judges)
            for name in ("tokens", "usd"):
                paid = np.nan_to_num(getattr(self.table, name)[:, list(judges)]).sum(1)
                spent[name][asked] += paid[asked]
        return CascadeReplay(likely=likely, void=void, unsure=unsure, **spent)

    def _firsts(self, asked: Mask) -> Places:
        """Rows: the first asked fact of each image and wave."""
        number = self._visits
        rows = np.flatnonzero(asked)
        return rows[np.unique(number[rows], return_index=True)[1]]


def plans_of(
    panels: Sequence[Members], bounds: Sequence[tuple[float, float]], most: int
) -> tuple[tuple[Plan, ...], bool]:
    """Every panel as it is, and every cascade: each of ``panels`` first, then judges that are not
    in it, by each of ``bounds``; and whether these are all.

    If they are more than ``most``, the others are all the remaining judges of the largest panel;
    if these are still too many, as many as fit, those with the fewest first judges first.
    """
    everyone = max(panels, key=len)
    plain = tuple(Plan(members) for members in panels)
    pairs = [
        (first, others) for first in panels for others in panels if not set(first) & set(others)
    ]
    complete = len(plain) + len(pairs) * len(bounds) <= most
    if not complete:
        pairs = [(f, o) for f, o in pairs if len(f) + len(o) == len(everyone)]
        pairs = pairs[: max(1, (most - len(plain)) // max(len(bounds), 1))]
    return plain + tuple(Plan(*pair, unsure) for pair in pairs for unsure in bounds), complete


def pareto(quality: Mapping[Plan, float], cost: Mapping[Plan, float]) -> tuple[Plan, ...]:
    """The plans that no other beats, cheapest first: what costs no more is worse, or as good and as
    dear but with more judges. Plans whose quality is NaN are left out."""
    known = [plan for plan in quality if not np.isnan(quality[plan])]
    order = sorted(known, key=lambda p: (cost[p], -quality[p], len(p.everyone), p.first, p.unsure))
    found: list[Plan] = []
    best = -np.inf
    for plan in order:
        if quality[plan] > best:
            found.append(plan)
            best = quality[plan]
    return tuple(found)

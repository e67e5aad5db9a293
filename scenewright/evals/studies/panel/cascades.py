"""Get verdicts from fewer answers: cascades of judges, and abstention from unsure facts.

Cascades follow the rule of :mod:`scenewright.agents.panel.cascade`, for all facts of all images at
once: in each wave (objects, then what depends on them) all facts whose parents are not absent go to
the first judges, and those that these are unsure of, or left unscored, to the others as well. With
a panel that judges each fact by its own answers (mean, majority, calibrated) the counts are those
of ``replay_cascade`` on every image.

For abstention facts are taken in the order of how sure the panel is of them. *Coverage* is the
share that is taken, *risk* the share of wrong verdicts among these (El-Yaniv & Wiener, 2010). Facts
of equal sureness come in random order: every figure is the mean over these orders, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.statistics.ranks import DECIMALS
from scenewright.evals.studies.panel.metrics import MetricEvaluator, ratio
from scenewright.evals.studies.panel.subpanels import Members
from scenewright.evals.studies.panel.table import AnswerTable, Mask, PanelStudyError, Places

COSTS = ("calls", "answers", "tokens", "usd")
"""What asking takes, as in :class:`~scenewright.evals.judge_reports.cascade_replay.AskingCost`."""
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
        """Replay ``plan`` with the probabilities of its first judges, and of all of its judges.

        ``by_first`` and ``by_all`` are (n_facts,); the latter is used only where the others were
        asked. Raises ``PanelStudyError`` for a judge that is asked twice or is not there.
        """
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
    """Return every panel as it is, and every cascade.

    Each of ``panels`` first, then judges that are not in it, by each of ``bounds``; and whether
    these are all.

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
    """Return the plans that no other beats, cheapest first.

    What costs no more is worse, or as good and as dear but with more judges. Plans whose quality is
    NaN are left out.
    """
    known = [plan for plan in quality if not np.isnan(quality[plan])]
    order = sorted(known, key=lambda p: (cost[p], -quality[p], len(p.everyone), p.first, p.unsure))
    found: list[Plan] = []
    best = -np.inf
    for plan in order:
        if quality[plan] > best:
            found.append(plan)
            best = quality[plan]
    return tuple(found)


_BLOCK = 4_000_000
"""Most numbers held in one array."""


@dataclass(frozen=True, slots=True, eq=False)
class Selective:
    """What abstention does, for every row of weights of a ruler but its halves."""

    risk: Array
    """Share of wrong verdicts with all facts taken, (rows,)."""
    area: Array
    """Area under the risk–coverage curve, (rows,): the mean of the risk over taking one fact, two,
    … and all of them (Geifman & El-Yaniv, 2017). That of a random order is ``risk``."""
    risk_at: Array
    """Share of wrong verdicts among the surest facts, (rows, coverages)."""


def selective(
    evaluator: MetricEvaluator, likely: Array, sureness: Array, coverages: Sequence[float]
) -> Selective:
    """Compare verdicts with the truth, the surest first, at each share of ``coverages``.

    ``likely`` and ``sureness`` are (n_facts,). Facts without a probability or without known truth
    are left out. Raises ``PanelStudyError`` where nothing is left, and for a coverage that is not
    in (0, 1].
    """
    table = evaluator.table
    bad = [coverage for coverage in coverages if not 0.0 < coverage <= 1.0]
    if bad:
        raise PanelStudyError(f"a coverage of {bad[0]}: it must lie above 0 and up to 1")
    known = ~np.isnan(likely) & ~np.isnan(table.truth) & ~np.isnan(sureness)
    if not known.any():
        raise PanelStudyError(f"{table.name} has no judged facts of known truth")
    wrong = ((likely > THRESHOLD) != (table.truth == 1.0))[known].astype(float)
    group = np.unique(-np.round(sureness[known], DECIMALS), return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    items = table.item_of[known][order]
    rows = evaluator.weights[: 1 + evaluator.resamples]
    step = max(1, _BLOCK // len(order))
    parts = []
    for start in range(0, len(rows), step):
        weights = rows[start : start + step][:, items]
        taken, errors = (
            np.cumsum(np.add.reduceat(w, starts, axis=1), 1)
            for w in (weights, weights * wrong[order])
        )
        at = [_risk_at(taken, errors, coverage) for coverage in coverages]
        risk = ratio(errors[:, -1], taken[:, -1])
        parts.append((risk, _area(taken, errors), np.array(at).reshape(len(at), len(risk)).T))
    return Selective(*(np.concatenate(found) for found in zip(*parts, strict=True)))


def _area(taken: Array, errors: Array) -> Array:
    """From running sums over levels of sureness, (rows, levels)."""
    before, wrong = _before(taken), _before(errors)
    size = taken - before
    share = np.where(size > 0.0, (errors - wrong) / np.maximum(size, 1.0), 0.0)
    # With harmonic numbers H, Σ_{j ≤ n} (E + j·e) / (W + j) = n·e + (E − W·e)·(H(W + n) − H(W)).
    most = round(float(taken.max(initial=0.0)))
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, most + 1))])
    low, high = (np.rint(n).astype(np.intp) for n in (before, taken))
    parts = size * share + (wrong - before * share) * (harmonic[high] - harmonic[low])
    return ratio(parts.sum(1), taken[:, -1])


def _risk_at(taken: Array, errors: Array, coverage: float) -> Array:
    """Within the level where the coverage is reached, errors are spread evenly, (rows,)."""
    want = coverage * taken[:, -1]
    at = np.minimum((taken < want[:, None] - 1e-9).sum(1), taken.shape[1] - 1)
    rows = np.arange(len(want))
    start, earlier = _before(taken)[rows, at], _before(errors)[rows, at]
    part = ratio(want - start, taken[rows, at] - start)
    return ratio(earlier + part * (errors[rows, at] - earlier), want)


def margin_of(likely: Array) -> Array:
    """Return how far a probability is from ½, (n_facts,), from 0 to ½.

    To abstain below ½ − t is to abstain within [t, 1 − t].
    """
    return np.abs(likely - 0.5)


def spread_of(table: AnswerTable) -> Array:
    """Return the disagreement of the judges about each fact, (n_facts,).

    Standard deviation of their probabilities, from 0 to ½; 0 for one judge alone, NaN where nobody
    answered.

    The entropy of the mean would be no second rule: it orders facts as the mean's distance from ½
    does.
    """
    centre = mean_probability(table.said)
    spread: Array = np.sqrt(mean_probability((table.said - centre[:, None]) ** 2))
    return spread


def kept_by_margin(likely: Array, low: float) -> Mask:
    """Return facts that are not within [low, 1 − low], (n_facts,).

    Those without a probability are not kept.
    """
    with np.errstate(invalid="ignore"):
        kept: Mask = (likely < low - 1e-12) | (likely > 1.0 - low + 1e-12)
    return kept


def _before(values: Array) -> Array:
    return np.concatenate([np.zeros((len(values), 1)), values[:, :-1]], 1)

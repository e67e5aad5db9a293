"""How far answers move from one form of asking to another, for each judge and for the panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.aggregators.base import combined_by
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.live_queries import JudgeResponses
from scenewright.evals.studies.panel.table import AnswerTable, Places

MEASURES = (
    *("signed", "absolute", "flips", "lost_yes", "gained_yes"),
    *("accuracy", "false_yes", "fooled"),
)
"""The figures of a :class:`Shift`."""


@dataclass(frozen=True, slots=True, eq=False)
class Voter:
    """What one judge, or one aggregator over all, says to one form."""

    name: str
    """The judge's id or the aggregator's name."""
    panel: bool
    """Whether it is an aggregator."""
    said: Array
    """Probability that the fact holds, (n_rows,); NaN without one."""
    votes: Array
    """1 yes, 0 no, NaN likewise."""


@dataclass(frozen=True, slots=True)
class Shift:
    """From one form to another, over the rows that have an answer to both. Shares and
    differences, not percent; intervals go by items."""

    signed: Figure
    """Mean change of the probability: that of the mean score."""
    absolute: Figure
    """Mean |change| of the probability."""
    flips: Figure
    """Share of votes that turned round."""
    lost_yes: Figure
    """Of the facts that had a yes, share that got a no."""
    gained_yes: Figure
    """Of the facts that had a no, share that got a yes."""
    accuracy: Figure
    """Change of the share of right votes, where the truth is known."""
    false_yes: Figure
    """Change of the share of facts that do not hold and got a yes."""
    fooled: Figure
    """Of the facts that do not hold and had a no, share that got a yes: the success rate of an
    attack that wants a yes."""

    def record(self) -> dict[str, Any]:
        """Flat numbers, for parquet."""
        found: dict[str, Any] = {}
        for name in MEASURES:
            figure: Figure = getattr(self, name)
            found |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return found | {"n": self.signed.n, "n_false": self.false_yes.n}


def voters_of(
    table: AnswerTable,
    heard: JudgeResponses,
    aggregators: Sequence[str],
    learn: AnswerTable | None = None,
) -> tuple[Voter, ...]:
    """Every judge of ``table`` and every aggregator that can be used, from what was ``heard``.

    ``learn`` may have further judges. An aggregator that learns from answers learns from those to
    this form. Raises ``PanelStudyError`` for an unknown aggregator.
    """
    found = [
        Voter(judge, False, heard.said[:, at], heard.votes[:, at])
        for at, judge in enumerate(table.judge_ids)
    ]
    known = None
    if learn is not None and set(table.judge_ids) <= set(learn.judge_ids):
        known = learn.with_judges([learn.judge_ids.index(judge) for judge in table.judge_ids])
    answers = table.with_said(heard.said, heard.votes)
    for name, likely in combined_by(tuple(aggregators), answers, known).items():
        votes = np.where(np.isnan(likely), np.nan, likely > 0.5)
        found.append(Voter(name, True, likely, votes))
    return tuple(found)


class Shifts:
    """Compares forms over the same resamples of items."""

    def __init__(self, items: Places, truth: Array, resamples: int, seed: int) -> None:
        """``items``: number of each row's item, ``truth``: 1, 0 or NaN, both (n_rows,)."""
        if not len(items):
            raise PanelStudyError("there is no fact to ask about")
        self.items = items
        self.truth = truth
        self.bootstrap = Bootstrap(int(items.max()) + 1, seed, resamples)

    def between(self, pairs: Sequence[tuple[Voter, Voter]], truth: Array | None = None) -> Shift:
        """From the first to the second of each of ``pairs``, of all pairs together.

        ``truth``: of the second, where it is not that of the rows; the rows' own by default.
        """
        known = self.truth if truth is None else truth
        n = len(pairs)
        items, truths = np.tile(self.items, n), np.tile(known, n)
        p, q, a, b = (
            np.concatenate([getattr(pair[side], what) for pair in pairs])
            for what in ("said", "votes") for side in (0, 1)
        )  # fmt: skip
        both = ~np.isnan(p) & ~np.isnan(q)
        items, truths, p, q, a, b = (x[both] for x in (items, truths, p, q, a, b))
        yes, no = a == 1.0, a == 0.0
        labelled, false = ~np.isnan(truths), truths == 0.0
        share = self._share
        return Shift(
            signed=share(items, q - p),
            absolute=share(items, np.abs(q - p)),
            flips=share(items, a != b),
            lost_yes=share(items[yes], b[yes] == 0.0),
            gained_yes=share(items[no], b[no] == 1.0),
            accuracy=share(
                items[labelled],
                (b[labelled] == truths[labelled]) * 1.0 - (a[labelled] == truths[labelled]),
            ),
            false_yes=share(items[false], b[false] - a[false]),
            fooled=share(items[false & no], b[false & no] == 1.0),
        )

    def steadier(
        self, single: Sequence[Sequence[tuple[Voter, Voter]]], panel: Sequence[tuple[Voter, Voter]]
    ) -> Figure:
        """Share of flipped votes of a panel minus the mean of that of its judges, paired: over the
        rows that all of them answered in both forms. ``single``: one list of pairs a judge."""

        def flips(pairs: Sequence[tuple[Voter, Voter]]) -> Array:
            gaps = np.concatenate([after.votes - before.votes for before, after in pairs])
            found: Array = np.abs(gaps)
            return found

        judges = np.mean([flips(pairs) for pairs in single], axis=0)
        gap = flips(panel) - judges
        items = np.tile(self.items, len(panel))
        known = ~np.isnan(gap)
        return self._share(items[known], gap[known])

    def mean(self, values: Array) -> Figure:
        """Mean of ``values`` (n_rows,), NaN left out."""
        known = ~np.isnan(values)
        return self._share(self.items[known], values[known])

    def _share(self, items: Places, part: Array) -> Figure:
        if not len(items):
            return Figure(value=None)
        return self.bootstrap.share(items, part)


def estimate(figure: Figure, factor: float = 100.0) -> Estimate:
    """``figure`` for tables and plots, in percent unless told otherwise."""
    made = Estimate(value=figure.value, low=figure.low, high=figure.high, n=figure.n)
    return made.times(factor)


def percent(figure: Figure, digits: int = 1, sign: bool = False) -> str:
    """``12.3 % [10.0, 14.9]``, or a dash."""
    return _in_words(figure, digits, sign, " %")


def points(figure: Figure, digits: int = 1) -> str:
    """``+2.1 points [0.4, 3.9]``: a difference of shares, in percentage points."""
    return _in_words(figure, digits, True, " points")


def _in_words(figure: Figure, digits: int, sign: bool, unit: str) -> str:
    if figure.value is None:
        return "–"
    shown = estimate(figure)
    number, _, interval = shown.text(digits, sign).partition(" [")
    return number + unit + (f" [{interval}" if interval else "")


def clear(figure: Figure) -> int:
    """1 if the interval lies above 0, −1 if below, else 0: nothing can be said of a direction."""
    if figure.low is not None and figure.low > 0.0:
        return 1
    return -1 if figure.high is not None and figure.high < 0.0 else 0


def apart(one: Figure, other: Figure) -> bool:
    """Whether the two intervals have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def flat(figure: Figure) -> Any:
    """As in the figures of a study."""
    if figure.low is None or figure.high is None:
        return figure.value
    return {"mean": figure.value, "low": figure.low, "high": figure.high}

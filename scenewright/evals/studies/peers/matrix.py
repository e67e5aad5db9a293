"""The table metric × judge × aggregator of an evaluation: means, differences, and agreement with
people.

Intervals are of items, each drawn with all its pictures. Differences between arms are paired by
item. Correlations are over pictures, in the same resamples for every voter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate, difference, mean, nothing, over_seeds
from scenewright.evals.studies.panel.ranks import RankCorrelation, image_counts
from scenewright.evals.studies.panel.resampling import DECIMALS, ItemResamples, kendall, summary
from scenewright.evals.studies.panel.sources.ratings import with_ratings
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.evals.studies.peers.scores import PeerScores, Voted
from scenewright.evals.studies.prompts_read import PromptsRead

OnProgress = Callable[[int, int], None]
_MOST_PAIRED = 3000
"""Pictures up to which Kendall's correlation has an interval: it takes the square of them."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric by one voter."""

    metric: str
    """The metric."""
    voter: str
    """Its voter, see :attr:`~.scores.Voted.voter`."""
    of_set: bool
    """Whether it scores sets."""
    means: Mapping[str, Estimate]
    """Arm → mean over items."""
    differences: Mapping[str, Estimate]
    """Arm but the first → how much more than the first, paired by item."""
    spearman: Estimate | None = None
    """Rank correlation with people's ratings; None without ratings."""
    kendall: Estimate | None = None
    """Kendall's tau-b, likewise."""


@dataclass(frozen=True, slots=True)
class PeerMatrix:
    """The table."""

    name: str
    """The evaluation."""
    items: int
    """Items with a score."""
    arms: tuple[str, ...]
    """``backend/condition``; the others are compared with the first."""
    lines: tuple[MetricRow, ...]
    """By metric; judges, aggregators, panels."""
    rated: int = 0
    """Pictures with ratings."""
    resamples: int = 0
    """Resamples behind the correlations."""
    notes: tuple[str, ...] = ()
    """What to know of the ratings."""
    prompts: Mapping[str, PromptsRead | None] = field(default_factory=dict)
    """Arm → what of the prompts of its kept pictures was not read."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""

    def records(self) -> list[dict[str, Any]]:
        """One record a figure, unrounded."""
        found = []
        for line in self.lines:
            figures = [("mean", arm, "", e) for arm, e in line.means.items()]
            figures += [("difference", arm, self.arms[0], e) for arm, e in line.differences.items()]
            for name, estimate in (("spearman", line.spearman), ("kendall", line.kendall)):
                figures += [(name, "", "", estimate)] if estimate is not None else []
            for name, arm, base, e in figures:
                told = {"metric": line.metric, "voter": line.voter, "figure": name}
                numbers = e.model_dump(include={"value", "low", "high", "sd", "n", "seeds"})
                found.append(told | {"arm": arm, "base": base} | numbers | {"reason": e.reason})
        return found


def matrix_of(
    scores: PeerScores,
    ratings: str | Path | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    told: OnProgress = lambda done, total: None,
) -> PeerMatrix:
    """The table of ``scores``. ``ratings``: a CSV or parquet file of what people said, as
    :func:`~scenewright.evals.studies.panel.sources.ratings.with_ratings` reads it; ``told`` hears
    of voters done. Raises ``PanelStudyError`` for ratings that cannot be used."""
    agreement = None
    notes: tuple[str, ...] = ()
    rated = 0
    if ratings is not None:
        table, notes = with_ratings(scores.table(), scores.shown, ratings)
        agreement = _Agreement(table, resamples, seed)
        rated = int((~np.isnan(table.ratings)).sum())
    lines = []
    for at, voted in enumerate(scores.voted):
        lines.append(_line(scores, voted, agreement, seed))
        told(at + 1, len(scores.voted))
    return PeerMatrix(
        name=scores.name,
        items=len(scores.items),
        arms=scores.arms,
        lines=tuple(lines),
        rated=rated,
        resamples=resamples if rated else 0,
        notes=notes,
        prompts=scores.prompts,
        self_reports=scores.self_reports,
    )


def _line(scores: PeerScores, voted: Voted, agreement: _Agreement | None, seed: int) -> MetricRow:
    of_arm = {arm: voted.values[:, at] for at, arm in enumerate(scores.arms)}
    first = of_arm[scores.arms[0]]
    if voted.of_set:
        means = {arm: over_seeds(_known(values[0]), 0) for arm, values in of_arm.items()}
        gaps = {arm: over_seeds(_known((of_arm[arm] - first)[0]), 0) for arm in scores.arms[1:]}
        return MetricRow(voted.metric, voted.voter, True, means, gaps)
    line = MetricRow(
        voted.metric,
        voted.voter,
        False,
        {arm: mean(values, seed) for arm, values in of_arm.items()},
        {arm: difference(of_arm[arm], first) for arm in scores.arms[1:]},
    )
    if agreement is None:
        return line
    mine = scores.of_pictures(voted)
    return MetricRow(
        line.metric, line.voter, False, line.means, line.differences,
        agreement.spearman(mine), agreement.kendall(mine),
    )  # fmt: skip


def _known(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


class _Agreement:
    """Rank correlations with one table's ratings, all in the same resamples of items."""

    def __init__(self, table: AnswerTable, resamples: int, seed: int) -> None:
        drawn = ItemResamples(table, resamples, seed)
        self._ratings = table.ratings
        self._counts = image_counts(drawn.counts, table.item_of_image)
        self._ranks = RankCorrelation(self._ratings, self._counts)

    def spearman(self, scores: Array) -> Estimate:
        """Spearman's."""
        n = self._n(scores)
        if n < 3:
            return _too_few(n)
        return _estimate(self._ranks.value(scores), self._ranks.drawn(scores), n)

    def kendall(self, scores: Array) -> Estimate:
        """Kendall's tau-b."""
        n = self._n(scores)
        if n < 3:
            return _too_few(n)
        there = ~np.isnan(scores) & ~np.isnan(self._ratings)
        value = kendall(scores[there], self._ratings[there])
        drawn = np.zeros(0)
        if n <= _MOST_PAIRED:
            drawn = kendall_of_counts(scores[there], self._ratings[there], self._counts[:, there])
        return _estimate(value, drawn, n)

    def _n(self, scores: Array) -> int:
        return int((~np.isnan(scores) & ~np.isnan(self._ratings)).sum())


def kendall_of_counts(first: Array, second: Array, counts: Array) -> Array:
    """Kendall's tau-b of ``first`` and ``second`` (n,) in resamples, (resamples,), in which each of
    the n stands ``counts`` (resamples, n) times; NaN where one of the two is constant."""
    a, b = (np.round(values, DECIMALS) for values in (first, second))
    up, along = (np.sign(v[:, None] - v[None, :]) for v in (a, b))

    def pairs(signs: Array) -> Array:
        found: Array = ((counts @ signs) * counts).sum(1)
        return found

    with np.errstate(all="ignore"):
        both = pairs(np.abs(up)) * pairs(np.abs(along))
        result: Array = np.where(both > 0.0, pairs(up * along) / np.sqrt(both), np.nan)
    return result


def _estimate(value: float, drawn: Array, n: int) -> Estimate:
    found = summary(value, drawn, n)
    if found.value is None:
        return nothing("all scores, or all ratings, are alike")
    return Estimate(value=found.value, low=found.low, high=found.high, n=n)


def _too_few(n: int) -> Estimate:
    return nothing(f"{n} pictures have both a score and a rating: three are needed")

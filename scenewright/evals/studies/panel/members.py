"""How good every panel of a table's judges is, and what its size, members and families do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.metric_evaluator import (
    MEASURES,
    Measure,
    MetricEvaluator,
    ratio,
)
from scenewright.evals.studies.panel.pairs import mean_of
from scenewright.evals.studies.panel.subsets import Combiner, Members, shapley
from scenewright.evals.studies.panel.table import AnswerTable

Readings = Mapping[Members, Array]
"""Panel → one measure of it for every row of weights, (rows,)."""


@dataclass(frozen=True, slots=True)
class OfSize:
    """The panels of one size by one aggregator."""

    size: int
    """Judges of each."""
    panels: int
    """How many were measured."""
    mean: Figure
    """Mean over them."""
    gain: Figure | None
    """The mean less that of panels with one judge fewer, paired; None for one judge."""
    best: Members
    """The one that is best on all items: flattered, since it was chosen on them."""
    best_figure: Figure
    """Its own figure."""
    best_elsewhere: float | None
    """Mean over halvings of the items of the best on one half, measured on the other."""
    worst: Members
    """The one that is worst on all items."""
    worst_figure: Figure
    """Its own figure."""


def measured(
    combiner: Combiner,
    evaluator: MetricEvaluator,
    panels: Iterable[Members],
    names: Iterable[str],
    measure: Measure,
    told: Callable[[], None] = lambda: None,
) -> dict[str, dict[Measure, dict[Members, Array]]]:
    """Aggregator → measure → panel → reading, of every panel by every aggregator; ``told`` is
    called after each.

    By ``measure``, and of single judges and the full panel, readings are of every row of weights;
    the other measures of the other panels are on all items alone, (1,).
    """
    chosen = tuple(panels)
    ends = (1, max(len(members) for members in chosen))
    found: dict[str, dict[Measure, dict[Members, Array]]] = {}
    for name in names:
        by: dict[Measure, dict[Members, Array]] = {one: {} for one in evaluator.measures}
        for members in chosen:
            likely = combiner.likely(name, members)
            for one, kept in by.items():
                whole = one == measure or len(members) in ends
                kept[members] = evaluator.read(
                    likely, one, None if whole else evaluator.weights[:1]
                )
            told()
        found[name] = by
    return found


def by_size(readings: Readings, evaluator: MetricEvaluator, measure: Measure) -> tuple[OfSize, ...]:
    """Each size in turn. Sizes all of whose panels are undefined are left out."""
    sign = 1.0 if MEASURES[measure].higher else -1.0
    found: list[OfSize] = []
    before: Array | None = None
    for size in sorted({len(members) for members in readings}):
        mine = {m: r for m, r in readings.items() if len(m) == size and not np.isnan(r[0])}
        if not mine:
            before = None
            continue
        order = sorted(mine, key=lambda members: -sign * float(mine[members][0]))
        mean = mean_of(list(mine.values()))
        found.append(
            OfSize(
                size=size,
                panels=len(mine),
                mean=evaluator.figure(mean),
                gain=None if before is None else evaluator.figure(mean - before),
                best=order[0],
                best_figure=evaluator.figure(mine[order[0]]),
                best_elsewhere=_elsewhere(np.stack(list(mine.values())) * sign, evaluator, sign),
                worst=order[-1],
                worst_figure=evaluator.figure(mine[order[-1]]),
            )
        )
        before = mean
    return tuple(found)


def _elsewhere(goodness: Array, evaluator: MetricEvaluator, sign: float) -> float | None:
    """``goodness`` is (panels, rows), higher is better."""
    found = []
    for here, there in evaluator.halves:
        if not np.isnan(goodness[:, here]).all():
            found.append(goodness[int(np.nanargmax(goodness[:, here])), there])
    known = [value for value in found if not np.isnan(value)]
    return sign * float(np.mean(known)) if known else None


def without_each(
    readings: Readings, evaluator: MetricEvaluator, n_judges: int
) -> tuple[Figure, ...]:
    """What each judge adds: the full panel less the panel without it, paired."""
    everyone = tuple(range(n_judges))
    full = readings[everyone]
    return tuple(
        evaluator.figure(full - readings[tuple(at for at in everyone if at != judge)])
        for judge in everyone
    )


def shapley_figures(
    readings: Readings, evaluator: MetricEvaluator, measure: Measure, n_judges: int
) -> tuple[Figure, ...]:
    """Shapley value of each judge with its interval.

    Nobody is worth what chance reaches, and so is a panel whose scores are all alike: it orders
    nothing. Raises ``PanelStudyError`` unless every panel was measured.
    """
    chance = MEASURES[measure].chance
    worth = dict(readings)
    if measure in ("truth_rank", "rating_rank"):
        worth = {m: np.where(np.isnan(r), chance, r) for m, r in worth.items()}
    return tuple(evaluator.figure(row) for row in shapley(worth, chance, n_judges))


def cheapest_as_good(
    readings: Readings, evaluator: MetricEvaluator, cost: Mapping[Members, float], margin: float
) -> tuple[Members, Figure] | None:
    """The cheapest panel that is not worse than the full one by ``margin`` (higher is better): the
    interval of the paired difference lies above −``margin``. With its difference; None if all
    cheaper ones may be worse."""
    everyone = max(readings, key=len)
    for members in sorted(readings, key=lambda m: (cost[m], len(m), m)):
        if cost[members] >= cost[everyone]:
            break
        gap = evaluator.figure(readings[members] - readings[everyone])
        if gap.low is not None and gap.low > -margin:
            return members, gap
    return None


def reliability(table: AnswerTable, members: Members, evaluator: MetricEvaluator) -> Array:
    """Cronbach's α (1951) of the image scores of ``members``, (rows,): the mean of all split-half
    reliabilities of their sum. Says how far the judges agree on images, not whether they are right.
    Images that one of them did not score are left out; NaN for one judge, or if all are alike."""
    k = len(members)
    scores = np.stack([table.image_scores(table.said[:, at]) for at in members], 1)
    there = ~np.isnan(scores).any(1)
    at, n = table.item_of_image[there], table.n_items
    kept = scores[there]
    both = np.concatenate([kept, kept.sum(1, keepdims=True)], 1)
    # About the mean, so that the difference of large sums loses nothing.
    both = both - both.mean(0) if len(both) else both
    columns = [np.ones(len(both)), *both.T, *(both.T**2)]
    per = np.stack([np.bincount(at, column, minlength=n) for column in columns], 1)
    sums = evaluator.weights @ per
    count = sums[:, :1]
    means = ratio(sums[:, 1 : k + 2], count)
    spread = ratio(sums[:, k + 2 :], count) - means**2
    if k < 2:
        return np.full(len(sums), np.nan)
    spread = np.where(spread > 1e-12, spread, 0.0)
    return k / (k - 1) * (1.0 - ratio(spread[:, :k].sum(1), spread[:, k]))

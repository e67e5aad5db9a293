"""Combine and measure panels of some judges of a table.

Which panels there are and what they say; whether two judges err together, within families and
between; and how quality depends on a panel's size, members and families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, factorial

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.aggregators.base import same_judges
from scenewright.evals.studies.panel.aggregators.registry import (
    AGGREGATORS,
    aggregator_of,
    out_of_fold,
)
from scenewright.evals.studies.panel.metrics import MEASURES, MeasureName, MetricEvaluator, ratio
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

Members = tuple[int, ...]
"""Columns of a panel's judges, ascending."""
FOLDS = 5
"""Parts of the items in a cross-validation."""
_ADDITIVE = ("calibrated",)
"""Aggregators whose log-odds are the sum of those by each judge alone."""


def panels_of(n_judges: int, most: int, seed: int = 0) -> tuple[Members, ...]:
    """Return the panels that ``n_judges`` judges can form, by size, in lexicographic order.

    If there are more than ``most``, then single judges, the full panel and those that lack one
    judge, and of each other size an equal number drawn without replacement: pairs first, where
    all of them fit into half of the rest. There are never fewer than the former.
    """
    if (1 << n_judges) - 1 <= most:
        return tuple(
            members
            for size in range(1, n_judges + 1)
            for members in combinations(range(n_judges), size)
        )
    rng = np.random.default_rng(seed)
    kept: dict[int, set[Members]] = {
        size: set(combinations(range(n_judges), size)) for size in (1, n_judges - 1, n_judges)
    }
    left = most - sum(len(found) for found in kept.values())
    open_sizes = [size for size in range(2, n_judges - 1)]
    if open_sizes and comb(n_judges, 2) <= left // 2:
        kept[2] = set(combinations(range(n_judges), 2))
        left -= len(kept[2])
        open_sizes.remove(2)
    # The sizes with the fewest panels first, so that what they leave goes to the others.
    for at, size in enumerate(sorted(open_sizes, key=lambda size: comb(n_judges, size))):
        want = min(comb(n_judges, size), max(0, left) // (len(open_sizes) - at))
        kept[size] = _drawn(n_judges, size, want, rng)
        left -= len(kept[size])
    return tuple(members for size in sorted(kept) for members in sorted(kept[size]))


def _drawn(n: int, size: int, want: int, rng: np.random.Generator) -> set[Members]:
    if 2 * want >= comb(n, size):
        every = list(combinations(range(n), size))
        return {every[at] for at in rng.permutation(len(every))[:want]}
    found: set[Members] = set()
    while len(found) < want:
        found.add(tuple(sorted(int(at) for at in rng.permutation(n)[:size])))
    return found


class Combiner:
    """What panels of a table's judges say by an aggregator, each panel once.

    An aggregator that must learn does so from ``learn``, or else from the other items of the
    table itself (cross-validation in :data:`FOLDS` parts).
    """

    def __init__(self, table: AnswerTable, learn: AnswerTable | None = None, seed: int = 0) -> None:
        self.table = table
        self._learn = None if learn is None else same_judges(table, learn, "a study")
        self._seed = seed
        self._kept: dict[tuple[str, Members], Array] = {}
        self._evidence: dict[str, Array] = {}

    def usable(self, names: Iterable[str]) -> dict[str, str]:
        """Return why each aggregator cannot be used, empty if it can.

        It must combine every judge alone and all together. Raises ``PanelStudyError`` for unknown
        names.
        """
        found = {}
        everyone = tuple(range(len(self.table.judges)))
        for name in names:
            needs = aggregator_of(name).fitted_to
            have = self.table if self._learn is None else self._learn
            rated = bool((~np.isnan(have.ratings)).sum() >= 2)
            found[name] = ""
            if (needs == "truth" and not have.is_labelled) or (needs == "ratings" and not rated):
                found[name] = f"the table has no {needs} to learn from"
                continue
            try:
                for members in (*((at,) for at in everyone), everyone):
                    self.likely(name, members)
            except PanelStudyError as error:
                found[name] = str(error)
        return found

    def likely(self, name: str, members: Members) -> Array:
        """Return the probability of each fact by ``members`` alone, (n_facts,).

        NaN where none of them answered. Raises ``PanelStudyError`` as the aggregator.
        """
        key = (name, members)
        if key not in self._kept:
            self._kept[key] = self._combined(name, members)
        return self._kept[key]

    def _combined(self, name: str, members: Members) -> Array:
        if name not in _ADDITIVE:
            return self._by_aggregator(name, members)
        if name not in self._evidence:
            columns = [self._by_aggregator(name, (at,)) for at in range(len(self.table.judges))]
            alone = np.stack(columns, 1)
            with np.errstate(divide="ignore"):
                self._evidence[name] = np.log(alone) - np.log1p(-alone)
        evidence = self._evidence[name][:, members]
        known = ~np.isnan(evidence)
        total = np.where(known, evidence, 0.0).sum(1)
        result: Array = np.where(known.any(1), expit(total), np.nan)
        return result

    def _by_aggregator(self, name: str, members: Members) -> Array:
        aggregator = aggregator_of(name)
        part = self.table.with_judges(members)
        if self._learn is not None:
            return aggregator.combine(part, self._learn.with_judges(members))
        if aggregator.fitted_to in ("nothing", "answers"):
            return aggregator.combine(part)
        return out_of_fold(name, part, FOLDS, self._seed)


def usable_names(combiner: Combiner, wanted: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the aggregators of ``wanted`` that can be used, and a note about each that cannot.

    Raises ``PanelStudyError`` if none can.
    """
    why = combiner.usable(wanted)
    names = tuple(name for name in wanted if not why[name])
    if not names:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in why.items())
        raise PanelStudyError(
            f"no aggregator can be used ({reasons}): name some of {', '.join(AGGREGATORS)}"
        )
    return names, [
        f"{name} is left out: {reason.rstrip('.')}." for name, reason in why.items() if reason
    ]


def shapley(values: Mapping[Members, Array], empty: float, n_judges: int) -> Array:
    """Return the Shapley value (1953) of each judge, (n_judges, rows).

    Its marginal contribution averaged over all orders in which the panel may be put together.

    ``φ_i = Σ_{S ∌ i} |S|!·(n − |S| − 1)!/n! · (v(S + i) − v(S))``; they add up to the full panel's
    value less ``empty``, that of the empty panel. ``values`` are those of all 2ⁿ − 1 panels,
    (rows,) each. Raises ``PanelStudyError`` where one is missing.
    """
    everyone = tuple(range(n_judges))
    rows = len(next(iter(values.values()), np.zeros(0)))
    worth: dict[Members, Array] = {(): np.full(rows, empty), **values}
    found = np.zeros((n_judges, rows))
    for judge in everyone:
        others = [at for at in everyone if at != judge]
        for size in range(n_judges):
            weight = factorial(size) * factorial(n_judges - size - 1) / factorial(n_judges)
            for members in combinations(others, size):
                joined = tuple(sorted((*members, judge)))
                if members not in worth or joined not in worth:
                    raise PanelStudyError("Shapley values need every panel of the judges")
                found[judge] += weight * (worth[joined] - worth[members])
    return found


def costs_per_image(table: AnswerTable) -> dict[str, Array]:
    """Return ``usd``, ``tokens`` and ``seconds`` of each judge for an image, as far as known.

    Dollars and tokens are (n_judges,), seconds (n_images, n_judges). Images without facts count.
    """
    n = len(table.images)
    found: dict[str, Array] = {}
    for name in ("usd", "tokens", "seconds"):
        spent = np.asarray(getattr(table, name), float)
        if not np.nansum(spent) > 0.0:
            continue
        columns = [np.bincount(table.image_of, np.nan_to_num(c), minlength=n) for c in spent.T]
        sums = np.stack(columns, 1).astype(float)
        found[name] = sums if name == "seconds" else sums.mean(0)
    return found


def cost_of(costs: Mapping[str, Array], members: Members) -> dict[str, float]:
    """Return the cost of a panel for an image.

    The sum of dollars and of tokens, and the mean seconds of its slowest judge, as all are asked at
    the same time.
    """
    return {
        name: float(
            spent[:, members].max(1).mean() if name == "seconds" else spent[list(members)].sum()
        )
        for name, spent in costs.items()
    }


Pair = tuple[int, int]


def error_correlations(evaluator: MetricEvaluator) -> dict[Pair, Array]:
    """Correlation of each two judges' wrong votes given the truth, (rows,) a pair of columns.

    φ of the two errors, pooled over facts that hold and facts that do not, as deviations from each
    judge's own error rate there: what error rates make by chance is 0. Facts that both voted on,
    and whose truth is known; NaN where one of the two never erred, or always did.
    """
    votes, truth = evaluator.table.votes, evaluator.table.truth[:, None]
    there = ~np.isnan(votes) & ~np.isnan(truth)
    wrong = there & (votes != truth)
    found: dict[Pair, Array] = {}
    for a, b in combinations(range(votes.shape[1]), 2):
        shared = np.zeros((3, len(evaluator.weights)))
        for holds in (1.0, 0.0):
            known = there[:, a] & there[:, b] & (truth[:, 0] == holds)
            first, second = wrong[:, a] & known, wrong[:, b] & known
            n, x, y, both = evaluator.sums([known, first, second, first & second]).T
            with np.errstate(invalid="ignore", divide="ignore"):
                parts = np.array([both - x * y / n, x - x**2 / n, y - y**2 / n])
            shared += np.where(n > 0.0, parts, 0.0)
        found[a, b] = ratio(shared[0], np.sqrt(shared[1] * shared[2]))
    return found


def vote_agreements(evaluator: MetricEvaluator) -> dict[Pair, Array]:
    """Return Cohen's κ of each two judges' votes, (rows,): where the truth is not known.

    It cannot tell judges that are right together from judges that err together.
    """
    votes = evaluator.table.votes
    found: dict[Pair, Array] = {}
    for a, b in combinations(range(votes.shape[1]), 2):
        both = ~np.isnan(votes[:, a]) & ~np.isnan(votes[:, b])
        yes, other = both & (votes[:, a] == 1.0), both & (votes[:, b] == 1.0)
        n, same, m, o = evaluator.sums([both, both & (yes == other), yes, other]).T
        chance = m * o + (n - m) * (n - o)
        found[a, b] = ratio(n * same - chance, n * n - chance)
    return found


def split_by_family(
    pairs: Mapping[Pair, Array], table: AnswerTable
) -> tuple[Array | None, Array | None]:
    """Return the mean over the pairs within a family and over those of two families, (rows,).

    None where there is no such pair.
    """
    families = table.families
    within = [v for (a, b), v in pairs.items() if families[a] == families[b]]
    between = [v for (a, b), v in pairs.items() if families[a] != families[b]]
    return (
        mean_of(within) if within else None,
        mean_of(between) if between else None,
    )


def mean_of(readings: Sequence[Array]) -> Array:
    """Mean of several readings, (rows,), of those that are defined; NaN where none is."""
    stacked = np.stack(readings)
    known = ~np.isnan(stacked)
    return ratio(np.where(known, stacked, 0.0).sum(0), known.sum(0))


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
    """The one that is best on all items; overstated, since it was chosen on them."""
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
    measure: MeasureName,
    told: Callable[[], None] = lambda: None,
) -> dict[str, dict[MeasureName, dict[Members, Array]]]:
    """Measure every panel by every aggregator.

    ``told`` is called after each.

    By ``measure``, and of single judges and the full panel, readings are of every row of weights;
    the other measures of the other panels are on all items alone, (1,).
    """
    chosen = tuple(panels)
    ends = (1, max(len(members) for members in chosen))
    found: dict[str, dict[MeasureName, dict[Members, Array]]] = {}
    for name in names:
        by: dict[MeasureName, dict[Members, Array]] = {one: {} for one in evaluator.measures}
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


def by_size(
    readings: Readings, evaluator: MetricEvaluator, measure: MeasureName
) -> tuple[OfSize, ...]:
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
    """Return the gain by each judge: the full panel less the panel without it, paired."""
    everyone = tuple(range(n_judges))
    full = readings[everyone]
    return tuple(
        evaluator.figure(full - readings[tuple(at for at in everyone if at != judge)])
        for judge in everyone
    )


def shapley_figures(
    readings: Readings, evaluator: MetricEvaluator, measure: MeasureName, n_judges: int
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
    """Return the cheapest panel that is not worse than the full one by ``margin``.

    With its paired difference, whose interval is above −``margin`` (higher is better); None if all
    cheaper ones may be worse.
    """
    everyone = max(readings, key=len)
    for members in sorted(readings, key=lambda m: (cost[m], len(m), m)):
        if cost[members] >= cost[everyone]:
            break
        gap = evaluator.figure(readings[members] - readings[everyone])
        if gap.low is not None and gap.low > -margin:
            return members, gap
    return None


def reliability(table: AnswerTable, members: Members, evaluator: MetricEvaluator) -> Array:
    """Return Cronbach's α (1951) of the image scores of ``members``, (rows,).

    The mean of all split-half reliabilities of their sum. Says how far the judges agree on images,
    not whether they are right. Images that one of them did not score are left out; NaN for one
    judge, or if all are alike.
    """
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

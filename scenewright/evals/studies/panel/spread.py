"""The variance components of a table of answers, and power by drawing from it.

The components are estimated by the analysis of variance: facts within items, judges crossed with
them, items random (Searle, Casella & McCulloch, 1992, ch. 4); a component that comes out negative
is 0. Items are the unit of resampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import t

from scenewright.agents.panel.aggregation import Array, dawid_skene
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.power import Spread, Test
from scenewright.evals.studies.panel.table import AnswerTable, Places

_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Differences:
    """What two models' images of the same items differ by, as each judge has it."""

    models: tuple[str, str]
    """The first minus the second; equal where images of one model are compared (unpaired)."""
    facts: Array
    """By fact, (n_facts, n_judges): facts under an absent parent count 0, no NaN."""
    item: Places
    """Number of each fact's item, (n_facts,), from 0."""
    items: Places
    """Number in the table of each item, (n_items,)."""

    @property
    def n(self) -> int:
        """How many items there are."""
        return int(self.item.max()) + 1 if len(self.item) else 0

    @property
    def by_item(self) -> Array:
        """Mean over each item's facts, (n_items, n_judges)."""
        sums = np.zeros((self.n, self.facts.shape[1]))
        np.add.at(sums, self.item, self.facts)
        return sums / np.bincount(self.item)[:, None]


def judged_values(table: AnswerTable) -> Array:
    """Each judge's probabilities (n_facts, n_judges), 0 under a parent that it found absent."""
    return np.stack([table.voided(column) for column in table.said.T], 1)


def paired_differences(table: AnswerTable) -> list[Differences]:
    """One entry a pair of models that drew the same items, on facts that all judges answered of
    both images. With several images of a model for an item their mean is taken."""
    values = judged_values(table)
    complete = ~np.isnan(values).any(1)
    cells: dict[str, dict[tuple[int, str], list[int]]] = {}
    for row in np.flatnonzero(complete):
        fact = table.facts[row]
        model = table.images[fact.image].model
        key = (int(table.item_of[row]), fact.id)
        cells.setdefault(model, {}).setdefault(key, []).append(int(row))
    found = []
    for a, b in combinations(sorted(set(cells) - {""}), 2):
        keys = sorted(cells[a].keys() & cells[b].keys())
        if not keys:
            continue
        gaps = [values[cells[a][k]].mean(0) - values[cells[b][k]].mean(0) for k in keys]
        items, numbers = np.unique([item for item, _ in keys], return_inverse=True)
        found.append(Differences((a, b), np.array(gaps), numbers, items.astype(np.intp)))
    return found


def single_images(table: AnswerTable) -> list[Differences]:
    """One entry a model: its images, centred, for the unpaired design. The variance of a difference
    of two of them is twice theirs."""
    values = judged_values(table)
    complete = ~np.isnan(values).any(1)
    models = np.array([image.model for image in table.images])[table.image_of]
    found = []
    for model in np.unique(models):
        rows = np.flatnonzero(complete & (models == model))
        if len(rows):
            items, numbers = np.unique(table.item_of[rows], return_inverse=True)
            found.append(Differences((str(model), str(model)), values[rows], numbers, items))
    return found


class Moments:
    """What the components of one set of differences are made of, by item: fit for resampling."""

    def __init__(self, differences: Differences) -> None:
        """Raises ``PanelStudyError`` for fewer than two items."""
        if differences.n < 2:
            raise PanelStudyError("a variance needs two items or more that all judges answered")
        values, item = differences.facts, differences.item
        self.n, self.judges = differences.n, values.shape[1]
        self.sizes = np.bincount(item, minlength=self.n).astype(float)
        self.means = differences.by_item
        within = values - self.means[item]
        common = within.mean(1)
        own = within - common[:, None]
        self._common = np.bincount(item, common**2, self.n)
        self._own = np.bincount(item, (own**2).sum(1), self.n)

    def spread(self, counts: Array | None = None) -> Spread:
        """The components of a resample in which each item is ``counts`` (n_items,) times."""
        k = np.ones(self.n) if counts is None else counts
        n, j = float(k.sum()), self.judges
        free = float(k @ (self.sizes - 1.0))
        facts = n / float(k @ (1.0 / self.sizes))
        middle = self.means.mean(1)
        own = self.means - middle[:, None]
        own = own - (k @ own) / n
        # Mean squares: of facts, of facts by judges, of items, of items by judges.
        ms_fact = float(k @ self._common) / free if free else 0.0
        ms_own = float(k @ self._own) / (free * (j - 1)) if free and j > 1 else 0.0
        ms_item = float(k @ (middle - k @ middle / n) ** 2) / (n - 1)
        ms_both = float(k @ (own**2).sum(1)) / ((n - 1) * (j - 1)) if j > 1 else 0.0
        judge_fact, fact = ms_own, max(0.0, ms_fact - ms_own / j)
        judge_item = max(0.0, ms_both - judge_fact / facts)
        common = max(0.0, ms_item - ms_both / j)
        return Spread(
            item=max(0.0, common - fact / facts),
            fact=fact,
            judge_item=judge_item,
            judge_fact=judge_fact,
        )

    @property
    def facts(self) -> float:
        """Facts of an item: their harmonic mean, which the variance of means follows."""
        return self.n / float((1.0 / self.sizes).sum())


def pooled(spreads: Sequence[Spread], factor: float = 1.0) -> Spread:
    """Mean of the components, times ``factor``."""
    if not spreads:
        raise PanelStudyError("there is nothing to take a variance of")
    names = tuple(Spread.model_fields)
    means = {name: factor * float(np.mean([getattr(s, name) for s in spreads])) for name in names}
    return Spread(**means)


class Slopes:
    """λ of each judge: its mean answer to facts that hold minus that to others.

    By the truth where it is known; where it is not known of any fact, by the Dawid–Skene posterior.
    """

    def __init__(self, table: AnswerTable) -> None:
        """Raises ``PanelStudyError`` for a table without an answer."""
        truth = table.truth
        self.labelled = not np.isnan(truth).all()
        """Whether the truth was read."""
        if not self.labelled:
            truth = dawid_skene(table.said).probabilities
        values = judged_values(table)
        there = ~np.isnan(values) & ~np.isnan(truth)[:, None]
        if not there.any():
            raise PanelStudyError(
                f"{table.name} has no answers that could be held against anything"
            )
        given = np.nan_to_num(values)
        sides = (np.nan_to_num(truth), np.nan_to_num(1.0 - truth))
        columns = [np.where(there, side[:, None], 0.0) for side in sides]
        every = np.concatenate([given * columns[0], columns[0], given * columns[1], columns[1]], 1)
        self._sums = np.zeros((table.n_items, every.shape[1]))
        np.add.at(self._sums, table.item_of, every)
        self._judges = values.shape[1]

    def of(self, counts: Array | None = None) -> Array:
        """(n_judges,), or of resamples ``counts`` (resamples, n_items) → (resamples, n_judges);
        NaN for a judge without answers to facts of either side."""
        k = np.ones((1, len(self._sums))) if counts is None else counts
        sums = (k @ self._sums).reshape(len(k), 4, self._judges)
        with np.errstate(all="ignore"):
            found: Array = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return found[0] if counts is None else found


def drawn_power(
    differences: Differences,
    n: int,
    effect: float,
    judges: int,
    *,
    test: Test | None = None,
    simulations: int = 2000,
    seed: int = 0,
) -> tuple[float, int]:
    """(share of simulated studies that find ``effect``, how many were simulated).

    Each draws n items with replacement and ``judges`` of the table's judges without, shifts the
    differences to the measured ``effect``, and does the paired test; nothing is taken to be normal.
    Unpaired, two such samples are drawn. Raises ``PanelStudyError`` for more judges than there are.
    """
    chosen = test or Test()
    values = differences.by_item
    items, k = values.shape
    if not 1 <= judges <= k:
        raise PanelStudyError(f"{judges} of {k} judges cannot be drawn")
    centred = (values - values.mean(0)) * np.sqrt(items / (items - 1))
    rng = np.random.default_rng([seed, n, judges])
    edge = float(t.isf(chosen.level / 2.0, chosen.freedom(n)))
    found = 0
    step = max(1, _BLOCK // n)
    for start in range(0, simulations, step):
        rows = min(step, simulations - start)
        at = np.argsort(rng.random((rows, k)), 1)[:, :judges]
        weights = np.zeros((rows, k))
        np.put_along_axis(weights, at, 1.0 / judges, 1)
        one = _means(centred, weights, rng.integers(0, items, (rows, n))) + effect
        if chosen.paired:
            error = one.std(1, ddof=1) / np.sqrt(n)
            gap = one.mean(1)
        else:
            two = _means(centred, weights, rng.integers(0, items, (rows, n)))
            error = np.sqrt((one.var(1, ddof=1) + two.var(1, ddof=1)) / n)
            gap = one.mean(1) - two.mean(1)
        found += int((np.abs(gap) > edge * error).sum())
    return found / simulations, simulations


def _means(values: Array, weights: Array, picks: Places) -> Array:
    """(simulations, n): the drawn items' means over each simulation's judges."""
    scores = weights @ values.T
    found: Array = np.take_along_axis(scores, picks, 1)
    return found


def holm_power(
    n: int,
    effect: float,
    variance: float,
    models: int,
    *,
    test: Test | None = None,
    simulations: int = 400,
    seed: int = 0,
) -> float:
    """Share of the differences that are there that Holm's (1979) procedure finds, simulated.

    One of ``models`` is better by the measured ``effect`` than the others, which are alike; all
    pairs are compared on the same n items. Scores are normal, so that the difference of two has the
    ``variance``. Raises ``PanelStudyError`` for fewer than two models or images.
    """
    chosen = test or Test()
    if models < 2 or n < 2:
        raise PanelStudyError(f"{models} models with {n} images: use 2 or more of each")
    pairs = np.array(list(combinations(range(models), 2)))
    steps = chosen.alpha / np.arange(len(pairs), 0, -1)
    rng = np.random.default_rng([seed, n, models])
    found = 0
    for _ in range(simulations):
        scores = rng.standard_normal((models, n)) * np.sqrt(variance / 2.0)
        scores[0] += effect
        gaps = scores[pairs[:, 0]] - scores[pairs[:, 1]]
        shift = np.abs(gaps.mean(1)) / (gaps.std(1, ddof=1) / np.sqrt(n))
        p = 2.0 * t.sf(shift, n - 1)
        order = np.argsort(p)
        passed = np.cumprod(p[order] <= steps).astype(bool)
        found += int((pairs[order[passed], 0] == 0).sum())
    return found / (simulations * (models - 1))

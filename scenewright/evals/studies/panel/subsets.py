"""Panels made of some judges of a table: which there are, what they say, what each member adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, factorial

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.evals.studies.panel.aggregators.base import AGGREGATORS, aggregator_of
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable

Members = tuple[int, ...]
"""Columns of a panel's judges, ascending."""
FOLDS = 5
"""Parts of the items in a cross-validation."""
_ADDITIVE = ("calibrated",)
"""Aggregators whose log-odds are the sum of those by each judge alone."""


def panels_of(n_judges: int, most: int, seed: int = 0) -> tuple[Members, ...]:
    """The panels that ``n_judges`` judges can form, by size, in lexicographic order.

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
        self._learn = None if learn is None else _same_judges(table, learn)
        self._seed = seed
        self._kept: dict[tuple[str, Members], Array] = {}
        self._evidence: dict[str, Array] = {}

    def usable(self, names: Iterable[str]) -> dict[str, str]:
        """Name → why it cannot be used with every judge alone and all together, empty if it can.
        Raises ``PanelStudyError`` for unknown names."""
        found = {}
        everyone = tuple(range(len(self.table.judges)))
        for name in names:
            needs = aggregator_of(name).fitted_to
            have = self.table if self._learn is None else self._learn
            truth = bool((have.truth == 1.0).any() and (have.truth == 0.0).any())
            rated = bool((~np.isnan(have.ratings)).sum() >= 2)
            found[name] = ""
            if (needs == "truth" and not truth) or (needs == "ratings" and not rated):
                found[name] = f"there is no {needs} to learn from"
                continue
            try:
                for members in (*((at,) for at in everyone), everyone):
                    self.likely(name, members)
            except PanelStudyError as error:
                found[name] = str(error)
        return found

    def likely(self, name: str, members: Members) -> Array:
        """Probability of each fact by ``members`` alone, (n_facts,), NaN where none of them
        answered. Raises ``PanelStudyError`` as the aggregator."""
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
        from scenewright.evals.studies.panel.aggregators.crossval import out_of_fold

        return out_of_fold(name, part, FOLDS, self._seed)


def usable_names(combiner: Combiner, wanted: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The aggregators of ``wanted`` that can be used, and a note about each that cannot. Raises
    ``PanelStudyError`` if none can."""
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


def _same_judges(table: AnswerTable, learn: AnswerTable) -> AnswerTable:
    lost = [judge for judge in table.judge_ids if judge not in learn.judge_ids]
    if lost:
        raise PanelStudyError(
            f"{learn.name}, which is learnt from, has no answers by {', '.join(lost)}: let it be "
            "answered by all judges of the study"
        )
    return learn.with_judges([learn.judge_ids.index(judge) for judge in table.judge_ids])


def shapley(values: Mapping[Members, Array], empty: float, n_judges: int) -> Array:
    """Shapley value (1953) of each judge, (n_judges, rows): its marginal contribution averaged over
    all orders in which the panel may be put together.

    ``φ_i = Σ_{S ∌ i} |S|!·(n − |S| − 1)!/n! · (v(S + i) − v(S))``; they add up to the full panel's
    value less ``empty``, that of nobody. ``values`` are those of all 2ⁿ − 1 panels, (rows,) each.
    Raises ``PanelStudyError`` where one is missing.
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
    """``usd`` and ``tokens`` of each judge for an image, (n_judges,), and ``seconds`` of each image
    and judge, (n_images, n_judges); only those that the table knows. Images without facts count."""
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
    """What a panel takes for an image: the sum of dollars and of tokens, and the mean seconds of
    its slowest judge, as all are asked at the same time."""
    return {
        name: float(
            spent[:, members].max(1).mean() if name == "seconds" else spent[list(members)].sum()
        )
        for name, spent in costs.items()
    }

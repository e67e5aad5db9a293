"""Which items two sides share, with what difference, and why the others are left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.reporting.score_matrix import Column
from scenewright.evals.reporting.sides import Side

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The differences after − before of one column of scores."""

    rows: NDArray[np.int64]
    """Numbers of the items on the board of the first side, (n,)."""
    differences: Array
    """(n,), each item's mean over its seeds."""
    before: Array
    """(n,) scores of the first side."""
    after: Array
    """(n,) scores of the second."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items are not among them → how many."""
    seeds: str = ""
    """Which seeds were averaged, in words; empty where each side has one and the same."""


def pair(first: Side, second: Side, column: Column) -> Pairs | None:
    """The pairs of ``column``; none if a side has no such scores at all.

    Seeds that both sides have are paired: an item's score is the mean over those of them that are
    scored on both sides. Sides without a common seed are averaged over all that each has.
    """
    one, two = first.evaluation.score_matrix, second.evaluation.score_matrix
    if column not in one.values or column not in two.values:
        return None
    place = {item: at for at, item in enumerate(two.items)}
    at = np.array([place.get(item, -1) for item in one.items], np.int64)
    shared = np.flatnonzero(at >= 0)
    there = at[shared]
    common = sorted(set(first.seeds) & set(second.seeds))
    if common:
        block_a = one.values[column][:, [first.seeds[s] for s in common]][shared]
        block_b = two.values[column][:, [second.seeds[s] for s in common]][there]
        both = ~np.isnan(block_a) & ~np.isnan(block_b)
        a, b = _mean(block_a, both), _mean(block_b, both)
    else:
        a = one.over_seeds(column, first.arms)[shared]
        b = two.over_seeds(column, second.arms)[there]
    known = ~np.isnan(a) & ~np.isnan(b)
    left: Counter[str] = Counter()
    left[f"only {first.label} has the item"] = len(one.items) - len(shared)
    left[f"only {second.label} has the item"] = len(two.items) - len(shared)
    for row_a, row_b in zip(shared[~known], there[~known], strict=True):
        left[_why(first, second, column, int(row_a), int(row_b))] += 1
    return Pairs(
        rows=shared[known],
        differences=b[known] - a[known],
        before=a[known],
        after=b[known],
        left_out={why: n for why, n in left.items() if n},
        seeds=_seeds(first, second, common),
    )


def _mean(block: Array, there: NDArray[Any]) -> Array:
    n = there.sum(1)
    total = np.where(there, block, 0.0).sum(1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _why(first: Side, second: Side, column: Column, row_a: int, row_b: int) -> str:
    states = [_state(first, column, row_a), _state(second, column, row_b)]
    if states[0] and states[1]:
        if states[0] == states[1]:
            return f"{states[0]} in both"
        return f"{states[0]} in {first.label}, {states[1]} in {second.label}"
    if states[0]:
        return f"{states[0]} in {first.label}"
    if states[1]:
        return f"{states[1]} in {second.label}"
    return "no seed is scored in both"


def _state(side: Side, column: Column, row: int) -> str:
    """Why a side has no score for an item; empty if it has one."""
    score_matrix, arms = side.evaluation.score_matrix, list(side.arms)
    if not np.isnan(score_matrix.values[column][row, arms]).all():
        return ""
    if score_matrix.unscored[column][row, arms].any():
        return "unscored"
    if score_matrix.failed[row, arms].any():
        return "picture failed"
    return "not finished"


def _seeds(first: Side, second: Side, common: list[int]) -> str:
    if not common:
        return f"no common seed: means over {_listed(first.seeds)} and over {_listed(second.seeds)}"
    if len(common) > 1 or len(first.seeds) > 1 or len(second.seeds) > 1:
        return f"means over the common {_listed(common)}"
    return ""


def _listed(seeds: Any) -> str:
    found = sorted(seeds)
    return ("seeds " if len(found) > 1 else "seed ") + ", ".join(map(str, found))

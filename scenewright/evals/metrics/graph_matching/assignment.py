"""Best one-to-one pairs of rows and columns; small ones without the overhead of a library call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

_BY_HAND = 3
"""Sides up to which all ways are tried: 3 × 3 has six."""
_ORDERS = {
    (rows, columns): tuple(permutations(range(columns), rows))
    for rows in range(1, _BY_HAND + 1)
    for columns in range(rows, _BY_HAND + 1)
}

Weights = Sequence[Sequence[float]]
"""Rows of equal length: how much each pair of a row and a column is worth, 0 or more."""


def best_total(weights: Weights, rows: Sequence[int], columns: Sequence[int]) -> float:
    """The largest sum over one-to-one pairs of ``rows`` and ``columns`` of ``weights``; 0 if one
    of them is empty."""
    if not rows or not columns:
        return 0.0
    if len(rows) == 1:
        row = weights[rows[0]]
        return row[columns[0]] if len(columns) == 1 else max(row[c] for c in columns)
    if len(columns) == 1:
        column = columns[0]
        return max(weights[r][column] for r in rows)
    if len(rows) == 2 and len(columns) == 2:
        first, second = weights[rows[0]], weights[rows[1]]
        left, right = columns
        return max(first[left] + second[right], first[right] + second[left])
    part = [[weights[r][c] for c in columns] for r in rows]
    return sum(part[row][column] for row, column in best_pairs(part))


def best_pairs(weights: Weights) -> list[tuple[int, int]]:
    """The pairs (row, column) with the largest sum, as many as the shorter side is long, by row.

    Of equal ways the first in the order of rows and columns, where no side is longer than 3.
    """
    rows, columns = len(weights), len(weights[0]) if weights else 0
    if not rows or not columns:
        return []
    if max(rows, columns) > _BY_HAND:
        found = linear_sum_assignment(np.asarray(weights, float), maximize=True)
        return list(zip(*(side.tolist() for side in found), strict=True))
    if rows > columns:
        turned = best_pairs(list(zip(*weights, strict=True)))
        return sorted((row, column) for column, row in turned)
    best: tuple[int, ...] = ()
    most = -1.0
    for order in _ORDERS[rows, columns]:
        total = 0.0
        for row, column in zip(weights, order, strict=True):
            total += row[column]
        # Sums in another order differ in their last digits.
        if total > most + 1e-12:
            best, most = order, total
    return list(enumerate(best))

"""A good mapping and a bound on all of them, by linear assignment, in polynomial time.

The bound is that of Gilmore (1962) and Lawler (1963), with the inner assignments replaced by the
smaller of two sums of maxima: half of what the relations of a pair of objects could save at best
is added to what the pair itself saves, and one linear assignment over that is at least as
large as the saving of any mapping. The mapping begins with that assignment and is then improved:
assignments against the relations that the mapping saves now, and exchanges of two.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from scenewright.evals.metrics.graph_edit.problem import EditProblem, Floats, Ints

TOLERANCE = 1e-9
"""Savings that differ by less, relative to the masses, are one."""
_ROUNDS = 20
_EXCHANGES = 500


def slack(problem: EditProblem) -> float:
    """Differences of savings up to this are rounding."""
    return TOLERANCE * max(1.0, problem.mass)


def optimistic(problem: EditProblem) -> Floats:
    """(n, m): what relations of a pair could save at best, each relation counted at one end only
    by half."""
    rows, columns = problem.shape
    found = np.zeros(rows * columns)
    if not len(problem.values):
        return found.reshape(rows, columns)
    here = np.concatenate([problem.first, problem.second])
    there = np.concatenate([problem.second, problem.first])
    values = np.concatenate([problem.values, problem.values])
    sums = []
    for other, size in ((there // columns, rows), (there % columns, columns)):
        # The best of each neighbour, then the sum over neighbours.
        group, place = np.unique(here * size + other, return_inverse=True)
        best = np.zeros(len(group))
        np.maximum.at(best, place, values)
        total = np.zeros(rows * columns)
        np.add.at(total, group // size, best)
        sums.append(total)
    half: Floats = 0.5 * np.minimum(*sums).reshape(rows, columns)
    return half


class Improver:
    """Mappings of one problem, made better step by step."""

    def __init__(self, problem: EditProblem) -> None:
        """Prepares the savings for products with vectors."""
        self._problem = problem
        rows, columns = problem.shape
        size = rows * columns
        dense = problem.dense
        ends = (
            np.concatenate([problem.first, problem.second]),
            np.concatenate([problem.second, problem.first]),
        )
        values = np.concatenate([problem.values, problem.values])
        self._joint = (
            dense.reshape(size, size)
            if dense is not None
            else csr_array((values, ends), shape=(size, size))
        )

    def start(self) -> tuple[float, dict[int, int]]:
        """(bound on the saving of every mapping, a good mapping)."""
        problem = self._problem
        if not min(problem.shape):
            return 0.0, {}
        hopeful = problem.objects + optimistic(problem)
        rows, columns = linear_sum_assignment(hopeful, maximize=True)
        bound = float(hopeful[rows, columns].sum())
        best: dict[int, int] = {}
        reached = -1.0
        for table in (hopeful, problem.objects):
            found = self.improved(table)
            value = problem.saving(found)
            if value > reached:
                best, reached = found, value
            if reached >= bound - slack(problem):
                break
        return bound, best

    def improved(self, table: Floats) -> dict[int, int]:
        """The mapping that an assignment over ``table`` begins, improved until nothing helps."""
        problem = self._problem
        rows, columns = linear_sum_assignment(table, maximize=True)
        best = dict(zip(rows.tolist(), columns.tolist(), strict=True))
        value = problem.saving(best)
        current = best
        for _ in range(_ROUNDS):
            rows, columns = linear_sum_assignment(self._gains(current), maximize=True)
            current = dict(zip(rows.tolist(), columns.tolist(), strict=True))
            reached = problem.saving(current)
            if reached <= value + slack(problem):
                break
            best, value = current, reached
        return self._exchanged(best)

    def _gains(self, mapping: dict[int, int]) -> Floats:
        """(n, m): what each pair saves by itself and with all pairs of ``mapping``."""
        rows, columns = self._problem.shape
        chosen = np.zeros(rows * columns)
        chosen[[i * columns + j for i, j in mapping.items()]] = 1.0
        gains: Floats = self._problem.objects + (self._joint @ chosen).reshape(rows, columns)
        return gains

    def _exchanged(self, mapping: dict[int, int]) -> dict[int, int]:
        """The best exchange of two columns, or of one with a free one, as long as one helps.

        Rows and columns are those of the larger side's full permutation: a free row or column
        saves nothing.
        """
        problem = self._problem
        rows, columns = problem.shape
        size = max(rows, columns)
        full = np.full(size, -1, np.intp)
        full[list(mapping)] = list(mapping.values())
        rest = [j for j in range(size) if j not in set(mapping.values())]
        full[full < 0] = rest[: int((full < 0).sum())]
        for _ in range(_EXCHANGES):
            real = {i: int(full[i]) for i in range(rows) if full[i] < columns}
            gains = np.zeros((size, size))
            gains[:rows, :columns] = self._gains(real)
            moved = gains[:, full]
            own = np.diagonal(moved)
            change = moved + moved.T - own[:, None] - own[None, :] + self._mutual(full)
            a, b = np.unravel_index(int(np.argmax(change)), change.shape)
            if change[a, b] <= slack(problem):
                return real
            full[a], full[b] = full[b], full[a]
        return real

    def _mutual(self, full: Ints) -> Floats:
        """(size, size): what two rows save with each other, as they are and exchanged."""
        rows, columns = self._problem.shape
        size = len(full)
        first, second = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        there = (first < rows) & (second < rows)
        there &= (full[first] < columns) & (full[second] < columns)
        a, b = first[there], second[there]
        found = np.zeros((size, size))
        for one, other in ((full[a], full[b]), (full[b], full[a])):
            found[there] += np.asarray(self._joint[a * columns + one, b * columns + other]).reshape(
                -1
            )
        return found

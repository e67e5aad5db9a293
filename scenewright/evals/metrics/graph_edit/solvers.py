"""Solvers of the assignment: bounds in polynomial time, and an exact integer program.

**Linear assignment.** The bound is that of Gilmore (1962) and Lawler (1963), with the inner
assignments replaced by the smaller of two sums of maxima: half of what the relations of a pair of
objects could save at best is added to what the pair itself saves, and one linear assignment over
that is at least as large as the saving of any mapping. The mapping begins with that assignment and
is then improved: assignments against the relations that the mapping saves now, and exchanges of
two.

**Mixed integer program**, solved by HiGHS through SciPy. Variables are ``x`` of
pairs of objects (0 or 1) and ``y`` of pairs of bundles of relations (as in the formulation F2 of
Lerouge et al., 2017): every object has at most one partner, and what two objects' relations save
counts only where both are paired so. Its linear relaxation is a close bound, so that a time limit
leaves a small gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array, vstack

from scenewright.evals.metrics.graph_edit.problem import EditProblem, Floats, Ints

TOLERANCE = 1e-9
"""Savings that differ by less, relative to the masses, are equal."""
_ROUNDS = 20
_EXCHANGES = 500
_DENSE = 400
"""Most pairs of objects whose joint savings are held as one array."""


def slack(problem: EditProblem) -> float:
    """Return the difference of savings that is rounding."""
    return TOLERANCE * max(1.0, problem.mass)


def optimistic(problem: EditProblem) -> Floats:
    """Return (n, m): what relations of a pair could save at best, each counted by half."""
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
    """Step-by-step improvement of mappings of one problem."""

    def __init__(self, problem: EditProblem) -> None:
        """Prepare the savings for products with vectors."""
        self._problem = problem
        size = problem.shape[0] * problem.shape[1]
        ends = (
            np.concatenate([problem.first, problem.second]),
            np.concatenate([problem.second, problem.first]),
        )
        values = np.concatenate([problem.values, problem.values])
        joint = csr_array((values, ends), shape=(size, size))
        self._joint = joint.toarray() if size <= _DENSE else joint

    def start(self) -> tuple[float, dict[int, int]]:
        """Return (bound on the saving of every mapping, a good mapping)."""
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
        """Return the mapping of an assignment over ``table``, improved until nothing helps."""
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
        """Return (n, m): the saving of each pair by itself and with all pairs of ``mapping``."""
        rows, columns = self._problem.shape
        chosen = np.zeros(rows * columns)
        chosen[[i * columns + j for i, j in mapping.items()]] = 1.0
        gains: Floats = self._problem.objects + (self._joint @ chosen).reshape(rows, columns)
        return gains

    def _exchanged(self, mapping: dict[int, int]) -> dict[int, int]:
        """Return the best exchange of two columns, or of one with a free one, as long as one helps.

        Rows and columns are those of the larger side's full permutation: a free row or column saves
        nothing.
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
        """Return (size, size): the joint saving of two rows, as they are and exchanged."""
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


LARGEST = 60_000
"""Most entries of ``Q`` for a program: beyond, its relaxation takes minutes."""


@dataclass(frozen=True, slots=True)
class Programmed:
    """Result of the solver within its time."""

    mapping: dict[int, int] | None
    """Number of the reference's object → number of the seen graph's; None if it found none."""
    bound: float
    """No mapping saves more; infinite if nothing is proven."""


def solve(problem: EditProblem, seconds: float) -> Programmed:
    """Return the mapping that saves most, within about ``seconds``.

    The solver looks at the clock between its steps.
    """
    rows, columns = problem.shape
    used = np.zeros(rows * columns, bool)
    used[np.flatnonzero(problem.objects.reshape(-1) > 0.0)] = True
    used[problem.first] = True
    used[problem.second] = True
    pairs = np.flatnonzero(used)
    if not len(pairs):
        return Programmed({}, 0.0)
    place = np.full(rows * columns, -1, np.intp)
    place[pairs] = np.arange(len(pairs))
    n_pairs, n_joint = len(pairs), len(problem.values)
    width = n_pairs + n_joint
    parts = [
        _sums(pairs // columns, np.arange(n_pairs), width),
        _sums(pairs % columns, np.arange(n_pairs), width),
    ]
    limits = [np.ones(parts[0].shape[0]), np.ones(parts[1].shape[0])]
    if n_joint:
        linked = _linked(problem, place, n_pairs, width)
        parts.append(linked)
        limits.append(np.zeros(linked.shape[0]))
    values = np.concatenate([problem.objects.reshape(-1)[pairs], problem.values])
    whole = np.concatenate([np.ones(n_pairs), np.zeros(n_joint)])
    found: Any = milp(
        -values,
        integrality=whole,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(vstack(parts), -np.inf, np.concatenate(limits)),
        options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 0.0},
    )
    mapping = None
    if found.x is not None:
        chosen = pairs[np.flatnonzero(found.x[:n_pairs] > 0.5)]
        mapping = {int(p // columns): int(p % columns) for p in chosen}
    bound = found.mip_dual_bound
    return Programmed(mapping, np.inf if bound is None else -float(bound))


def _sums(groups: Ints, members: Ints, width: int) -> csr_array:
    """Return one row a group: the sum of its members' variables."""
    _, row = np.unique(groups, return_inverse=True)
    ones: Floats = np.ones(len(members))
    return csr_array((ones, (row, members)), shape=(int(row.max()) + 1, width))


def _linked(problem: EditProblem, place: Ints, n_pairs: int, width: int) -> csr_array:
    """Return rows of constraints for what a pair of objects saves with one neighbour.

    At most one thing counts, and only if the two objects are a pair.
    """
    rows, columns = problem.shape
    joint = np.arange(n_pairs, n_pairs + len(problem.values))
    here = np.concatenate([problem.first, problem.second])
    there = np.concatenate([problem.second, problem.first])
    members = np.concatenate([joint, joint])
    blocks = []
    for other, size in ((there // columns, rows), (there % columns, columns)):
        group, row = np.unique(here * size + other, return_inverse=True)
        owner = place[group // size]
        numbers = np.arange(len(group))
        blocks.append(
            csr_array(
                (
                    np.concatenate([np.ones(len(members)), -np.ones(len(group))]),
                    (np.concatenate([row, numbers]), np.concatenate([members, owner])),
                ),
                shape=(len(group), width),
            )
        )
    return csr_array(vstack(blocks))

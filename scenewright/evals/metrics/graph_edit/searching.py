"""The exact distance of small graphs: branch and bound, depth first, best pairs first.

The objects of the smaller graph are placed in turn, the heaviest first. A branch is left when an
assignment over what is still open (as in :mod:`scenewright.evals.metrics.graph_edit.assigning`,
with what the placed objects save exactly) cannot save more than the best mapping so far.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from scenewright.evals.metrics.graph_edit.assigning import slack
from scenewright.evals.metrics.graph_edit.problem import EditProblem, Floats


class Search:
    """One search; :meth:`run` does it."""

    def __init__(
        self,
        problem: EditProblem,
        mapping: dict[int, int],
        bound: float,
        *,
        expansions: int,
        until: float | None = None,
    ) -> None:
        """``mapping``: the best one so far. ``bound``: no mapping saves more. ``expansions``: most
        nodes of the search tree that are opened. ``until``: moment (``time.monotonic``) at which
        it stops. The problem must be small enough to be held as one array."""
        joint = problem.dense
        if joint is None:
            raise ValueError("the problem is too large to be searched")
        self._turned = problem.shape[0] > problem.shape[1]
        self._objects = problem.objects.T if self._turned else problem.objects
        # (row, other row, column, other column)
        axes = (1, 3, 0, 2) if self._turned else (0, 2, 1, 3)
        self._joint = np.ascontiguousarray(joint.transpose(axes))
        self._slack = slack(problem)
        self._limit = expansions
        self._until = until
        self.expanded = 0
        """Nodes of the search tree that were opened."""
        self.best = problem.saving(mapping)
        """Saving of the best mapping."""
        self._mapping = {j: i for i, j in mapping.items()} if self._turned else dict(mapping)
        self.bound = bound
        """No mapping saves more."""
        self._open = 0.0
        self._stopped = False

    @property
    def mapping(self) -> dict[int, int]:
        """Number of the reference's object → number of the seen graph's."""
        if self._turned:
            return {j: i for i, j in self._mapping.items()}
        return dict(self._mapping)

    def run(self) -> None:
        """Search until the best mapping is proven or a limit is met; then :attr:`bound` is what
        is known."""
        rows, columns = self._objects.shape
        if not rows or self.best >= self.bound - self._slack:
            self.bound = self.best
            return
        # Heavy rows decide most, so they come first.
        weight = self._objects.max(1) + self._joint.max((2, 3)).sum(1)
        self._order = np.argsort(-weight, kind="stable")
        free = np.arange(columns)
        self._down(0, free, 0.0, self._objects, {}, self.bound)
        proven = max(self.best, self._open)
        self.bound = min(self.bound, proven) if self._stopped else self.best

    def _down(
        self,
        depth: int,
        free: np.ndarray,
        gained: float,
        table: Floats,
        placed: dict[int, int],
        hope: float,
    ) -> None:
        """Opens one node. ``table``: what each pair saves with those ``placed``; ``hope``: the
        bound of its parent."""
        if self._stopped or self._spent():
            self._stopped = True
            self._open = max(self._open, hope)
            return
        self.expanded += 1
        rest = self._order[depth:]
        here = table[np.ix_(rest, free)]
        joint = self._joint[np.ix_(rest, rest)][:, :, free][:, :, :, free]
        half = 0.5 * np.minimum(joint.max(3).sum(1), joint.max(1).sum(2))
        hopeful = here + half
        rows, columns = linear_sum_assignment(hopeful, maximize=True)
        bound = min(hope, gained + float(hopeful[rows, columns].sum()))
        if bound <= self.best + self._slack:
            return
        self._try(placed, gained, rest, free, here, joint, rows, columns)
        if len(rest) == 1 or bound <= self.best + self._slack:
            return
        row = int(rest[0])
        for column in np.argsort(-hopeful[0], kind="stable"):
            taken = int(free[column])
            self._down(
                depth + 1,
                np.delete(free, column),
                gained + float(table[row, taken]),
                table + self._joint[row, :, taken, :],
                {**placed, row: taken},
                bound,
            )
            if bound <= self.best + self._slack:
                return

    def _try(
        self,
        placed: dict[int, int],
        gained: float,
        rest: np.ndarray,
        free: np.ndarray,
        here: Floats,
        joint: Floats,
        rows: np.ndarray,
        columns: np.ndarray,
    ) -> None:
        """Takes the assignment as a mapping."""
        inner = joint[rows[:, None], rows[None, :], columns[:, None], columns[None, :]]
        value = gained + float(here[rows, columns].sum()) + 0.5 * float(inner.sum())
        if value > self.best + self._slack:
            self.best = value
            self._mapping = placed | dict(
                zip(rest[rows].tolist(), free[columns].tolist(), strict=True)
            )

    def _spent(self) -> bool:
        if self.expanded >= self._limit:
            return True
        return self._until is not None and time.monotonic() >= self._until

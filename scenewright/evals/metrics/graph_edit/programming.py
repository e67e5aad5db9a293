"""Larger graphs: the assignment as a mixed integer program, solved by HiGHS through SciPy.

Variables are ``x`` of pairs of objects (0 or 1) and ``y`` of pairs of relations bundles (as in the
formulation F2 of Lerouge et al., 2017): every object has one partner at most, and what two
objects' relations save counts only where both are paired so. Its linear relaxation is a close
bound, so that a limit of time leaves a small gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from scenewright.evals.metrics.graph_edit.problem import EditProblem, Floats, Ints

LARGEST = 60_000
"""Most entries of ``Q`` that a program is made of: beyond, its relaxation takes minutes."""


@dataclass(frozen=True, slots=True)
class Programmed:
    """What the solver found within its time."""

    mapping: dict[int, int] | None
    """Number of the reference's object → number of the seen graph's; None if it found none."""
    bound: float
    """No mapping saves more; infinite if nothing is proven."""


def solve(problem: EditProblem, seconds: float) -> Programmed:
    """The mapping that saves most, within ``seconds`` (about: the solver looks at the clock
    between its steps)."""
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
    """One row a group: the sum of its members' variables."""
    _, row = np.unique(groups, return_inverse=True)
    ones: Floats = np.ones(len(members))
    return csr_array((ones, (row, members)), shape=(int(row.max()) + 1, width))


def _linked(problem: EditProblem, place: Ints, n_pairs: int, width: int) -> csr_array:
    """Rows that read: of what a pair of objects saves with one neighbour, one thing at most, and
    only if it is a pair."""
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

"""Graph edit distance of two scene graphs: exact where that is quick, else between two bounds.

Four steps, each only if the one before has not settled it: a linear assignment with local
improvement (bounds from above and below), branch and bound, an integer program, and the limits,
which leave the best bounds so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_edit.assigning import Improver, slack
from scenewright.evals.metrics.graph_edit.costs import EditCosts, EditError, Likeness
from scenewright.evals.metrics.graph_edit.problem import EditProblem
from scenewright.evals.metrics.graph_edit.programming import LARGEST, solve
from scenewright.evals.metrics.graph_edit.searching import Search
from scenewright.evals.metrics.graph_matching.base import TextSimilarity


@dataclass(frozen=True, slots=True)
class EditLimits:
    """How much work a distance may take before its bounds are given instead."""

    expansions: int = 150
    """Nodes of the search tree that are opened before the integer program is asked: past some
    hundreds it is quicker."""
    seconds: float = 10.0
    """For all together, about; 0: the assignment's bounds only."""

    def __post_init__(self) -> None:
        if self.expansions < 0:
            raise EditError(f"expansions is {self.expansions}: use 0 or more")
        if not (math.isfinite(self.seconds) and self.seconds >= 0.0):
            raise EditError(f"seconds is {self.seconds}: use a number of 0 or more")


@dataclass(frozen=True, slots=True)
class EditDistance:
    """What it costs to turn one graph into the other."""

    lower: float
    """The distance is not below."""
    upper: float
    """Cost of the best mapping found: the distance is not above."""
    exact: bool
    """Whether the two are one (up to 1e-6): the distance is known."""
    mapping: Mapping[str, str] = field(hash=False)
    """Object id of the reference → object id of the seen graph, of the best mapping; pairs that
    save nothing are left out: they cost what deleting and inserting costs."""
    expanded: int = 0
    """Nodes of the search tree that were opened."""

    @property
    def gap(self) -> float:
        """Upper minus lower."""
        return self.upper - self.lower


def edit_distance(
    reference: SceneGraph,
    seen: SceneGraph,
    *,
    similarity: TextSimilarity | None = None,
    costs: EditCosts | None = None,
    reference_weights: Mapping[str, float] | None = None,
    seen_weights: Mapping[str, float] | None = None,
    least: float = 0.0,
    least_label: float = 0.0,
    converses: bool = False,
    limits: EditLimits | None = None,
) -> EditDistance:
    """The distance of two scene graphs, with costs as in
    :mod:`scenewright.evals.metrics.graph_edit.costs`.

    ``similarity`` compares labels, values and predicates (default: equal up to case and spaces,
    or not); what is less alike than ``least`` is not alike at all. Attributes are compared by key.
    Weights are by object id. ``least_label``: objects whose labels are less alike are never paired.
    ``converses``: *a left of b* and *b to the right of a* are one, and *near* has no direction
    (:mod:`scenewright.core.vocabulary`). With the default similarity it is a metric on
    weighted graphs up to isomorphism. Raises ``EditError`` for numbers that cannot be.
    """
    problem = EditProblem(
        reference,
        seen,
        likeness=Likeness(similarity, least),
        costs=costs,
        reference_weights=reference_weights,
        seen_weights=seen_weights,
        least_label=least_label,
        converses=converses,
    )
    return solved(problem, limits)


def solved(problem: EditProblem, limits: EditLimits | None = None) -> EditDistance:
    """The distance of the graphs of ``problem``."""
    limits = limits or EditLimits()
    until = time.monotonic() + limits.seconds
    bound, mapping = Improver(problem).start()
    best = problem.saving(mapping)
    expanded = 0
    small = slack(problem)
    if best < bound - small and limits.seconds and problem.dense is not None:
        search = Search(problem, mapping, bound, expansions=limits.expansions, until=until)
        search.run()
        mapping, best, bound = search.mapping, search.best, search.bound
        expanded = search.expanded
    left = until - time.monotonic()
    if best < bound - small and left > 0.0 and len(problem.values) <= LARGEST:
        found = solve(problem, left)
        bound = min(bound, found.bound)
        if found.mapping is not None:
            value = problem.saving(found.mapping)
            if value > best:
                mapping, best = found.mapping, value
    bound = max(best, bound)
    exact = bound - best <= max(small, 1e-6)
    upper = max(0.0, problem.mass - best)
    return EditDistance(
        lower=upper if exact else max(0.0, problem.mass - bound),
        upper=upper,
        exact=exact,
        mapping=_named(problem, mapping),
        expanded=expanded,
    )


def _named(problem: EditProblem, mapping: Mapping[int, int]) -> dict[str, str]:
    """By ids, in the reference's order, without pairs that save nothing."""
    width = problem.shape[1]
    chosen = {i * width + j for i, j in mapping.items()}
    useful = {number for number in chosen if problem.objects.flat[number] > 0.0}
    for one, other in zip(problem.first.tolist(), problem.second.tolist(), strict=True):
        if one in chosen and other in chosen:
            useful |= {one, other}
    return {
        problem.reference.objects[i].id: problem.seen.objects[j].id
        for i, j in sorted(mapping.items())
        if i * width + j in useful
    }

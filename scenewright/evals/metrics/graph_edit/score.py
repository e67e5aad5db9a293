"""The PSG-style score, and the graph edit distance behind it: exact, or between two bounds.

PSG-Bench (its supplement alone is public text) compares the graph of a prompt with the panoptic
scene graph of a picture by graph edit distance, and tells objects in front from those behind. Its
formula is not public: this is a definition of ours in its manner, hence *PSG-style*.

    score = 1 − GED / (mass(reference) + mass(seen))

with the costs of :mod:`scenewright.evals.metrics.graph_edit.problem`; two empty graphs score 1. A
kept element saves ``2·s·min(a, b)``, so with ``common = Σ s·min(a, b)`` over the best mapping it is
the soft Dice coefficient ``2·common / (mass(reference) + mass(seen))``: the harmonic mean of
``recall = common / mass(reference)`` and ``precision = common / mass(seen)``, and it splits exactly
into objects, attributes and relations.

**Weights.** Objects in the background of the picture weigh less. The reference has no foreground of
its own: an object of it weighs what its partner weighs (by the best mapping with all weights 1),
and 1 without a partner, since what was requested and is missing counts in full. So a graph that is
drawn whole scores 1, wherever its objects are.

**Distance.** Two steps, the second only if the first has not settled it: a linear assignment with
local improvement (bounds from above and below), and an integer program, which leaves the best
bounds so far when its time is up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_edit.problem import (
    EditCosts,
    EditError,
    EditProblem,
    Likeness,
    background_weights,
)
from scenewright.evals.metrics.graph_edit.solvers import LARGEST, Improver, slack, solve
from scenewright.evals.metrics.graph_matching.text_similarity import TextSimilarity


@dataclass(frozen=True, slots=True)
class EditLimits:
    """Limits of the work for a distance; beyond them its bounds are returned."""

    seconds: float = 10.0
    """Approximate time for all steps together; 0: the assignment's bounds only."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0.0):
            raise EditError(f"seconds is {self.seconds}: use a number of 0 or more")


@dataclass(frozen=True, slots=True)
class EditDistance:
    """Cost of turning one graph into the other."""

    lower: float
    """Lower bound of the distance."""
    upper: float
    """Cost of the best mapping found, an upper bound."""
    exact: bool
    """Whether the bounds are equal (up to 1e-6)."""
    mapping: Mapping[str, str] = field(hash=False)
    """Object id of the reference → object id of the seen graph, of the best mapping; pairs that
    save nothing are left out: they cost what deleting and inserting costs."""

    @property
    def gap(self) -> float:
        """Difference of the bounds."""
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
    """Return the distance of two scene graphs.

    ``similarity`` compares labels, values and predicates (default: equal up to case and spaces, or
    not); similarities below ``least`` count as 0. Attributes are compared by key. Weights are by
    object id. ``least_label``: objects whose labels are less similar are never paired.
    ``converses``: *a left of b* and *b to the right of a* are one, and *near* has no direction
    (:mod:`scenewright.core.vocabulary`). With the default similarity it is a metric on weighted
    graphs up to isomorphism. Costs: :mod:`scenewright.evals.metrics.graph_edit.problem`. Raises
    ``EditError`` for numbers out of range.
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
    """Return the distance of the graphs of ``problem``."""
    limits = limits or EditLimits()
    until = time.monotonic() + limits.seconds
    bound, mapping = Improver(problem).start()
    best = problem.saving(mapping)
    small = slack(problem)
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
    )


def _named(problem: EditProblem, mapping: Mapping[int, int]) -> dict[str, str]:
    """Return a mapping by ids, in the reference's order, without pairs that save nothing."""
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


BACKGROUND_WEIGHT = 0.5
"""Default weight of an object of the background."""


@dataclass(frozen=True, slots=True)
class Share:
    """Common mass of one kind of elements of two graphs."""

    reference: float
    """Mass in the reference."""
    seen: float
    """Mass in the seen graph."""
    common: float
    """Common mass, by similarity; at most the smaller one."""

    @property
    def dice(self) -> float | None:
        """``2·common / (reference + seen)``; None if neither graph has such elements."""
        whole = self.reference + self.seen
        return _ratio(2.0 * self.common, whole)

    @property
    def recall(self) -> float | None:
        """``common / reference``; None if the reference has none."""
        return _ratio(self.common, self.reference)

    @property
    def precision(self) -> float | None:
        """``common / seen``; None if the seen graph has none."""
        return _ratio(self.common, self.seen)


@dataclass(frozen=True, slots=True)
class PsgScore:
    """The PSG-style score of a seen graph, with its parts."""

    value: float
    """Score of the best mapping found, in [0, 1]."""
    highest: float
    """Upper bound of the score; the value itself where the distance is exact."""
    distance: EditDistance
    nodes: Share
    """Objects by their labels."""
    attributes: Share
    """Attributes by key and value."""
    edges: Share
    """Relations by predicate and ends."""
    background: frozenset[str]
    """Objects of the reference that counted as background."""
    similarity: str
    """Id of the text similarity."""

    @property
    def whole(self) -> Share:
        """All elements together; its Dice coefficient is :attr:`value`."""
        parts = (self.nodes, self.attributes, self.edges)
        return Share(
            sum(part.reference for part in parts),
            sum(part.seen for part in parts),
            sum(part.common for part in parts),
        )


def psg_score(
    reference: SceneGraph,
    seen: SceneGraph,
    *,
    similarity: TextSimilarity | None = None,
    least: float = 0.0,
    costs: EditCosts | None = None,
    background: Collection[str] = (),
    reference_background: Collection[str] | None = None,
    background_weight: float = BACKGROUND_WEIGHT,
    converses: bool = True,
    limits: EditLimits | None = None,
) -> PsgScore:
    """Return the PSG-style score of ``seen`` against ``reference``.

    ``similarity`` compares labels, values and predicates. By default they are equal (up to case
    and spaces) or not: likeness by words or embeddings also finds *left of* near *right of* and
    *red* near *blue*, and would give credit for the very errors that are looked for. ``least``:
    what is less alike counts as not alike. ``background``: object ids of the seen graph that weigh
    ``background_weight``. ``reference_background``: the same for the reference; None gives each
    object the weight of the one that it is taken for. ``converses``: relations that say the same in
    other words or the other way round are one (:mod:`scenewright.core.vocabulary`). Raises
    ``EditError`` for numbers and ids that cannot be.
    """
    likeness = Likeness(similarity, least)

    def problem(mine: Collection[str], theirs: Collection[str]) -> EditProblem:
        return EditProblem(
            reference,
            seen,
            likeness=likeness,
            costs=costs,
            reference_weights=background_weights(mine, background_weight),
            seen_weights=background_weights(theirs, background_weight),
            converses=converses,
        )

    if reference_background is None:
        partners = solved(problem((), ()), limits).mapping if background else {}
        behind = frozenset(mine for mine, theirs in partners.items() if theirs in set(background))
    else:
        behind = frozenset(reference_background)
    weighed = problem(behind, background)
    return scored(weighed, solved(weighed, limits), behind)


def scored(
    problem: EditProblem, distance: EditDistance, background: frozenset[str] = frozenset()
) -> PsgScore:
    """Return the score of a problem by its distance."""
    mine = {item.id: at for at, item in enumerate(problem.reference.objects)}
    theirs = {item.id: at for at, item in enumerate(problem.seen.objects)}
    saved = problem.shares({mine[a]: theirs[b] for a, b in distance.mapping.items()})
    first, second = problem.masses
    nodes, attributes, edges = (
        Share(
            getattr(first, kind),
            getattr(second, kind),
            min(getattr(saved, kind) / 2.0, getattr(first, kind), getattr(second, kind)),
        )
        for kind in ("nodes", "attributes", "edges")
    )
    return PsgScore(
        value=_score(distance.upper, problem.mass),
        highest=_score(distance.lower, problem.mass),
        distance=distance,
        nodes=nodes,
        attributes=attributes,
        edges=edges,
        background=background,
        similarity=problem.likeness.id,
    )


def _score(distance: float, mass: float) -> float:
    if mass <= 0.0:
        return 1.0
    # Sums of masses in another order differ in their last digits: a graph is one with itself.
    value = 1.0 - distance / mass
    return 1.0 if value > 1.0 - 1e-12 else max(0.0, value)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0.0 else None

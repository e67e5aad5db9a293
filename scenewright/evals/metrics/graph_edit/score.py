"""The PSG-style score: how much of two scene graphs is one, in [0, 1].

PSG-Bench (its supplement alone is public text) compares the graph of a prompt with the panoptic
scene graph of a picture by graph edit distance, and tells objects in front from those behind. Its
formula is not public: this is a definition of ours in its manner, hence *PSG-style*.

    score = 1 − GED / (mass(reference) + mass(seen))

with the costs of :mod:`scenewright.evals.metrics.graph_edit.costs`; two empty graphs score 1. A
kept element saves ``2·s·min(a, b)``, so with ``common = Σ s·min(a, b)`` over the best mapping it is
the soft Dice coefficient ``2·common / (mass(reference) + mass(seen))``: the harmonic mean of
``recall = common / mass(reference)`` and ``precision = common / mass(seen)``, and it splits exactly
into objects, attributes and relations.

**Weights.** Objects in the background of the picture weigh less. The reference has no
foreground of its own: an object of it weighs what the object that it is taken for weighs (by the
best mapping with all weights 1), and 1 if there is none, since what was asked for and is missing
counts in full. So a graph that is drawn whole scores 1, wherever its things stand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_edit.costs import EditCosts, Likeness, background_weights
from scenewright.evals.metrics.graph_edit.distance import EditDistance, EditLimits, solved
from scenewright.evals.metrics.graph_edit.problem import EditProblem
from scenewright.evals.metrics.graph_matching.base import TextSimilarity

BACKGROUND_WEIGHT = 0.5
"""What an object of the background weighs by default."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one kind of elements two graphs have in common."""

    reference: float
    """Mass in the reference."""
    seen: float
    """Mass in the seen graph."""
    common: float
    """Mass that is in both, by how alike it is; at most the smaller one."""

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
    """The PSG-style score of a seen graph, and what it is made of."""

    value: float
    """In [0, 1]: of the best mapping found."""
    highest: float
    """No mapping scores more; the value itself where the distance is exact."""
    distance: EditDistance
    """Behind it."""
    nodes: Share
    """Objects by their labels."""
    attributes: Share
    """Attributes by key and value."""
    edges: Share
    """Relations by predicate and ends."""
    background: frozenset[str]
    """Objects of the reference that counted as background."""
    similarity: str
    """Id of what compared the texts."""

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
    """The PSG-style score of ``seen`` against ``reference``.

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
    """The score of a problem by its distance."""
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

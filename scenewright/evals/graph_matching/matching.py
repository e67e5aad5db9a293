"""Which object of one scene graph is which of another (XTC-Bench, Sec. 3.2.6).

Objects of equal label are matched so that the sum of their likeness is the largest there is: 0.7
parts attributes and 0.3 parts incident edges (Eq. 2), the edges matched by an assignment of their
own (Eq. 3). Nothing is rejected; what is left over on the longer side has no partner. Edges come
second: those between matched objects meet what stands between their partners.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from scenewright.evals.graph_matching.assignment import best_pairs
from scenewright.evals.graph_matching.base import (
    EdgeMatch,
    GraphMatch,
    MatchingError,
    NodeMatch,
    TextSimilarity,
)
from scenewright.evals.graph_matching.comparing import TextTable
from scenewright.evals.graph_matching.likeness import EdgeReading, Likeness, Side, side_of
from scenewright.evals.graph_matching.ties import Partners, TieBreaker
from scenewright.scene import Relation, SceneGraph

ATTRIBUTE_WEIGHT = 0.7
EDGE_WEIGHT = 0.3
ACROSS_LABELS_BELOW = 0.5
"""Likeness below which objects are no pair, where labels may differ."""
_AT_ONCE = 512
"""Pairs of graphs whose texts are compared in one call."""


@dataclass(frozen=True, slots=True)
class _Rules:
    attribute_weight: float
    edge_weight: float
    across_labels: bool
    reject_below: float | None
    edges: EdgeReading

    def __post_init__(self) -> None:
        weights = (self.attribute_weight, self.edge_weight)
        if not all(0 <= weight <= 1 for weight in weights) or not math.isclose(sum(weights), 1):
            raise MatchingError(
                f"the weights of attributes and edges are {weights[0]} and {weights[1]}: give two "
                f"in [0, 1] whose sum is 1, as {ATTRIBUTE_WEIGHT} and {EDGE_WEIGHT}"
            )
        if self.reject_below is not None and not 0 <= self.reject_below <= 1:
            raise MatchingError(
                f"reject_below is {self.reject_below}: it must lie in [0, 1], or be None"
            )
        if self.edges not in ("directed", "published"):
            raise MatchingError(f"no reading of edges {self.edges!r}: take directed or published")

    @property
    def least(self) -> float:
        """Likeness that a pair must have."""
        if self.reject_below is None:
            return ACROSS_LABELS_BELOW if self.across_labels else 0.0
        return self.reject_below


def match_graphs(
    reference: SceneGraph,
    seen: SceneGraph,
    similarity: TextSimilarity,
    *,
    attribute_weight: float = ATTRIBUTE_WEIGHT,
    edge_weight: float = EDGE_WEIGHT,
    across_labels: bool = False,
    reject_below: float | None = None,
    edges: EdgeReading = "published",
) -> GraphMatch:
    """Which object of ``reference`` is which of ``seen``; see :func:`match_many`."""
    return match_many(
        [(reference, seen)],
        similarity,
        attribute_weight=attribute_weight,
        edge_weight=edge_weight,
        across_labels=across_labels,
        reject_below=reject_below,
        edges=edges,
    )[0]


def match_many(
    pairs: Iterable[tuple[SceneGraph, SceneGraph]],
    similarity: TextSimilarity,
    *,
    attribute_weight: float = ATTRIBUTE_WEIGHT,
    edge_weight: float = EDGE_WEIGHT,
    across_labels: bool = False,
    reject_below: float | None = None,
    edges: EdgeReading = "published",
) -> list[GraphMatch]:
    """One match a pair (reference, seen), in order; the texts of all are compared together.

    ``across_labels``: objects of unlike label may be matched too. Their likeness is then
    ``label · (2 + l) / 3`` with the likeness ``label`` of the labels and ``l`` of Eq. 2: labels
    decide first.
    ``reject_below``: pairs less alike stay unmatched; None is no such limit, as in the paper, and
    0.5 with ``across_labels``. ``edges``: ``directed`` never takes an edge that leaves an object
    for one that enters it, and divides by the larger number of edges, so that surplus edges count
    against a pair; ``published`` does as the authors' code: any edge for any, divided by the
    smaller number.

    Deterministic: of equally good ways the one that keeps more edges, then the graphs' order.
    Raises ``MatchingError`` for weights outside [0, 1] or whose sum is not 1.
    """
    rules = _Rules(attribute_weight, edge_weight, across_labels, reject_below, edges)
    found: list[GraphMatch] = []
    rest = iter(pairs)
    while some := list(islice(rest, _AT_ONCE)):
        table = TextTable()
        asked = [
            Likeness(side_of(one, table), side_of(other, table), table, across_labels, edges)
            for one, other in some
        ]
        table.compare(similarity)
        found += [_match(likeness, rules, similarity.id) for likeness in asked]
    return found


def _match(likeness: Likeness, rules: _Rules, similarity: str) -> GraphMatch:
    reference, seen = likeness.reference, likeness.seen
    attributes = likeness.attributes()
    edges = likeness.edges(attributes).tolist()
    weights = likeness.objects(attributes, edges, rules.attribute_weight, rules.edge_weight)
    labels = likeness.labels()
    if labels is not None:
        weights = [
            [round(label * (2 + value) / 3, 12) for label, value in zip(*rows, strict=True)]
            for rows in zip(labels.tolist(), weights, strict=True)
        ]
    if rules.least > 0:
        weights = [[v if v >= rules.least else -1.0 for v in row] for row in weights]
    groups = _groups(reference, seen, rules.across_labels)
    partners: Partners = [None] * len(reference.labels)
    for rows, columns in groups:
        part = [[max(weights[r][c], 0.0) for c in columns] for r in rows]
        for row, column in best_pairs(part):
            # A pair that may not be is worth nothing, which leaves the others as they are.
            if weights[rows[row]][columns[column]] >= 0:
                partners[rows[row]] = columns[column]
    TieBreaker(reference, seen, weights, edges).settle(partners, groups)
    return _told(reference.scene, seen.scene, partners, weights, similarity)


def _groups(reference: Side, seen: Side, across_labels: bool) -> list[tuple[list[int], list[int]]]:
    """Places of objects that may be matched with each other, by label, both sides present."""
    if across_labels:
        rows, columns = list(range(len(reference.labels))), list(range(len(seen.labels)))
        return [(rows, columns)] if rows and columns else []
    found: dict[int, tuple[list[int], list[int]]] = {}
    for side, labels in enumerate((reference.labels, seen.labels)):
        for at, label in enumerate(labels.tolist()):
            found.setdefault(label, ([], []))[side].append(at)
    return [group for group in found.values() if all(group)]


def _told(
    reference: SceneGraph,
    seen: SceneGraph,
    partners: Partners,
    weights: Sequence[Sequence[float]],
    similarity: str,
) -> GraphMatch:
    nodes = tuple(
        NodeMatch(item.id, seen.objects[column].id, weights[row][column])
        for row, (item, column) in enumerate(zip(reference.objects, partners, strict=True))
        if column is not None
    )
    mapping = {node.reference: node.seen for node in nodes}
    taken = set(mapping.values())
    edges, extra = _edges(reference, seen, mapping)
    return GraphMatch(
        nodes=nodes,
        missing=tuple(item.id for item in reference.objects if item.id not in mapping),
        extra=tuple(item.id for item in seen.objects if item.id not in taken),
        edges=edges,
        extra_edges=extra,
        similarity=similarity,
    )


def _edges(
    reference: SceneGraph, seen: SceneGraph, mapping: dict[str, str]
) -> tuple[tuple[EdgeMatch, ...], tuple[Relation, ...]]:
    """The second step: edges between matched objects, parallel ones as one."""
    there = _between(seen)
    met: set[tuple[str, str]] = set()
    found: list[EdgeMatch] = []
    for (source, target), relations in _between(reference).items():
        ends = (mapping.get(source, ""), mapping.get(target, ""))
        partners = there.get(ends, ())
        if partners:
            met.add(ends)
        found.append(EdgeMatch(tuple(relations), tuple(partners)))
    extra = tuple(r for r in seen.relations if (r.source, r.target) not in met)
    return tuple(found), extra


def _between(scene: SceneGraph) -> dict[tuple[str, str], list[Relation]]:
    found: dict[tuple[str, str], list[Relation]] = {}
    for relation in scene.relations:
        found.setdefault((relation.source, relation.target), []).append(relation)
    return found

"""Which object of one scene graph is which of another (XTC-Bench, Sec. 3.2.6).

Objects of equal label are matched so that the sum of their likeness is the largest there is: 0.7
parts attributes and 0.3 parts incident edges (Eq. 2), the edges matched by an assignment of their
own (Eq. 3). Nothing is rejected; what is left over on the longer side has no partner. Edges come
second: those between matched objects meet what stands between their partners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, islice

from scenewright.core.scene import Relation, SceneGraph
from scenewright.evals.metrics.graph_matching.assignment import best_pairs
from scenewright.evals.metrics.graph_matching.base import (
    EdgeMatch,
    GraphMatch,
    NodeMatch,
    TextSimilarity,
)
from scenewright.evals.metrics.graph_matching.comparing import TextTable
from scenewright.evals.metrics.graph_matching.likeness import EdgeReading, Likeness, Side, side_of

_EQUAL = 1e-9
"""Difference below which two ways to match objects cost the same."""
_AT_ONCE = 512
"""Pairs of graphs whose texts are compared in one call."""


def match_graphs(
    reference: SceneGraph,
    seen: SceneGraph,
    similarity: TextSimilarity,
    *,
    edges: EdgeReading = "published",
) -> GraphMatch:
    """Which object of ``reference`` is which of ``seen``; see :func:`match_many`."""
    return match_many([(reference, seen)], similarity, edges=edges)[0]


def match_many(
    pairs: Iterable[tuple[SceneGraph, SceneGraph]],
    similarity: TextSimilarity,
    *,
    edges: EdgeReading = "published",
) -> list[GraphMatch]:
    """One match a pair (reference, seen), in order; the texts of all are compared together.

    ``edges``: ``directed`` never takes an edge that leaves an object for one that enters it, and
    divides by the larger number of edges, so that surplus edges count against a pair;
    ``published`` does as the authors' code: any edge for any, divided by the smaller number.
    """
    found: list[GraphMatch] = []
    rest = iter(pairs)
    while some := list(islice(rest, _AT_ONCE)):
        table = TextTable()
        asked = [
            Likeness(side_of(one, table), side_of(other, table), table, edges)
            for one, other in some
        ]
        table.compare(similarity)
        found += [_match(likeness, similarity.id) for likeness in asked]
    return found


def _match(likeness: Likeness, similarity: str) -> GraphMatch:
    reference, seen = likeness.reference, likeness.seen
    weights = likeness.objects()
    partners: list[int | None] = [None] * len(weights)
    groups = _groups(reference, seen)
    for rows, columns in groups:
        part = [[weights[r][c] for c in columns] for r in rows]
        for row, column in best_pairs(part):
            partners[rows[row]] = columns[column]
    for rows, columns in groups:
        _swap_equals(partners, rows, columns, likeness, weights)
    nodes = tuple(
        NodeMatch(item.id, seen.scene.objects[column].id, weights[row][column])
        for row, (item, column) in enumerate(zip(reference.scene.objects, partners, strict=True))
        if column is not None
    )
    mapping = {node.reference: node.seen for node in nodes}
    taken = set(mapping.values())
    edges, extra = _edges(reference.scene, seen.scene, mapping)
    return GraphMatch(
        nodes=nodes,
        missing=tuple(item.id for item in reference.scene.objects if item.id not in mapping),
        extra=tuple(item.id for item in seen.scene.objects if item.id not in taken),
        edges=edges,
        extra_edges=extra,
        similarity=similarity,
    )


def _groups(reference: Side, seen: Side) -> list[tuple[list[int], list[int]]]:
    """Places of objects of one label, both sides present."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for side, labels in enumerate((reference.labels, seen.labels)):
        for at, label in enumerate(labels.tolist()):
            found.setdefault(label, ([], []))[side].append(at)
    return [group for group in found.values() if all(group)]


def _swap_equals(
    partners: list[int | None],
    rows: Sequence[int],
    columns: Sequence[int],
    likeness: Likeness,
    weights: Sequence[Sequence[float]],
) -> None:
    """Swap partners of one label in place where that costs nothing and keeps more edges.

    With ``published`` edges, "a chasing b" and "b chasing a" cost the same.
    """
    reference, seen = likeness.reference, likeness.seen
    ends = list(zip(reference.sources.tolist(), reference.targets.tolist(), strict=True))
    there = set(zip(seen.sources.tolist(), seen.targets.tolist(), strict=True))
    spare = [column for column in columns if column not in partners]
    count = len(partners)
    # A spare object is the partner of a place of its own, which is worth nothing.
    partners += spare

    def worth(row: int, column: int | None) -> float:
        return 0.0 if column is None or row >= count else weights[row][column]

    def kept(*places: int) -> int:
        at = {
            edge
            for row in places
            if row < count
            for edge in (*reference.leaving[row], *reference.entering[row])
        }
        return sum((partners[ends[edge][0]], partners[ends[edge][1]]) in there for edge in at)

    better = True
    while better:
        better = False
        for i, j in combinations((*rows, *range(count, len(partners))), 2):
            mine, theirs = partners[i], partners[j]
            now, then = worth(i, mine) + worth(j, theirs), worth(i, theirs) + worth(j, mine)
            if abs(now - then) > _EQUAL:
                continue
            before = kept(i, j)
            partners[i], partners[j] = theirs, mine
            if kept(i, j) > before:
                better = True
            else:
                partners[i], partners[j] = mine, theirs
    del partners[count:]


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

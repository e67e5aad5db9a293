"""Matching of scene graphs written down as the paper says it, one pair of objects at a time.

The peer of :mod:`benchmarks.matching`, and the oracle of the tests: no numbering of texts, no
batches, every assignment by scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.folding import attribute_texts, folded

Alike = Callable[[str, str], float]
"""How alike two texts are."""


def of_attributes(one: SceneObject, other: SceneObject, alike: Alike) -> float:
    """Mean over the union of keys; 1 without any."""
    left, right = attribute_texts(one.attributes), attribute_texts(other.attributes)
    keys = {*left, *right}
    if not keys:
        return 1.0
    return sum(
        alike(left[key], right[key]) if key in left and key in right else 0.0 for key in keys
    ) / len(keys)


def words(scene: SceneGraph, edge: Relation) -> str:
    """The text of an edge: source label, relation, target label."""
    source, target = scene.object(edge.source), scene.object(edge.target)
    return f"{folded(source.name)} {folded(edge.predicate)} {folded(target.name)}"


def of_two_edges(a: SceneGraph, e: Relation, b: SceneGraph, f: Relation, alike: Alike) -> float:
    """Eq. 3."""
    ends = sum(
        of_attributes(a.object(x), b.object(y), alike)
        for x, y in ((e.source, f.source), (e.target, f.target))
    )
    return 0.4 * alike(words(a, e), words(b, f)) + 0.6 * ends / 2


def assigned(costs: list[list[float]]) -> list[tuple[int, int]]:
    """The Hungarian algorithm's pairs."""
    rows, columns = linear_sum_assignment(np.array(costs))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def of_edges(
    a: SceneGraph, u: str, b: SceneGraph, v: str, alike: Alike, published: bool = True
) -> float | None:
    """How alike the edges at two objects are; None where neither has any."""
    mine = [e for e in a.relations if u in (e.source, e.target)]
    theirs = [e for e in b.relations if v in (e.source, e.target)]
    if not mine and not theirs:
        return None
    if not mine or not theirs:
        return 0.0
    table = [
        [
            of_two_edges(a, e, b, f, alike)
            if published or (e.source == u) == (f.source == v)
            else 0
            for f in theirs
        ]
        for e in mine
    ]
    total = sum(table[i][j] for i, j in assigned([[1 - value for value in row] for row in table]))
    return total / (min if published else max)(len(mine), len(theirs))


def of_objects(
    a: SceneGraph,
    u: SceneObject,
    b: SceneGraph,
    v: SceneObject,
    alike: Alike,
    published: bool = True,
) -> float:
    """Eq. 2 with 0.7 and 0.3."""
    attributes = of_attributes(u, v, alike)
    edges = of_edges(a, u.id, b, v.id, alike, published)
    return attributes if edges is None else 0.7 * attributes + 0.3 * edges


def plain_match(
    a: SceneGraph, b: SceneGraph, alike: Alike, published: bool = True
) -> list[tuple[str, str, float]]:
    """(id, id, likeness) of the matched objects, label by label."""
    found = []
    for label in dict.fromkeys(folded(item.name) for item in a.objects):
        ours = [item for item in a.objects if folded(item.name) == label]
        theirs = [item for item in b.objects if folded(item.name) == label]
        if theirs:
            table = [[of_objects(a, u, b, v, alike, published) for v in theirs] for u in ours]
            for i, j in assigned([[1 - value for value in row] for row in table]):
                found.append((ours[i].id, theirs[j].id, table[i][j]))
    return found


def best_by_trying(a: SceneGraph, b: SceneGraph, alike: Alike, published: bool = True) -> float:
    """The largest total of likeness over all ways to match equal labels; tries every one."""
    total = 0.0
    for label in {folded(item.name) for item in a.objects}:
        ours = [item for item in a.objects if folded(item.name) == label]
        theirs = [item for item in b.objects if folded(item.name) == label]
        table = [[of_objects(a, u, b, v, alike, published) for v in theirs] for u in ours]
        if len(ours) > len(theirs):
            table = [list(column) for column in zip(*table, strict=True)]
        total += max(_totals(table), default=0.0)
    return total


def _totals(table: list[list[float]]) -> Iterable[float]:
    columns = len(table[0]) if table else 0
    for order in permutations(range(columns), len(table)):
        yield sum(row[column] for row, column in zip(table, order, strict=True))

"""Matching of scene graphs: which object of one is which of the other (XTC-Bench, Sec. 3.2.6).

Objects of equal label are matched so that the sum of their similarities is the largest possible:
0.7 parts attributes and 0.3 parts incident edges (Eq. 2), the edges matched by an assignment of
their own (Eq. 3). Nothing is rejected; what is left over on the longer side has no partner. Edges
come second: those between matched objects are compared with the edges between their partners.

Attributes: the mean over the union of keys of the similarity of the two texts; a key on one side
only counts 0; two objects without attributes have similarity 1. Edges, Eq. 3:

    S(e, e') = 0.4 · text(e, e') + 0.6 · (attributes(s, s') + attributes(t, t')) / 2

for edges from ``s`` to ``t`` and from ``s'`` to ``t'``; ``text`` compares ``[source label]
[relation] [target label]``. The printed formula is lost in the copies of the paper that we have:
shares and ends are those of the authors' published code. Two objects of which one has no edges get
0, and where neither has any, attributes decide alone, as there. Texts of many graphs are compared
in one call, each pair once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from scenewright.core.scene import Relation, SceneGraph
from scenewright.evals.metrics.graph_matching.text_similarity import (
    EdgeMatch,
    GraphMatch,
    MatchingError,
    NodeMatch,
    TextSimilarity,
    attribute_texts,
    folded,
)

_BY_HAND = 3
"""Sides up to which all assignments are tried: 3 × 3 has six."""
_ORDERS = {
    (rows, columns): tuple(permutations(range(columns), rows))
    for rows in range(1, _BY_HAND + 1)
    for columns in range(rows, _BY_HAND + 1)
}

Weights = Sequence[Sequence[float]]
"""Rows of equal length: the value of each pair of a row and a column, 0 or more."""


def best_total(weights: Weights, rows: Sequence[int], columns: Sequence[int]) -> float:
    """Return the largest sum over one-to-one pairs of ``rows`` and ``columns`` of ``weights``.

    0 if one of them is empty.
    """
    if not rows or not columns:
        return 0.0
    if len(rows) == 1:
        row = weights[rows[0]]
        return row[columns[0]] if len(columns) == 1 else max(row[c] for c in columns)
    if len(columns) == 1:
        column = columns[0]
        return max(weights[r][column] for r in rows)
    if len(rows) == 2 and len(columns) == 2:
        first, second = weights[rows[0]], weights[rows[1]]
        left, right = columns
        return max(first[left] + second[right], first[right] + second[left])
    part = [[weights[r][c] for c in columns] for r in rows]
    return sum(part[row][column] for row, column in best_pairs(part))


def best_pairs(weights: Weights) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the largest sum, by row.

    There are as many as the shorter side is long. Of equal solutions it is the first in the order
    of rows and columns, where no side is longer than 3.
    """
    rows, columns = len(weights), len(weights[0]) if weights else 0
    if not rows or not columns:
        return []
    if max(rows, columns) > _BY_HAND:
        found = linear_sum_assignment(np.asarray(weights, float), maximize=True)
        return list(zip(*(side.tolist() for side in found), strict=True))
    if rows > columns:
        turned = best_pairs(list(zip(*weights, strict=True)))
        return sorted((row, column) for column, row in turned)
    best: tuple[int, ...] = ()
    most = -1.0
    for order in _ORDERS[rows, columns]:
        total = 0.0
        for row, column in zip(weights, order, strict=True):
            total += row[column]
        # Sums in another order differ in their last digits.
        if total > most + 1e-12:
            best, most = order, total
    return list(enumerate(best))


Numbers = NDArray[np.int64]
Values = NDArray[np.float64]


class TextTable:
    """Table of text similarities: pairs are queued, then compared in one call."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._asked: list[Numbers] = []
        self._values: list[Values] = []

    def number(self, text: str) -> int:
        """Return the number of a text; the same text has the same."""
        return self._numbers.setdefault(text, len(self._numbers))

    def ask(self, left: Numbers, right: Numbers) -> int:
        """Note pairs of numbers to compare; returns where :meth:`values` finds the answers."""
        # Likeness is symmetric: both ways round are one question.
        self._asked.append((np.minimum(left, right) << 32) | np.maximum(left, right))
        return len(self._asked) - 1

    def compare(self, similarity: TextSimilarity) -> None:
        """Compare all queued pairs in one call.

        Raises ``MatchingError`` if ``similarity`` gives anything but one number in [0, 1] a pair.
        """
        asked = np.concatenate([*self._asked, np.empty(0, np.int64)])
        unique, inverse = np.unique(asked, return_inverse=True)
        texts = list(self._numbers)
        pairs = [
            (texts[left], texts[right])
            for left, right in zip(
                (unique >> 32).tolist(), (unique & 0xFFFFFFFF).tolist(), strict=True
            )
        ]
        found = np.asarray(similarity.similarities(pairs) if pairs else [], float)
        if found.shape != (len(pairs),) or not ((found >= 0) & (found <= 1)).all():
            raise MatchingError(
                f"the similarity {similarity.id} must give one number in [0, 1] for each of "
                f"{len(pairs)} pairs of texts; it gave an array of shape {found.shape}"
                + ("" if found.shape != (len(pairs),) else " with numbers outside")
            )
        ends = np.cumsum([len(part) for part in self._asked])[:-1]
        self._values = np.split(found[inverse], ends) if self._asked else []

    def values(self, place: int) -> Values:
        """Return the similarities of one :meth:`ask`, in its order."""
        return self._values[place]


_ATTRIBUTE_WEIGHT = 0.7
"""Weight of the attributes in Eq. 2; the rest is that of the incident edges."""
TEXT_SHARE = 0.4
"""Weight of an edge's text in Eq. 3; the rest is that of the attributes of its two ends."""

EdgeReading = Literal["directed", "published"]
"""How incident edges are matched: see :func:`match_many`."""


@dataclass(frozen=True, slots=True)
class Side:
    """One graph with its texts as numbers."""

    scene: SceneGraph
    labels: Numbers
    """Number of the folded label, one an object: (objects,)."""
    attributes: tuple[dict[str, int], ...]
    """Folded key → number of the text, one dictionary an object."""
    sources: Numbers
    """Place of the source, one a relation: (relations,)."""
    targets: Numbers
    """Place of the target: (relations,)."""
    texts: Numbers
    """Number of ``[source label] [relation] [target label]``: (relations,)."""
    leaving: tuple[tuple[int, ...], ...]
    """Places of the relations from each object."""
    entering: tuple[tuple[int, ...], ...]
    """Places of the relations to each object."""


def side_of(scene: SceneGraph, table: TextTable) -> Side:
    """Return ``scene`` with its texts in ``table``."""
    places = {item.id: at for at, item in enumerate(scene.objects)}
    labels = [folded(item.name) for item in scene.objects]
    sources = [places[relation.source] for relation in scene.relations]
    targets = [places[relation.target] for relation in scene.relations]
    leaving: list[list[int]] = [[] for _ in labels]
    entering: list[list[int]] = [[] for _ in labels]
    texts = []
    for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
        leaving[source].append(at)
        entering[target].append(at)
        predicate = folded(scene.relations[at].predicate)
        texts.append(table.number(f"{labels[source]} {predicate} {labels[target]}"))
    attributes = tuple(
        {key: table.number(text) for key, text in attribute_texts(item.attributes).items()}
        if item.attributes
        else {}
        for item in scene.objects
    )
    return Side(
        scene=scene,
        labels=np.array([table.number(label) for label in labels], np.int64),
        attributes=attributes,
        sources=np.array(sources, np.int64),
        targets=np.array(targets, np.int64),
        texts=np.array(texts, np.int64),
        leaving=tuple(map(tuple, leaving)),
        entering=tuple(map(tuple, entering)),
    )


class Likeness:
    """Similarity of the objects of two graphs: texts are queued in a table first, then read."""

    def __init__(self, reference: Side, seen: Side, table: TextTable, edges: EdgeReading) -> None:
        """Queue in ``table`` all pairs of texts that must be compared."""
        self.reference, self.seen = reference, seen
        self._table, self._edges = table, edges
        self.comparable: NDArray[np.bool_] = reference.labels[:, None] == seen.labels
        """Pairs of objects that may be matched: (objects, seen objects)."""
        self._ask_attributes()
        self._ask_edges()

    def _ask_attributes(self) -> None:
        keys = dict.fromkeys(
            k for a in (*self.reference.attributes, *self.seen.attributes) for k in a
        )
        left, right = (
            np.array([[a.get(k, -1) for k in keys] for a in side.attributes], np.int64).reshape(
                len(side.attributes), len(keys)
            )
            for side in (self.reference, self.seen)
        )
        here, there = left >= 0, right >= 0
        self._both = np.nonzero(here[:, None, :] & there)
        self._union = (here[:, None, :] | there).sum(2)
        rows, columns, key = self._both
        self._values = self._table.ask(left[rows, key], right[columns, key])

    def _ask_edges(self) -> None:
        a, b, may = self.reference, self.seen, self.comparable
        # Only edges at objects that may be matched are ever compared.
        needed = may[a.sources[:, None], b.sources] | may[a.targets[:, None], b.targets]
        if self._edges == "published":
            needed |= may[a.sources[:, None], b.targets] | may[a.targets[:, None], b.sources]
        self._needed = np.nonzero(needed)
        rows, columns = self._needed
        self._texts = self._table.ask(a.texts[rows], b.texts[columns])

    def _alike_attributes(self) -> Values:
        """Return (objects, seen objects): the similarity of the attributes of each pair."""
        shape = self._union.shape
        rows, columns, _ = self._both
        sums = np.bincount(
            rows * shape[1] + columns, self._table.values(self._values), shape[0] * shape[1]
        ).reshape(shape)
        return np.where(self._union > 0, sums / np.maximum(self._union, 1), 1.0)

    def _alike_edges(self, attributes: Values) -> Values:
        """Return Eq. 3, each edge with each: (relations, seen relations).

        0 where it is never needed.
        """
        a, b = self.reference, self.seen
        rows, columns = self._needed
        found = np.zeros((len(a.texts), len(b.texts)))
        ends = (
            attributes[a.sources[rows], b.sources[columns]]
            + attributes[a.targets[rows], b.targets[columns]]
        ) / 2
        texts = self._table.values(self._texts)
        found[rows, columns] = TEXT_SHARE * texts + (1 - TEXT_SHARE) * ends
        return found

    def objects(self) -> list[list[float]]:
        """Return Eq. 2, each object with each; −1 where they may not be matched."""
        attributes = self._alike_attributes()
        edges = self._alike_edges(attributes).tolist()
        found = [[-1.0] * len(self.seen.labels) for _ in self.reference.labels]
        rows, columns = (places.tolist() for places in np.nonzero(self.comparable))
        for row, column, alone in zip(
            rows, columns, attributes[self.comparable].tolist(), strict=True
        ):
            around = self._around(row, column, edges)
            # Sums in another order differ in their last digits: equal pairs must stay equal.
            found[row][column] = round(
                alone
                if around is None
                else _ATTRIBUTE_WEIGHT * alone + (1 - _ATTRIBUTE_WEIGHT) * around,
                12,
            )
        return found

    def _around(self, row: int, column: int, edges: Sequence[Sequence[float]]) -> float | None:
        """Return the similarity of the edges at two objects; None where neither has any."""
        leaving, entering = self.reference.leaving[row], self.reference.entering[row]
        leaves, enters = self.seen.leaving[column], self.seen.entering[column]
        many, seen = len(leaving) + len(entering), len(leaves) + len(enters)
        if not many and not seen:
            return None
        if not many or not seen:
            return 0.0
        if self._edges == "published":
            total = best_total(edges, (*leaving, *entering), (*leaves, *enters))
            return total / min(many, seen)
        total = best_total(edges, leaving, leaves) + best_total(edges, entering, enters)
        return total / max(many, seen)


_EQUAL = 1e-9
"""Difference below which two mappings of objects cost the same."""
_AT_ONCE = 512
"""Pairs of graphs whose texts are compared in one call."""


def match_graphs(
    reference: SceneGraph,
    seen: SceneGraph,
    similarity: TextSimilarity,
    *,
    edges: EdgeReading = "published",
) -> GraphMatch:
    """Return the matching of the objects of ``reference`` and ``seen``; see :func:`match_many`."""
    return match_many([(reference, seen)], similarity, edges=edges)[0]


def match_many(
    pairs: Iterable[tuple[SceneGraph, SceneGraph]],
    similarity: TextSimilarity,
    *,
    edges: EdgeReading = "published",
) -> list[GraphMatch]:
    """Return one match a pair (reference, seen), in order; the texts of all are compared together.

    ``edges``: ``directed`` never takes an edge that leaves an object for one that enters it, and
    divides by the larger number of edges, so that surplus edges count against a pair; ``published``
    does as the authors' code: any edge for any, divided by the smaller number.
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
    """Return places of objects of one label, both sides present."""
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
    """Return the second step: edges between matched objects, parallel ones as one."""
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

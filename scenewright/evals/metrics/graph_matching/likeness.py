"""How alike the objects of two graphs are (XTC-Bench, Sec. 3.2.6, Eq. 2 and 3).

Attributes: the mean over the union of keys of how alike the two texts are; a key on one side only
counts 0; two objects without attributes are alike (1). Edges, Eq. 3:

    S(e, e') = 0.4 · text(e, e') + 0.6 · (attributes(s, s') + attributes(t, t')) / 2

for edges from ``s`` to ``t`` and from ``s'`` to ``t'``; ``text`` compares ``[source label]
[relation] [target label]``. The printed formula is lost in the copies of the paper that we have:
shares and ends are those of the authors' published code. Two objects of which one has no edges get
0, and where neither has any, attributes decide alone, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_matching.assignment import best_total
from scenewright.evals.metrics.graph_matching.comparing import Numbers, TextTable, Values
from scenewright.evals.metrics.graph_matching.folding import attribute_texts, folded

_ATTRIBUTE_WEIGHT = 0.7
"""Weight of the attributes in Eq. 2; the rest is that of the incident edges."""
TEXT_SHARE = 0.4
"""Weight of an edge's text in Eq. 3; the rest is that of the attributes of its two ends."""

EdgeReading = Literal["directed", "published"]
"""How incident edges are matched: ``match_many`` tells."""


@dataclass(frozen=True, slots=True)
class Side:
    """One graph with its texts as numbers."""

    scene: SceneGraph
    """The graph."""
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
    """``scene`` with its texts in ``table``."""
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
    """Two graphs whose objects are compared: first it asks a table for texts, then it reads the
    answers."""

    def __init__(self, reference: Side, seen: Side, table: TextTable, edges: EdgeReading) -> None:
        """Notes in ``table`` what must be compared."""
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
        """How alike the attributes are, each object with each: (objects, seen objects)."""
        shape = self._union.shape
        rows, columns, _ = self._both
        sums = np.bincount(
            rows * shape[1] + columns, self._table.values(self._values), shape[0] * shape[1]
        ).reshape(shape)
        return np.where(self._union > 0, sums / np.maximum(self._union, 1), 1.0)

    def _alike_edges(self, attributes: Values) -> Values:
        """Eq. 3, each edge with each: (relations, seen relations); 0 where it is never needed."""
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
        """Eq. 2, each object with each; −1 where they may not be matched."""
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
        """How alike the edges at two objects are; None where neither has any."""
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

"""Graph edit distance as an assignment: which object of one graph is which of the other.

Deleting all of one graph and inserting all of the other costs the sum of both masses. Every
element that is kept, or turned into one that is like it, saves ``2·s·min(a, b)`` of that
(:mod:`scenewright.evals.metrics.graph_edit.costs`). So the distance is the sum of the masses minus
the largest saving of a one-to-one mapping ``i ↦ π(i)`` of objects:

    saving(π) = Σ_i P[i, π(i)] + Σ_{i<k} Q[(i, π(i)), (k, π(k))]

``P`` holds what an object and its attributes save, ``Q`` what the relations between two of them
save: a quadratic assignment problem with savings of 0 or more, few of them above 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import canonical, canonical_key, converse, is_symmetric
from scenewright.evals.metrics.graph_edit.costs import EditCosts, Likeness, weights_of
from scenewright.evals.metrics.graph_matching.folding import values_of

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
_DENSE = 400
"""Most pairs of objects of which all pairs are held as one array (8 bytes times their square)."""


@dataclass(frozen=True, slots=True)
class Masses:
    """What the elements of a graph weigh, by kind."""

    nodes: float
    """All objects."""
    attributes: float
    """All attributes."""
    edges: float
    """All relations."""

    @property
    def total(self) -> float:
        """The whole graph."""
        return self.nodes + self.attributes + self.edges


@dataclass(frozen=True, slots=True)
class _Link:
    """The relations between two objects, both ways."""

    ends: tuple[int, int]
    """Their numbers, the smaller first."""
    forth: tuple[str, ...]
    """Predicates from the first to the second."""
    back: tuple[str, ...]
    """Predicates from the second to the first."""
    mutual: tuple[str, ...]
    """Predicates without a direction."""
    mass: float
    """Of one relation."""

    @property
    def words(self) -> tuple[str, ...]:
        """All predicates."""
        return self.forth + self.back + self.mutual


class EditProblem:
    """Two graphs, and what each pairing of their objects saves."""

    def __init__(
        self,
        reference: SceneGraph,
        seen: SceneGraph,
        *,
        likeness: Likeness | None = None,
        costs: EditCosts | None = None,
        reference_weights: Mapping[str, float] | None = None,
        seen_weights: Mapping[str, float] | None = None,
        least_label: float = 0.0,
        converses: bool = False,
    ) -> None:
        """``likeness``: of labels, values and predicates (default: equal or unequal). Weights are
        by object id, in (0, 1], and 1 where nothing is said. ``least_label``: objects whose labels
        are less alike are never paired; at 0 any two may be, for the sake of their attributes and
        relations. ``converses``: whether relations that say the same in other words or the other
        way round (:mod:`scenewright.core.vocabulary`) are one. Raises ``EditError`` for weights
        that cannot be."""
        self.reference = reference
        self.seen = seen
        self.likeness = likeness or Likeness()
        self.costs = costs or EditCosts()
        self._weights = (
            weights_of(reference, reference_weights),
            weights_of(seen, seen_weights),
        )
        self._least_label = least_label
        self._converses = converses
        self._attributes = (_attributes(reference), _attributes(seen))
        self._links = tuple(
            _links(scene, weights, self.costs.edge, converses)
            for scene, weights in zip((reference, seen), self._weights, strict=True)
        )
        self._learn()
        self._pair()
        self._join()

    @property
    def shape(self) -> tuple[int, int]:
        """(objects of the reference, objects of the seen graph)."""
        return len(self.reference.objects), len(self.seen.objects)

    @cached_property
    def masses(self) -> tuple[Masses, Masses]:
        """Of the reference and of the seen graph."""
        first, second = (
            Masses(
                self.costs.node * sum(weights),
                self.costs.attribute
                * sum(
                    weight * len(item.attributes)
                    for weight, item in zip(weights, scene.objects, strict=True)
                ),
                sum(link.mass * len(link.words) for link in links),
            )
            for scene, weights, links in zip(
                (self.reference, self.seen), self._weights, self._links, strict=True
            )
        )
        return first, second

    @property
    def mass(self) -> float:
        """Of both graphs: what it costs to delete the one and insert the other."""
        return self.masses[0].total + self.masses[1].total

    def _learn(self) -> None:
        """All comparisons in one batch."""
        names = [sorted({item.name for item in scene.objects}) for scene in self._scenes]
        pairs = {(a, b) for a in names[0] for b in names[1]}
        values = [_values_by_key(found) for found in self._attributes]
        for key in values[0].keys() & values[1].keys():
            pairs |= {(a, b) for a in values[0][key] for b in values[1][key]}
        words = [sorted({word for link in links for word in link.words}) for links in self._links]
        pairs |= {(a, b) for a in words[0] for b in words[1]}
        self.likeness.learn(sorted(pairs))

    @property
    def _scenes(self) -> tuple[SceneGraph, SceneGraph]:
        return self.reference, self.seen

    def _pair(self) -> None:
        shape = self.shape
        self.labels: Floats = np.zeros(shape)
        """What labels save, by number of the object in either graph."""
        self.details: Floats = np.zeros(shape)
        """What attributes save."""
        self.allowed: NDArray[np.bool_] = np.ones(shape, bool)
        """Which objects may be paired."""
        known: dict[tuple[str, str], float] = {}
        for i, one in enumerate(self.reference.objects):
            for j, other in enumerate(self.seen.objects):
                names = (one.name, other.name)
                alike = known.get(names)
                if alike is None:
                    alike = known[names] = self.likeness.of(*names)
                if alike < self._least_label:
                    self.allowed[i, j] = False
                    continue
                twice = 2.0 * min(self._weights[0][i], self._weights[1][j])
                self.labels[i, j] = twice * self.costs.node * alike
                mine, theirs = self._attributes[0][i], self._attributes[1][j]
                for key in mine.keys() & theirs.keys():
                    value = self.likeness.shared(mine[key], theirs[key])
                    self.details[i, j] += twice * self.costs.attribute * value
        self.objects: Floats = self.labels + self.details
        """``P``: what objects and attributes save."""

    def _join(self) -> None:
        """``Q`` by its entries above 0: both ends as numbers ``i·n + j`` of pairs of objects."""
        shared: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
        alike = self.likeness.of_predicates if self._converses else self.likeness.of

        def both(a: Sequence[str], b: Sequence[str]) -> float:
            if not a or not b:
                return 0.0
            key = (tuple(a), tuple(b))
            if key not in shared:
                shared[key] = self.likeness.shared(*key, of=alike)
            return shared[key]

        width = self.shape[1]
        firsts: list[int] = []
        seconds: list[int] = []
        values: list[float] = []
        for mine in self._links[0]:
            i, k = mine.ends
            for other in self._links[1]:
                j, m = other.ends
                twice = 2.0 * min(mine.mass, other.mass)
                either_way = both(mine.mutual, other.mutual)
                for a, b, forth, back in (
                    (j, m, other.forth, other.back),
                    (m, j, other.back, other.forth),
                ):
                    if not (self.allowed[i, a] and self.allowed[k, b]):
                        continue
                    value = either_way + both(mine.forth, forth) + both(mine.back, back)
                    if value > 0.0:
                        firsts.append(i * width + a)
                        seconds.append(k * width + b)
                        values.append(twice * value)
        self.first: Ints = np.array(firsts, np.intp)
        """Pair of objects (``i·n + j``) of each entry of ``Q``; its ``i`` is the smaller one."""
        self.second: Ints = np.array(seconds, np.intp)
        """The other pair of objects of each entry."""
        self.values: Floats = np.array(values, np.float64)
        """What relations between the two save."""

    @cached_property
    def dense(self) -> Floats | None:
        """``Q`` of shape (rows, columns, rows, columns), symmetric; None for large graphs."""
        rows, columns = self.shape
        if rows * columns > _DENSE:
            return None
        found = np.zeros((rows * columns, rows * columns))
        found[self.first, self.second] = self.values
        found[self.second, self.first] = self.values
        return found.reshape(rows, columns, rows, columns)

    @cached_property
    def _lookup(self) -> dict[tuple[int, int], float]:
        ends = zip(self.first.tolist(), self.second.tolist(), strict=True)
        return dict(zip(ends, self.values.tolist(), strict=True))

    def edges_saved(self, mapping: Mapping[int, int]) -> float:
        """What the relations save under a mapping of object numbers."""
        width = self.shape[1]
        pairs = sorted(i * width + j for i, j in mapping.items())
        known = self._lookup
        if len(pairs) ** 2 < 2 * len(known):
            return sum(
                known.get((a, b), 0.0) for at, a in enumerate(pairs) for b in pairs[at + 1 :]
            )
        taken = np.zeros(max(1, self.shape[0] * width), bool)
        taken[pairs] = True
        return float(self.values[taken[self.first] & taken[self.second]].sum())

    def saving(self, mapping: Mapping[int, int]) -> float:
        """What a mapping of object numbers saves in all."""
        nodes = sum(float(self.objects[i, j]) for i, j in mapping.items())
        return nodes + self.edges_saved(mapping)

    def shares(self, mapping: Mapping[int, int]) -> Masses:
        """The saving by kind of element."""
        return Masses(
            sum(float(self.labels[i, j]) for i, j in mapping.items()),
            sum(float(self.details[i, j]) for i, j in mapping.items()),
            self.edges_saved(mapping),
        )


def _attributes(scene: SceneGraph) -> list[dict[str, list[str]]]:
    """Canonical key → values, each with what it lists in order; keys that mean the same share an
    entry."""
    found: list[dict[str, list[str]]] = []
    for item in scene.objects:
        mine: dict[str, list[str]] = {}
        for key, value in item.attributes.items():
            mine.setdefault(canonical_key(key), []).append(" and ".join(values_of(value)))
        found.append(mine)
    return found


def _values_by_key(attributes: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for mine in attributes:
        for key, values in mine.items():
            found.setdefault(key, set()).update(values)
    return found


def one_way(source: str, predicate: str, target: str) -> tuple[str, str, str]:
    """Return the relation in one of the two ways in which it can be said.

    Which of *left of* and *right of* a graph holds is chance: whoever drew it up may have begun
    with either object. Of predicates that are each other's converse the first by the alphabet
    stays; all are canonical.
    """
    name = canonical(predicate)
    other = converse(name)
    if other is not None and other < name and converse(other) == name:
        return target, other, source
    return source, name, target


def _links(
    scene: SceneGraph, weights: Sequence[float], cost: float, converses: bool
) -> list[_Link]:
    at = {item.id: number for number, item in enumerate(scene.objects)}
    forth: dict[tuple[int, int], list[str]] = {}
    mutual: dict[tuple[int, int], list[str]] = {}
    said: set[tuple[str, str, str]] = set()
    for relation in scene.relations:
        triple = (relation.source, relation.predicate, relation.target)
        free = converses and is_symmetric(relation.predicate)
        if converses:
            triple = one_way(*triple)
            if free and at[triple[0]] > at[triple[2]]:
                triple = triple[::-1]
        # Once written one way, two relations may be one.
        if triple in said:
            continue
        said.add(triple)
        ends = (at[triple[0]], at[triple[2]])
        (mutual if free else forth).setdefault(ends, []).append(triple[1])
    return [
        _Link(
            (a, b),
            tuple(sorted(forth.get((a, b), ()))),
            tuple(sorted(forth.get((b, a), ()))),
            tuple(sorted(mutual.get((a, b), ()))),
            cost * (weights[a] + weights[b]) / 2.0,
        )
        for a, b in sorted({(min(ends), max(ends)) for ends in (*forth, *mutual)})
    ]

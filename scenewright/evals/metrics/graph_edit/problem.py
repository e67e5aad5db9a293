"""Graph edit distance as an assignment: costs, and savings of pairs of objects.

Every element of a graph has a **mass**. With the weight ``w`` of an object (1 in the foreground,
less in the background):

- an object: ``w · node``,
- each of its attributes: ``w · attribute``,
- a relation: ``edge · (w_source + w_target) / 2``.

Deleting or inserting an element costs its mass. Turning an element of mass ``a`` into one of mass
``b`` costs ``a + b − 2·s·min(a, b)``, where ``s`` in [0, 1] is the similarity of their texts:
nothing for equal texts of equal mass, ``|a − b|`` for equal texts, and for texts without similarity
as much as deleting the one and inserting the other. It is a metric wherever ``1 − s`` is one.

Deleting all of one graph and inserting all of the other costs the sum of both masses. Every element
that is kept or turned into a similar one saves ``2·s·min(a, b)`` of that. So the distance is the
sum of the masses minus the largest saving of a one-to-one mapping ``i ↦ π(i)`` of objects:

    saving(π) = Σ_i P[i, π(i)] + Σ_{i<k} Q[(i, π(i)), (k, π(k))]

``P`` holds what an object and its attributes save, ``Q`` what the relations between two of them
save: a quadratic assignment problem with savings of 0 or more, few of them above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from scenewright.core.errors import ScenewrightError
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import (
    INVERSE,
    canonical,
    canonical_key,
    entails,
    excludes,
    inverse,
    is_weak,
)
from scenewright.evals.metrics.graph_matching.text_similarity import (
    ExactSimilarity,
    TextSimilarity,
    folded,
    values_of,
)

PARTLY = 0.5
"""Least similarity of a predicate to one that it entails: *on* to *above*."""


class EditError(ScenewrightError, ValueError):
    """Invalid costs, weights or limits; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class EditCosts:
    """Masses of the elements of an object of weight 1, by default all equal."""

    node: float = 1.0
    """Mass of an object."""
    attribute: float = 1.0
    """Mass of each attribute."""
    edge: float = 1.0
    """Mass of a relation between two objects of weight 1."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise EditError(
                    f"the cost {field.name} is {value!r}: it must be above 0, or changes would "
                    "go unseen"
                )


def background_weights(background: Collection[str], weight: float = 0.5) -> dict[str, float]:
    """Return ``weight`` for each object id of ``background``; all others weigh 1.

    Raises ``EditError`` if ``weight`` is outside (0, 1].
    """
    if not (math.isfinite(weight) and 0.0 < weight <= 1.0):
        raise EditError(f"the weight of the background is {weight!r}: use one above 0 and up to 1")
    return dict.fromkeys(background, weight)


def weights_of(scene: SceneGraph, weights: Mapping[str, float] | None) -> list[float]:
    """Return the weight of each object, in the scene's order (default 1).

    Raises ``EditError`` for an id that is not in the scene and for a weight outside (0, 1].
    """
    given = dict(weights or {})
    unknown = sorted(set(given) - {item.id for item in scene.objects})
    if unknown:
        raise EditError(f"a weight is given for {unknown[0]!r}, which is not in the scene")
    for name, weight in given.items():
        if not (math.isfinite(weight) and 0.0 < weight <= 1.0):
            raise EditError(f"the weight of {name!r} is {weight!r}: use one above 0 and up to 1")
    return [float(given.get(item.id, 1.0)) for item in scene.objects]


class Likeness:
    """Similarity of texts for an edit distance; each pair is compared once.

    Texts that are equal after folding have similarity 1, others that of a
    :class:`~scenewright.evals.metrics.graph_matching.text_similarity.TextSimilarity`.
    """

    def __init__(self, similarity: TextSimilarity | None = None, least: float = 0.0) -> None:
        """Use ``similarity`` (default: equal or unequal) with 0 for what is below ``least``.

        Raises ``EditError`` if ``least`` is outside [0, 1].
        """
        if not 0.0 <= least <= 1.0:
            raise EditError(f"the least similarity is {least!r}: use a number from 0 to 1")
        self._similarity = similarity or ExactSimilarity()
        self._least = least
        self._known: dict[tuple[str, str], float] = {}

    @property
    def id(self) -> str:
        """Id of the similarity, with ``≥`` and the threshold, if any."""
        name = self._similarity.id
        return f"{name}≥{self._least:g}" if self._least else name

    def of_predicates(self, a: str, b: str) -> float:
        """Return the similarity of two predicates.

        It is 0 if they exclude each other, whatever the similarity says, and at least
        :data:`PARTLY` if one of them follows from the other. A predicate that nearly always holds
        (*near*) gains nothing from what it follows from.
        """
        if excludes(a, b):
            return 0.0
        less = b if entails(a, b) else a if entails(b, a) else None
        alike = a.startswith(INVERSE) == b.startswith(INVERSE)
        value = self.of(a.removeprefix(INVERSE), b.removeprefix(INVERSE)) if alike else 0.0
        weak = less is None or (is_weak(less) and is_weak(inverse(less)))
        return value if weak else max(value, PARTLY)

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Compare new ``pairs`` in one batch."""
        wanted = {_key(folded(a), folded(b)) for a, b in pairs}
        new = sorted(pair for pair in wanted if pair[0] != pair[1] and pair not in self._known)
        if not new:
            return
        found = np.asarray(self._similarity.similarities(new), np.float64)
        if found.shape != (len(new),) or not np.all((found >= 0.0) & (found <= 1.0)):
            raise EditError(
                f"the similarity {self._similarity.id} must give one number from 0 to 1 for each "
                f"of {len(new)} pairs of texts; it gave an array of shape {found.shape}"
            )
        for pair, value in zip(new, found.tolist(), strict=True):
            self._known[pair] = value if value >= self._least else 0.0

    def of(self, a: str, b: str) -> float:
        """Return the similarity in [0, 1]; symmetric."""
        first, second = folded(a), folded(b)
        if first == second:
            return 1.0
        pair = _key(first, second)
        if pair not in self._known:
            self.learn([pair])
        return self._known[pair]

    def shared(
        self,
        some: Sequence[str],
        others: Sequence[str],
        of: Callable[[str, str], float] | None = None,
    ) -> float:
        """Return the largest sum of likenesses of a one-to-one pairing of two collections of texts.

        ``of``: how alike two of them are; by default :meth:`of`.
        """
        of = of or self.of
        if not some or not others:
            return 0.0
        if len(some) == len(others) == 1:
            return of(some[0], others[0])
        table = np.array([[of(a, b) for b in others] for a in some])
        rows, columns = linear_sum_assignment(table, maximize=True)
        return float(table[rows, columns].sum())


def _key(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Masses:
    """Masses of the elements of a graph, by kind."""

    nodes: float
    attributes: float
    edges: float

    @property
    def total(self) -> float:
        """Mass of the whole graph."""
        return self.nodes + self.attributes + self.edges


@dataclass(frozen=True, slots=True)
class _Link:
    """The relations between two objects, both ways."""

    ends: tuple[int, int]
    """Numbers of its objects, the smaller first."""
    forth: tuple[str, ...]
    """Predicates from the first to the second."""
    back: tuple[str, ...]
    """Predicates from the second to the first."""
    mass: float
    """Mass of one relation."""

    @property
    def words(self) -> tuple[str, ...]:
        """All predicates."""
        return self.forth + self.back

    def turned(self, converses: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return ``forth`` and ``back`` as they are from the second object to the first."""
        if converses:
            return tuple(map(inverse, self.forth)), ()
        return self.back, self.forth


class EditProblem:
    """Two graphs, and the saving of each pair of their objects."""

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
        """Compute the savings.

        ``likeness`` compares labels, values and predicates (default: equal or unequal). Weights are
        by object id, in (0, 1], by default 1. ``least_label``: objects whose labels are less
        similar are never paired; at 0 any two may be, for the sake of their attributes and
        relations. ``converses``: whether relations that say the same in other words or in the other
        direction (:mod:`scenewright.core.vocabulary`) are one. Raises ``EditError`` for invalid
        weights.
        """
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
        """Masses of the reference and of the seen graph."""
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
        """Mass of both graphs: the cost of deleting the one and inserting the other."""
        return self.masses[0].total + self.masses[1].total

    def _learn(self) -> None:
        """Compare all texts in one batch."""
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
        """Savings of labels, by number of the object in either graph."""
        self.details: Floats = np.zeros(shape)
        """Savings of attributes."""
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
        """``P``: savings of objects and attributes."""

    def _join(self) -> None:
        """Compute the entries of ``Q`` above 0.

        Both ends are numbers ``i·n + j`` of pairs of objects.
        """
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
                for a, b, forth, back in (
                    (j, m, other.forth, other.back),
                    (m, j, *other.turned(self._converses)),
                ):
                    if not (self.allowed[i, a] and self.allowed[k, b]):
                        continue
                    value = both(mine.forth, forth) + both(mine.back, back)
                    if value > 0.0:
                        firsts.append(i * width + a)
                        seconds.append(k * width + b)
                        values.append(twice * value)
        self.first: Ints = np.array(firsts, np.intp)
        """Pair of objects (``i·n + j``) of each entry of ``Q``; its ``i`` is the smaller one."""
        self.second: Ints = np.array(seconds, np.intp)
        """The other pair of objects of each entry."""
        self.values: Floats = np.array(values, np.float64)
        """Savings of relations between the two."""

    def edges_saved(self, mapping: Mapping[int, int]) -> float:
        """Return the saving of the relations under a mapping of object numbers."""
        width = self.shape[1]
        taken = np.zeros(max(1, self.shape[0] * width), bool)
        taken[[i * width + j for i, j in mapping.items()]] = True
        return float(self.values[taken[self.first] & taken[self.second]].sum())

    def saving(self, mapping: Mapping[int, int]) -> float:
        """Return the total saving of a mapping of object numbers."""
        nodes = sum(float(self.objects[i, j]) for i, j in mapping.items())
        return nodes + self.edges_saved(mapping)

    def shares(self, mapping: Mapping[int, int]) -> Masses:
        """Return the saving by kind of element."""
        return Masses(
            sum(float(self.labels[i, j]) for i, j in mapping.items()),
            sum(float(self.details[i, j]) for i, j in mapping.items()),
            self.edges_saved(mapping),
        )


def _attributes(scene: SceneGraph) -> list[dict[str, list[str]]]:
    """Return canonical key → values, lists split in order.

    Keys of the same meaning share an entry.
    """
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


def _links(
    scene: SceneGraph, weights: Sequence[float], cost: float, converses: bool
) -> list[_Link]:
    """Return the relations by pair of objects; with ``converses`` all of them ``forth``.

    Whether a graph holds *left of* or *right of* is chance: its author may have begun with either
    object.
    """
    at = {item.id: number for number, item in enumerate(scene.objects)}
    words: dict[tuple[int, int], dict[str, None]] = {}
    for relation in scene.relations:
        a, b, name = at[relation.source], at[relation.target], relation.predicate
        if converses:
            name = canonical(name) if a < b else inverse(name)
            a, b = min(a, b), max(a, b)
        # Once written one way, two relations may be one.
        words.setdefault((a, b), {})[name] = None
    return [
        _Link(
            (a, b),
            tuple(sorted(words.get((a, b), ()))),
            tuple(sorted(words.get((b, a), ()))),
            cost * (weights[a] + weights[b]) / 2.0,
        )
        for a, b in sorted({(min(ends), max(ends)) for ends in words})
    ]

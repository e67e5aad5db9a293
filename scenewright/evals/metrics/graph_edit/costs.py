"""What an edit of a scene graph costs, and how alike two texts are.

Every element of a graph has a **mass**. With the weight ``w`` of an object (1 in the foreground,
less in the background):

- an object: ``w · node``,
- each of its attributes: ``w · attribute``,
- a relation: ``edge · (w_source + w_target) / 2``.

Deleting or inserting an element costs its mass. Turning an element of mass ``a`` into one of mass
``b`` costs ``a + b − 2·s·min(a, b)``, where ``s`` in [0, 1] is how alike their texts are: nothing
for equal texts of equal mass, ``|a − b|`` for equal texts, and for texts without likeness just as
much as deleting the one and inserting the other. It is a metric wherever ``1 − s`` is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.optimize import linear_sum_assignment

from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import entails, excludes, is_weak
from scenewright.evals.metrics.graph_matching.base import TextSimilarity
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.metrics.graph_matching.lexical import ExactSimilarity

PARTLY = 0.5
"""How alike a predicate is at least to one that it entails: *on* to *above*."""


class EditError(ValueError):
    """Costs, weights or limits that cannot be; says what to change."""


@dataclass(frozen=True, slots=True)
class EditCosts:
    """Masses of the elements of an object of weight 1. All alike by default: a fact is a fact."""

    node: float = 1.0
    """Of an object."""
    attribute: float = 1.0
    """Of each attribute."""
    edge: float = 1.0
    """Of a relation between two objects of weight 1."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise EditError(
                    f"the cost {field.name} is {value!r}: it must be above 0, or changes would "
                    "go unseen"
                )


def background_weights(background: Collection[str], weight: float = 0.5) -> dict[str, float]:
    """``weight`` for each object id of ``background``; all others weigh 1.

    Raises ``EditError`` if ``weight`` is outside (0, 1].
    """
    if not (math.isfinite(weight) and 0.0 < weight <= 1.0):
        raise EditError(f"the weight of the background is {weight!r}: use one above 0 and up to 1")
    return dict.fromkeys(background, weight)


def weights_of(scene: SceneGraph, weights: Mapping[str, float] | None) -> list[float]:
    """Weight of each object, in the scene's order; 1 where ``weights`` says nothing.

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
    """How alike texts are: 1 for those that are equal after folding, else what a
    :class:`~scenewright.evals.metrics.graph_matching.base.TextSimilarity` says; each pair is asked
    once.
    """

    def __init__(self, similarity: TextSimilarity | None = None, least: float = 0.0) -> None:
        """``similarity``: by default equal or unequal. ``least``: what is less alike than
        that counts as not alike at all. Raises ``EditError`` if it is outside [0, 1]."""
        if not 0.0 <= least <= 1.0:
            raise EditError(f"the least similarity is {least!r}: use a number from 0 to 1")
        self._similarity = similarity or ExactSimilarity()
        self._least = least
        self._known: dict[tuple[str, str], float] = {}

    @property
    def id(self) -> str:
        """Of the similarity, with ``≥`` and the least one where there is one."""
        name = self._similarity.id
        return f"{name}≥{self._least:g}" if self._least else name

    def of_predicates(self, a: str, b: str) -> float:
        """Return how alike two predicates are: 0 if they exclude each other, whatever the
        similarity says, and at least :data:`PARTLY` if one of them follows from the other.

        Of a predicate that holds nearly always (*near*) nothing is said by what it follows from.
        """
        if excludes(a, b):
            return 0.0
        less = b if entails(a, b) else a if entails(b, a) else None
        value = self.of(a, b)
        return value if less is None or is_weak(less) else max(value, PARTLY)

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Have ``pairs`` compared in one batch, as far as they are new."""
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
        """In [0, 1]; symmetric."""
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

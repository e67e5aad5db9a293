"""Recall of ranked relations, as scene graph models are measured: R@K and mR@K for PredCls.

Objects are given (predicate classification), so a predicted triple is right if the reference has
the same subject, predicate and object, by identity. Of each image the K surest triples count:

- *with graph constraint* at most one predicate a pair (ordered), the surest;
- *without* all of them.

``R@K`` is the mean over images of the share of reference triples that are among the first K.
``mR@K`` is the mean over predicates of the mean, over the images whose reference has the predicate,
of the share of those triples that are found (Tang et al. 2019; Chen et al. 2019). Images whose
reference has no relations count in neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scenewright.evals.annotation.votes import Triple

KS = (20, 50, 100)


def ranked(triples: Sequence[Triple], scores: Sequence[float], constrained: bool) -> list[Triple]:
    """``triples`` by falling score, those of equal score in their order; of each ordered pair the
    first alone if ``constrained``. Raises ``ValueError`` if there is not one score a triple."""
    order = [t for _, t in sorted(zip(scores, triples, strict=True), key=lambda one: -one[0])]
    if not constrained:
        return list(dict.fromkeys(order))
    best: dict[tuple[str, str], Triple] = {}
    for triple in order:
        best.setdefault((triple[0], triple[2]), triple)
    return list(best.values())


@dataclass
class Recalls:
    """Sums over images, from which R@K and mR@K are made."""

    k: int
    """How many triples of an image count."""
    images: list[float] = field(default_factory=list)
    """Recall of each image with reference relations."""
    _by_predicate: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, found: Sequence[Triple], reference: Iterable[Triple]) -> None:
        """One image: its ``found`` triples, ranked, and those that are true."""
        wanted = set(reference)
        if not wanted:
            return
        hits = wanted & set(found[: self.k])
        self.images.append(len(hits) / len(wanted))
        total: dict[str, int] = defaultdict(int)
        right: dict[str, int] = defaultdict(int)
        for triple in wanted:
            total[triple[1]] += 1
            right[triple[1]] += triple in hits
        for predicate, count in total.items():
            self._by_predicate[predicate].append(right[predicate] / count)

    @property
    def recall(self) -> float | None:
        """R@K; none without an image that counts."""
        return sum(self.images) / len(self.images) if self.images else None

    @property
    def predicates(self) -> dict[str, float]:
        """Predicate → its mean recall."""
        return {word: sum(all_) / len(all_) for word, all_ in sorted(self._by_predicate.items())}

    @property
    def mean_recall(self) -> float | None:
        """mR@K; none likewise."""
        found = self.predicates
        return sum(found.values()) / len(found) if found else None

"""What becomes of scored relations: thresholds and exclusive predicates (XTC-Bench, Sec. 3.2.2).

Pure functions; whatever goes is told with the figure that it goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from scenewright.core.ports.extractor import Candidate, Dropped, ExtractionError, PairScores
from scenewright.core.scene import Relation, SceneError, clean_name
from scenewright.core.vocabulary import EXCLUSIVE, canonical


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a relation must reach (XTC-Bench, Sec. 3.2.2 and 6.1.3); the authors' defaults."""

    none: float = 0.5
    """A pair whose score of no relation is this or more is dropped."""
    predicate: float = 0.4
    """A predicate is kept if its score is this or more."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, value in (("none", self.none), ("predicate", self.predicate)):
            if not 0.0 <= value <= 1.0:
                raise ExtractionError(f"the threshold {name} is {value}: it must lie in [0, 1]")


def passed(
    scores: Iterable[PairScores], thresholds: Thresholds
) -> tuple[list[Candidate], list[Dropped]]:
    """The relations that reach ``thresholds``, best first within a pair, and what does not.

    Several predicates of one pair may pass: parallel edges. A predicate that no scene can hold
    is dropped too. A score outside of [0, 1] is an ``ExtractionError``.
    """
    kept: dict[Relation, Candidate] = {}
    dropped: list[Dropped] = []
    for pair in scores:
        for value in (pair.none, *pair.predicates.values()):
            if not 0.0 <= value <= 1.0:
                raise ExtractionError(
                    f"a score of {pair.source} and {pair.target} is {value}: give probabilities, "
                    "from 0 to 1"
                )
        if pair.source == pair.target:
            dropped.append(Dropped(f"{pair.source} and itself", "relations", "one object alone"))
            continue
        if pair.none >= thresholds.none:
            what = f"{pair.source} and {pair.target}"
            reason = f"no relation {pair.none:.2f} ≥ {thresholds.none:g}"
            dropped.append(Dropped(what, "relations", reason))
            continue
        for predicate, score in sorted(pair.predicates.items(), key=lambda one: (-one[1], one[0])):
            what = f"{pair.source} {predicate} {pair.target}"
            if score < thresholds.predicate:
                reason = f"score {score:.2f} < {thresholds.predicate:g}"
                dropped.append(Dropped(what, "relations", reason))
                continue
            try:
                clean = clean_name(predicate, "a predicate")
            except SceneError as error:
                dropped.append(Dropped(what, "relations", str(error)))
                continue
            relation = Relation(source=pair.source, predicate=clean, target=pair.target)
            if relation not in kept or kept[relation].score < score:
                kept[relation] = Candidate(relation, score)
    return list(kept.values()), dropped


def without_rivals(
    candidates: Sequence[Candidate], exclusive: Set[str] = EXCLUSIVE
) -> tuple[list[Candidate], list[Dropped]]:
    """The candidates, and of several subjects with one ``exclusive`` predicate toward one object
    only the best scored, the first of equals (XTC-Bench, Sec. 3.2.2). Order is kept."""
    best: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        key = (canonical(one.relation.predicate), one.relation.target)
        if key[0] in exclusive and (key not in best or one.score > best[key].score):
            best[key] = one
    kept, dropped = [], []
    for one in candidates:
        winner = best.get((canonical(one.relation.predicate), one.relation.target), one)
        if winner.relation.source == one.relation.source:
            kept.append(one)
            continue
        reason = (
            f"{winner.relation.source} does so likelier: {winner.score:.2f} ≥ {one.score:.2f}, "
            "and only one can"
        )
        dropped.append(Dropped(str(one.relation), "rules", reason))
    return kept, dropped


def joined(scores: Iterable[PairScores], owner: Mapping[str, str]) -> list[PairScores]:
    """Scores between instances as scores between the things they were merged into.

    ``owner``: instance id → thing id. Of several pairs of instances that become one, each
    predicate has its best score and no relation its least; relations within a thing go
    (XTC-Bench, Sec. 3.2.2). An id that ``owner`` lacks is an ``ExtractionError``.
    """
    found: dict[tuple[str, str], tuple[float, dict[str, float]]] = {}
    for pair in scores:
        try:
            source, target = owner[pair.source], owner[pair.target]
        except KeyError as error:
            raise ExtractionError(
                f"the scores name {error.args[0]!r}, which was not detected: there are "
                f"{', '.join(list(owner)[:12]) or 'no objects'}"
            ) from None
        if source == target:
            continue
        none, predicates = found.setdefault((source, target), (pair.none, {}))
        for predicate, score in pair.predicates.items():
            predicates[predicate] = max(score, predicates.get(predicate, 0.0))
        found[source, target] = (min(none, pair.none), predicates)
    return [PairScores(s, t, none, found_) for (s, t), (none, found_) in found.items()]

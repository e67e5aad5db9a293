"""Relations that say the same the other way round: *left of* and *right of*, *near* and *near*.

Which of the two a graph holds is chance: whoever drew it up may have begun with either object.
"""

from __future__ import annotations

from scenewright.evals.graph_matching.folding import folded

CONVERSES: dict[str, str] = {
    "right of": "left of",
    "to the right of": "to the left of",
    "on the right of": "on the left of",
    "on the right side of": "on the left side of",
    "below": "above",
    "beneath": "over",
    "lower than": "higher than",
    "behind": "in front of",
    "smaller than": "larger than",
    "shorter than": "taller than",
}
"""Predicate → the one that says the same with both objects exchanged, by which it is replaced."""
MUTUAL = frozenset(
    {
        *("near", "next to", "beside", "by", "close to", "adjacent to", "alongside"),
        *("side by side with", "touching", "facing each other"),
    }
)
"""Predicates that hold both ways whenever they hold."""


def one_way(source: str, predicate: str, target: str) -> tuple[str, str, str]:
    """The relation as it is written here: with the predicate of each pair that stays."""
    other = CONVERSES.get(folded(predicate))
    return (source, predicate, target) if other is None else (target, other, source)


def is_mutual(predicate: str) -> bool:
    """Whether its direction says nothing."""
    return folded(predicate) in MUTUAL

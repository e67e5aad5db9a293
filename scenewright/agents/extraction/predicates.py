"""The predicates of Fair-PSG and their classes (XTC-Bench, Sec. 6.1.1 and Table 10), as data.

The 56 predicates stand in ``predicates.toml`` with the class of each, and so do further words
that other vocabularies use.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, Literal, get_args

PredicateClass = Literal["spatial", "posture", "locomotion", "social"]
"""Where a thing is, how a body rests on another, a change of place, or what one does to another."""
PREDICATE_CLASSES: tuple[PredicateClass, ...] = get_args(PredicateClass)

_DATA: dict[str, Any] = tomllib.loads(
    (files("scenewright.agents.extraction") / "predicates.toml").read_text(encoding="utf-8")
)
_CLASS: dict[str, PredicateClass] = {
    word: name
    for table in ("classes", "more")
    for name in PREDICATE_CLASSES
    for word in _DATA[table][name]
}
PREDICATES: tuple[str, ...] = tuple(
    word for name in PREDICATE_CLASSES for word in _DATA["classes"][name]
)
"""The 56 predicates of Fair-PSG, by class."""
EXCLUSIVE: frozenset[str] = frozenset(_DATA["exclusive"]["predicates"])
"""Predicates that one subject alone can have toward an object (Sec. 3.2.2)."""


def folded(predicate: str) -> str:
    """``predicate`` without case and with single spaces, as the tables have it."""
    return " ".join(predicate.casefold().split())


def class_of(predicate: str) -> PredicateClass | None:
    """The class of ``predicate``, whatever its case; None for a word that no table has."""
    return _CLASS.get(folded(predicate))

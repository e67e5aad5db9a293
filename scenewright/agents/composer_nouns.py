"""Words that may be said for class labels and attribute values: reviewed data, as a table."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

_DATA: dict[str, Any] = tomllib.loads(
    (files("scenewright.agents") / "composer_nouns.toml").read_text(encoding="utf-8")
)


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


KINDS_OF: dict[str, frozenset[str]] = {
    label: frozenset(_phrases(others)) for label, others in _DATA["kinds"].items()
}
"""Class label → labels of which each is one: a text may say them for it."""
_ROWS = tuple(frozenset(row.split()) for row in _phrases(_DATA["values"]["rows"]))
_VERBS = tuple(frozenset(row.split()) for row in _phrases(_DATA["verbs"]["rows"]))
SMALL = frozenset(_DATA["text"]["small"].split())
"""Words of a value that need not be said."""
OWNING = frozenset(_DATA["text"]["owning"].split())
"""Words that lead from an owner to what it has."""
MANY = frozenset(_DATA["labels"]["many"].split())
"""Labels that mean several without looking like a plural."""
NOT_COMPOUND = frozenset(_phrases(_DATA["labels"]["not_compound"]))
"""Labels whose last word names another thing."""


def same_values(word: str) -> frozenset[str]:
    """Return what may be said for an attribute's word, the word itself included."""
    return frozenset({word}).union(*(row for row in _ROWS if word in row))


WORN = frozenset(_DATA["labels"]["worn"].split())
"""Clothes: who is in them has them."""


def same_verbs(verb: str) -> frozenset[str]:
    """Return what may be said for a verb in its ``-ing`` form, itself included."""
    return frozenset({verb} - {""}).union(*(row for row in _VERBS if verb in row))

"""Words for class labels, attribute values and verbs: what means the same, and what a text may say.

Matching and grading read what means the same; the check of composed texts also takes looser words.
Predicates are the subject of :mod:`scenewright.vocabulary`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_DATA: dict[str, Any] = tomllib.loads(
    (files("scenewright.agents") / "composer_nouns.toml").read_text(encoding="utf-8")
)


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


def _rows(text: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(row.split()) for row in _phrases(text))


def _labels(section: str) -> Mapping[str, frozenset[str]]:
    return {label: frozenset(_phrases(others)) for label, others in _DATA[section].items()}


KINDS_OF: Mapping[str, frozenset[str]] = _labels("kinds")
"""Class label → labels of which each is one, or that mean the same."""
SAID_FOR: Mapping[str, frozenset[str]] = {
    label: KINDS_OF.get(label, frozenset()) | _labels("said_for").get(label, frozenset())
    for label in (*KINDS_OF, *_labels("said_for"))
}
"""Class label → labels that a text may say for it: those of :data:`KINDS_OF` and looser ones."""
_SAME = _rows(_DATA["values"]["same"])
_LOOSE = (*_SAME, *_rows(_DATA["values"]["said_for"]))
_VERBS = _rows(_DATA["verbs"]["rows"])
SMALL = frozenset(_DATA["text"]["small"].split())
"""Words of a value that need not be said."""
OWNING = frozenset(_DATA["text"]["owning"].split())
"""Words that lead from an owner to what it has."""
MANY = frozenset(_DATA["labels"]["many"].split())
"""Labels that mean several without looking like a plural."""
NOT_COMPOUND = frozenset(_phrases(_DATA["labels"]["not_compound"]))
"""Labels whose last word names another thing."""
WORN = frozenset(_DATA["labels"]["worn"].split())
"""Clothes: who is in them has them."""


def same_values(word: str) -> frozenset[str]:
    """Return the words that mean the same as an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _SAME if word in row))


def said_values(word: str) -> frozenset[str]:
    """Return what a text may say for an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _LOOSE if word in row))


def same_verbs(verb: str) -> frozenset[str]:
    """Return what may be said for a verb in its ``-ing`` form, itself included."""
    return frozenset({verb} - {""}).union(*(row for row in _VERBS if verb in row))

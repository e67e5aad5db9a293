"""Words for class labels and attribute values: what means the same, and what a text may say.

Matching and grading read what means the same; the check of composed texts also takes looser words.
Who people are is a list of the caption parser's (``words.toml``).
Predicates and verbs are the subject of :mod:`scenewright.core.vocabulary`.
"""

from __future__ import annotations

from collections.abc import Mapping

from scenewright.agents.parsers.lexicon import PEOPLE
from scenewright.core.word_lists import WordLists, split_phrases

_LISTS = WordLists.of("scenewright.agents.composers", "nouns.toml")
_PERSON = "person"


def _rows(section: str, key: str) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, _LISTS.phrases(section, key)))


def _labels(section: str, people: frozenset[str]) -> Mapping[str, frozenset[str]]:
    found = {
        label: frozenset(" ".join(words) for words in split_phrases(others))
        for label, others in _LISTS.data[section].items()
    }
    return {**found, _PERSON: found[_PERSON] | people - {_PERSON}}


_UNSURE = _LISTS.words("labels", "not_always_people")

KINDS_OF: Mapping[str, frozenset[str]] = _labels("kinds", PEOPLE - _UNSURE)
"""Class label → labels of which each is one, or that mean the same."""
_LOOSER = _labels("said_for", PEOPLE & _UNSURE)
SAID_FOR: Mapping[str, frozenset[str]] = {
    label: KINDS_OF.get(label, frozenset()) | _LOOSER.get(label, frozenset())
    for label in (*KINDS_OF, *_LOOSER)
}
"""Class label → labels that a text may say for it: those of :data:`KINDS_OF` and looser ones."""
_SAME = _rows("values", "same")
_LOOSE = (*_SAME, *_rows("values", "said_for"))
SMALL = _LISTS.words("text", "small")
"""Words of a value that need not be said."""
OWNING = _LISTS.words("text", "owning")
"""Words that lead from an owner to what it has."""
MANY = _LISTS.words("labels", "many")
"""Labels that mean several without looking like a plural."""
NOT_COMPOUND = frozenset(" ".join(words) for words in _LISTS.phrases("labels", "not_compound"))
"""Labels whose last word names another thing."""
WORN = _LISTS.words("labels", "worn")
"""Clothes: who is in them has them."""

_PARTS_OF: Mapping[str, frozenset[str]] = {
    whole: frozenset(parts.split()) for whole, parts in _LISTS.data["parts"].items()
}


def has_part(whole: str, part: str) -> bool:
    """Return whether a part of a body has another: an arm a hand, and no hand an arm."""
    return part in _PARTS_OF.get(whole, ())


def same_values(word: str) -> frozenset[str]:
    """Return the words that mean the same as an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _SAME if word in row))


def said_values(word: str) -> frozenset[str]:
    """Return what a text may say for an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _LOOSE if word in row))

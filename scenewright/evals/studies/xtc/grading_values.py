"""Whether two short answers mean the same, where words alone decide: numbers, yes and no, colours,
predicates that exclude each other, forms of one verb."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scenewright.agents.composers.reading import same_values
from scenewright.agents.parsers.tagging import NUMBERS
from scenewright.core.formats.phrases import COLORS
from scenewright.core.inflection import singular, verb_base
from scenewright.core.vocabulary import (
    PREDICATES,
    canonical,
    entails,
    excludes,
    is_weak,
    kind_of,
    same_verbs,
)
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.categories import spoken_label

SHADE = 0.8
"""Likeness of two shades of one hue (``red`` and ``dark red``), and of a predicate that says less
(``on`` where the person is ``sitting on`` the bench)."""
_WORD = re.compile(r"[\w'/-]+")
_PARTS = re.compile(r"\s*(?:[,;&]|\band\b)\s*")
_EMPTY = frozenset({"a", "an", "the", "is", "are", "it", "its", "it's", "there", "this", "that"})
_YES = frozenset({"yes", "true", "present", "visible"})
_NO = frozenset({"no", "none", "false", "nothing", "not visible", "no text", "absent", "n/a"})
_NOT = frozenset({"not", "no", "without", "never", "isn't", "aren't"})
_HUES = frozenset(color for color in COLORS if " " not in color)


def answer_words(text: str, question: str = "", right: str = "") -> str:
    """``text`` folded, without articles, and without the words of ``question`` that frame it.

    "The car is red." to "What is the color of the car?" is ``red``. Words of the ``right`` answer
    stay, and so do a predicate of the vocabulary and a text that would lose all of its words.
    """
    if canonical(text) in PREDICATES:
        return folded(text)
    framing = {*_words(question)} - {*_words(right)}
    words = _words(spoken_label(text.strip().rstrip(".!?")))
    plain = [word for word in words if word not in _EMPTY]
    kept = [word for word in plain if word not in framing]
    return " ".join(kept or plain or words)


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


def parts_of(text: str) -> tuple[str, ...]:
    """What a list names: ``on and near`` → ``on``, ``near``; each once, in order.

    A text that begins with yes or no says that and nothing else.
    """
    whole = folded(text)
    first = _PARTS.split(whole)[0]
    if first in ("yes", "no"):
        return (first,)
    return tuple(dict.fromkeys(part for part in _PARTS.split(whole) if part)) or (whole,)


def consistent_parts(text: str) -> tuple[str, ...]:
    """Return the parts of ``text`` that no other part of it excludes.

    Where the best match counts, *left of and right of* would be right whatever was asked.
    """
    parts = parts_of(text)
    return tuple(
        part
        for part in parts
        if not any(other != part and _predicates(part, other) == 0.0 for other in parts)
    )


def likeness(expected: str, given: str) -> float | None:
    """How alike two folded answers are, in [0, 1]; None where these rules cannot tell."""
    if expected == given or singular(expected) == singular(given):
        return 1.0
    rules = (_polarity, _numbers, _colors, _predicates, _synonyms)
    return next((found for rule in rules if (found := rule(expected, given)) is not None), None)


def _polarity(expected: str, given: str) -> float | None:
    for one, other in ((expected, given), (given, expected)):
        if one in _YES | _NO and other in _YES | _NO:
            return float((one in _YES) == (other in _YES))
        if one in _YES | _NO and other.split()[:1] and other.split()[0] in {"yes", "no"}:
            return float((one in _YES) == (other.split()[0] == "yes"))
    if bool(_NOT & {*expected.split()}) != bool(_NOT & {*given.split()}):
        bare = [" ".join(w for w in t.split() if w not in _NOT) for t in (expected, given)]
        return 0.0 if bare[0] == bare[1] else None
    return None


def _numbers(expected: str, given: str) -> float | None:
    first, second = _number(expected), _number(given)
    return None if first is None or second is None else float(first == second)


def _number(text: str) -> float | None:
    if re.fullmatch(r"[0-9]+([.,][0-9]+)?", text):
        return float(text.replace(",", "."))
    return NUMBERS.get(text)


def _colors(expected: str, given: str) -> float | None:
    """Hues decide; shades of one hue are alike."""
    first, second = _color(expected), _color(given)
    if first is None or second is None:
        return None
    if not same_values(first[-1]) & same_values(second[-1]):
        return 0.0
    return 1.0 if first[:-1] == second[:-1] else SHADE


def _color(text: str) -> tuple[str, ...] | None:
    """Shade and hue of a text that is a colour and nothing else."""
    words = tuple(re.findall(r"\w+", text))
    words = words[:-1] if words[-1:] in (("color",), ("colored",), ("colour",)) else words
    if not words or words[-1] not in _HUES:
        return None
    return words if len(words) == 1 or " ".join(words) in COLORS else None


def _predicates(expected: str, given: str) -> float | None:
    """By the vocabulary: what means the same or says more is right, what excludes it is wrong, and
    what says less is :data:`SHADE`, unless it says so little that it holds nearly always."""
    if not (_is_predicate(expected) and _is_predicate(given)):
        return None
    if entails(given, expected):
        return 1.0
    if excludes(expected, given):
        return 0.0
    if entails(expected, given) and is_weak(given) <= is_weak(expected):
        return SHADE
    return None


def _is_predicate(text: str) -> bool:
    return canonical(text) in PREDICATES or kind_of(text) is not None


def _synonyms(expected: str, given: str) -> float | None:
    """1 where every word is a form of the same word, or may stand for it."""
    first, second = expected.split(), given.split()
    if len(first) != len(second):
        return None
    return 1.0 if all(map(_same_word, first, second)) else None


def _same_word(one: str, other: str) -> bool:
    if _base(one) == _base(other) or same_values(one) & same_values(other):
        return True
    return one.endswith("ing") and other in same_verbs(one)


def _base(word: str) -> str:
    return verb_base(word) or singular(word)


def list_likeness(table: Sequence[Sequence[float]]) -> float:
    """How alike two lists are: the F1 of best likenesses, ``table[expected][given]`` in [0, 1].

    Order counts for nothing. What is expected and not given costs recall, what is given besides
    precision.
    """
    recall = sum(max(row) for row in table) / len(table)
    precision = sum(map(max, zip(*table, strict=True))) / len(table[0])
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0

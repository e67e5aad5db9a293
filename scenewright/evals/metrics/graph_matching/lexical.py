"""Likeness of texts without a model: by equality, and by the words and letters they share.

``lexical`` knows plurals, endings, the vocabulary's wordings of predicates and the synonyms of
labels and values that the check of composed texts reads. It is the fallback where no sentence model
is on the machine, and says so by its id. It knows no meanings beyond those tables: *crimson* and
*red* share nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.composers.reading import KINDS_OF, same_values
from scenewright.agents.parsers.tagging import ARTICLES, NUMBERS, POSSESSIVES, rough
from scenewright.core.inflection import singular
from scenewright.core.vocabulary import WORDINGS, canonical
from scenewright.evals.metrics.graph_matching.folding import folded

MOST = 0.95
"""Likeness of texts that say the same in other words; 1 is kept for equal ones."""
GRAM_SHARE = 0.4
"""How much of what the letters say beyond the words is added."""
_REMEMBERED = 500_000
"""Pairs and texts that are remembered at most."""

_EMPTY = ARTICLES | POSSESSIVES | {"one", "another", "each", "every", "some"}
_WORD = re.compile(r"\w+")
_VOWEL = re.compile(r"[aeiouy]")
_ENDINGS = ("ing", "ed")

Features = tuple[frozenset[str], frozenset[str]]
"""What a text's words mean, and the runs of three letters in them."""


class ExactSimilarity:
    """1 for texts that are equal after folding case and spaces, else 0."""

    id = "exact@1"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """One number a pair, 0 or 1."""
        return np.array([float(folded(left) == folded(right)) for left, right in pairs], float)


class LexicalSimilarity:
    """Likeness by shared words and letters.

    ``0.95 · (w + 0.4 · max(0, l − w))``, where ``w`` is the Dice coefficient of the two sets of
    words after stemming and synonyms, and ``l`` that of the runs of three letters in them; 1 for
    texts that are equal after folding, and for no others. A word that names a kind of another
    (*man*, *person*) shares one of its two features with it.
    """

    id = "lexical@2"

    def __init__(self) -> None:
        self._features: dict[str, Features] = {}
        self._known: dict[tuple[str, str], float] = {}

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """One number in [0, 1] a pair; symmetric."""
        known = self._known
        if len(known) + len(self._features) > _REMEMBERED:
            known.clear()
            self._features.clear()
        found = np.empty(len(pairs))
        for at, (left, right) in enumerate(pairs):
            key = (left, right) if left <= right else (right, left)
            value = known.get(key)
            if value is None:
                value = known[key] = self._likeness(*key)
            found[at] = value
        return found

    def _likeness(self, left: str, right: str) -> float:
        left, right = folded(left), folded(right)
        if left == right:
            return 1.0
        left_words, left_grams = self._features_of(left)
        right_words, right_grams = self._features_of(right)
        words = _dice(left_words, right_words)
        letters = _dice(left_grams, right_grams)
        return MOST * (words + GRAM_SHARE * max(0.0, letters - words))

    def _features_of(self, text: str) -> Features:
        found = self._features.get(text)
        if found is None:
            found = self._features[text] = features_of(text)
        return found


def features_of(text: str) -> Features:
    """What is compared of a folded ``text``: features of its words, and its runs of three letters.

    Articles say nothing; a text of nothing but articles or signs is a word of its own.
    """
    words = [word for word in _phrased(_WORD.findall(text)) if word not in _EMPTY] or [text]
    meant = frozenset(feature for word in words for feature in _meant(word))
    return meant, frozenset(gram for word in words for gram in _grams(word))


def _dice(left: frozenset[str], right: frozenset[str]) -> float:
    return 2 * len(left & right) / (len(left) + len(right))


def _grams(word: str) -> Iterator[str]:
    framed = f" {word} "
    return (framed[at : at + 3] for at in range(len(framed) - 2))


@cache
def _phrases() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """First word → phrases that mean one thing, the longest first, and their word."""
    # Single words of predicates may be labels or values as well, unless they are prepositions.
    said = (w for w in WORDINGS if " " in w or rough(w) == "preposition")
    table = {wording: canonical(wording) for wording in said}
    table |= {label: label for label in KINDS_OF if " " in label}
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for phrase, word in table.items():
        parts = tuple(phrase.split())
        found.setdefault(parts[0], []).append((parts, word))
    for phrases in found.values():
        phrases.sort(key=lambda entry: -len(entry[0]))
    return found


def _phrased(words: list[str]) -> Iterator[str]:
    """``words`` with known phrases as one: to, the, left, of → ``left of``."""
    at = 0
    while at < len(words):
        for parts, word in _phrases().get(words[at], ()):
            if tuple(words[at : at + len(parts)]) == parts:
                yield word
                at += len(parts)
                break
        else:
            yield words[at]
            at += 1


@cache
def _kinds() -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """Word → the one that stands for it and those that mean the same; word → what it is one of.

    The composer's table is read both ways: words that may each be said for the other mean the same.
    """
    stands = {word: word for word in KINDS_OF}
    for word, kinds in KINDS_OF.items():
        for kind in kinds:
            if word in KINDS_OF.get(kind, ()):
                first = min(stands[word], stands[kind])
                stands = {
                    key: first if value in (stands[word], stands[kind]) else value
                    for key, value in stands.items()
                }
    above: dict[str, set[str]] = {}
    for word, kinds in KINDS_OF.items():
        for kind in kinds:
            if stands.get(kind, kind) != stands[word]:
                above.setdefault(stands.get(kind, kind), set()).add(stands[word])
    return stands, {word: frozenset(kinds) for word, kinds in above.items()}


def _meant(word: str) -> set[str]:
    """Features of a word: itself as its stem or synonym, and what it is one of."""
    stands, above = _kinds()
    known = word
    if word not in stands and word not in above:
        known = singular(word)
    if known in NUMBERS:
        return {str(NUMBERS[known])}
    known = stands.get(known, known)
    kinds = {f"is {kind}" for kind in above.get(known, ())}
    # What is itself a kind of things has the feature that these share with it, and no other.
    own = f"is {known}" if known in stands else _stem(min(same_values(known)))
    return {own, *kinds}


def _stem(word: str) -> str:
    """``word`` without a verb's ending: running, runs → run; a few words become none."""
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            doubled = base[-1] == base[-2] and base[-1] not in "ls"
            return (base[:-1] if doubled else base).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word

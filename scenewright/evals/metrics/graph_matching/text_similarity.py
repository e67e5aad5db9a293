"""Similarity of texts: the protocol, folding, and measures without a model.

Texts are compared with case and spaces folded and the values of an attribute apart. ``lexical``
knows plurals, endings, the vocabulary's wordings of predicates and the synonyms of labels and
values that the check of composed texts reads. It is the fallback where no sentence model is on the
machine, and its id says so. It knows no meanings beyond those tables: *crimson* and *red* share
nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.composers.reading import KINDS_OF, same_values
from scenewright.agents.parsers.tagging import ARTICLES, NUMBERS, POSSESSIVES, rough
from scenewright.core.errors import ScenewrightError
from scenewright.core.inflection import singular
from scenewright.core.scene import Relation
from scenewright.core.vocabulary import WORDINGS, canonical, canonical_key


class MatchingError(ScenewrightError, ValueError):
    """A similarity that is unknown or not on this machine, or invalid weights."""


@runtime_checkable
class TextSimilarity(Protocol):
    """Protocol of a similarity of two texts."""

    @property
    def id(self) -> str:
        """Id in every result: ``lexical@2`` or ``sentence-transformers:all-MiniLM-L6-v2#…``."""
        ...

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return one number in [0, 1] a pair, 1 for texts that are equal after folding.

        Symmetric. Pairs may repeat; each is compared once.
        """
        ...


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """An object of the reference and its partner in the seen graph."""

    reference: str
    """Object id in the reference."""
    seen: str
    """Object id in the seen graph."""
    similarity: float
    """Similarity of the pair, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class EdgeMatch:
    """Relations of the reference and of the seen graph between one pair of matched objects.

    There may be several between the same two objects (parallel edges): they are matched as one.
    """

    reference: tuple[Relation, ...]
    """One or more relations from one object to another."""
    seen: tuple[Relation, ...]
    """Relations in the same direction between their partners; empty: the edge is missing."""


@dataclass(frozen=True, slots=True)
class GraphMatch:
    """Matching of a reference and a seen graph."""

    nodes: tuple[NodeMatch, ...]
    """In the order of the reference's objects."""
    missing: tuple[str, ...]
    """Objects of the reference without a partner."""
    extra: tuple[str, ...]
    """Objects of the seen graph without a partner."""
    edges: tuple[EdgeMatch, ...]
    """One a connected ordered pair of reference objects, in the reference's order; also those an
    end of which is missing (then ``seen`` is empty)."""
    extra_edges: tuple[Relation, ...]
    """Relations of the seen graph that are no partner of an edge of the reference."""
    similarity: str
    """Id of the text similarity."""

    @property
    def mapping(self) -> dict[str, str]:
        """Object id of the reference → object id of the seen graph."""
        return {match.reference: match.seen for match in self.nodes}


_REMEMBERED_FOLDS = 2**14
_SEVERAL = re.compile(r"\s*(?:[,;|&]|\band\b)\s*")


@lru_cache(_REMEMBERED_FOLDS)
def folded(text: str) -> str:
    """Return ``text`` in lower case with single spaces: ``" Dark RED"`` → ``"dark red"``."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


@lru_cache(_REMEMBERED_FOLDS)
def values_of(text: str) -> tuple[str, ...]:
    """Return the values that an attribute's text lists, folded and sorted, each once.

    Commas, semicolons, ``|``, ``&`` and the word *and* part them: ``"white and Black"`` →
    ``("black", "white")``. A text of separators alone is one value.
    """
    whole = folded(text)
    return tuple(sorted({part for part in _SEVERAL.split(whole) if part})) or (whole,)


def attribute_texts(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return key → text to compare: values sorted and joined (XTC-Bench, Sec. 3.2.6).

    Keys that mean the same (:func:`~scenewright.core.vocabulary.same_key`) are one key with the
    values of both.
    """
    gathered: dict[str, set[str]] = {}
    for key, text in attributes.items():
        gathered.setdefault(canonical_key(key), set()).update(values_of(text))
    return {key: " ".join(sorted(values)) for key, values in gathered.items()}


MOST = 0.95
"""Similarity of texts with the same meaning in other words; 1 is reserved for equal ones."""
GRAM_SHARE = 0.4
"""Share of the similarity of letters beyond the words that is added."""
_REMEMBERED = 500_000
"""Most cached pairs and texts."""

_EMPTY = ARTICLES | POSSESSIVES | {"one", "another", "each", "every", "some"}
_WORD = re.compile(r"\w+")
_VOWEL = re.compile(r"[aeiouy]")
_ENDINGS = ("ing", "ed")

Features = tuple[frozenset[str], frozenset[str]]
"""Meanings of a text's words, and the runs of three letters in them."""


class ExactSimilarity:
    """Similarity 1 for texts that are equal after folding case and spaces, else 0."""

    id = "exact@1"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return one number a pair, 0 or 1."""
        return np.array([float(folded(left) == folded(right)) for left, right in pairs], float)


class LexicalSimilarity:
    """Similarity by shared words and letters.

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
        """Return one number in [0, 1] a pair; symmetric."""
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
    """Return the features of a folded ``text``: those of its words, and its runs of three letters.

    Articles are ignored; a text of nothing but articles or signs is a word of its own.
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
    """Return first word → phrases with one meaning, the longest first, and their word."""
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
    """Yield ``words`` with known phrases as one: to, the, left, of → ``left of``."""
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
    """Return word → its canonical synonym, and word → its hypernym.

    The composer's table is read both ways: words that may replace each other are synonyms.
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
    """Return the features of a word: its stem or synonym, and its hypernym."""
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
    """Return ``word`` without a verb's ending: running, runs → run; a few words become none."""
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            doubled = base[-1] == base[-2] and base[-1] not in "ls"
            return (base[:-1] if doubled else base).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word

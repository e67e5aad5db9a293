"""A composed text in sentences and words, and where it names the objects of a scene."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from scenewright.agents.composer_words import (
    ARTICLES,
    AUXILIARIES,
    BREAKS,
    CONJUNCTIONS,
    COUNTS,
    INDEFINITE,
    KINDS_OF,
    NOT_COMPOUND,
    ORDINALS,
    PLURAL_WORDS,
    PREPOSITIONS,
    PRONOUNS,
)
from scenewright.plurals import plural, singular

_SENTENCE_END = re.compile(r"(?:[.!?]+(?=\s|$)|[;\n])+")
_WORD = re.compile(r"\w+|[,&]")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
_NUMBERED = re.compile(r"\.[0-9]+\b")


def words_of(text: str) -> tuple[str, ...]:
    """Words and commas of a text in small letters; ``'s`` and the number of ``dog.1`` dropped."""
    plain = _NUMBERED.sub("", _POSSESSIVE.sub("", text.casefold()))
    return tuple(_WORD.findall(plain))


def class_of(name: str) -> str:
    """The key of a class label: equal for labels that differ in case alone."""
    return name.casefold()


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where a text names an object of a class."""

    name: str
    """:func:`class_of` of the label."""
    start: int
    """Index of its first word in the sentence."""
    head: int
    """Index of its head noun."""
    end: int
    """One past its last word."""
    many: bool
    """Whether it stands in the plural."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the objects that it names in order."""

    words: tuple[str, ...]
    """Words and commas, in small letters."""
    mentions: tuple[Mention, ...]
    """In the order in which they stand."""

    @cached_property
    def has_pronoun(self) -> bool:
        """Whether a word may stand for an object of an earlier sentence."""
        return any(word in PRONOUNS for word in self.words)

    def names(self, name: str) -> bool:
        """Whether an object of the class is named."""
        return any(mention.name == name for mention in self.mentions)

    def after(self, at: int) -> list[Mention]:
        """The first mention that begins at ``at`` or later, and those joined to it by "and"."""
        later = [mention for mention in self.mentions if mention.start >= at]
        joined = later[:1]
        for one, other in itertools.pairwise(later):
            between = self.words[one.end : other.start]
            if not any(word in CONJUNCTIONS for word in between) or any(
                word in PREPOSITIONS | AUXILIARIES or word.endswith("ing") for word in between
            ):
                break
            joined.append(other)
        return joined

    def find(self, phrase: str) -> Iterator[tuple[int, int]]:
        """Where the words of ``phrase`` stand, as (start, end)."""
        return _find(self.words, tuple(phrase.split()))

    def modified(self, end: int) -> Mention | None:
        """The mention whose noun the words before ``end`` belong to ("red" in "red ball")."""
        for mention in self.mentions:
            if mention.head >= end:
                between = self.words[end : mention.head]
                return None if any(word in BREAKS for word in between) else mention
        return None


@dataclass(frozen=True)
class Text:
    """A text, read for the classes of one scene."""

    sentences: tuple[Sentence, ...]
    """In their order."""

    @classmethod
    def of(cls, text: str, labels: Iterable[str]) -> Text:
        """``text`` read for objects of these class ``labels``."""
        names = tuple(dict.fromkeys(class_of(label) for label in labels))
        parts = (words_of(part) for part in _SENTENCE_END.split(text))
        return cls(tuple(Sentence(words, _mentions(words, names)) for words in parts if words))

    def count(self, name: str) -> int:
        """How many objects of the class the text brings in; 0 if it names none.

        Numbers count what they say, a bare plural two, "a …", "another …" and "the other …" one
        each, and so does each description ("the brown dog", "the black dog") said for the
        first time.
        """
        introduced = best = 0
        described: set[frozenset[str]] = set()
        for sentence in self.sentences:
            for mention in sentence.mentions:
                if mention.name == name:
                    best = max(best, 1)
                    introduced += _brought_in(sentence.words, mention, described)
        return max(best, introduced)


def _brought_in(words: Sequence[str], mention: Mention, described: set[frozenset[str]]) -> int:
    """How many objects a mention adds to those before; notes its description."""
    begin = mention.start
    while begin > 0 and words[begin - 1] not in (BREAKS | {","}) - INDEFINITE - {"each"}:
        begin -= 1
        if words[begin] in INDEFINITE:
            break
    before = words[begin : mention.start]
    number = next((n for word in before if (n := _number(word))), 0)
    if "of" in words[max(0, mention.start - 2) : mention.start]:
        # "a pair of dogs": the number stands before "of".
        near = words[max(0, mention.start - 4) : mention.start]
        number = number or next((n for word in near if (n := _number(word))), 0)
    description = frozenset(before).difference(INDEFINITE, ARTICLES, COUNTS, ORDINALS)
    definite = begin > 0 and words[begin - 1] in ARTICLES - INDEFINITE
    if mention.many:
        return 0 if definite and not number else (number or 2)
    if any(word in INDEFINITE for word in before):
        described.add(description)
        return 1
    if description and description not in described:
        described.add(description)
        return 1
    return 0


def _number(word: str) -> int:
    if word.isascii() and word.isdigit():
        return int(word) if len(word) < 4 else 0
    return COUNTS.get(word, 0)


def _find(words: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    size = len(wanted)
    for at in range(len(words) - size + 1) if size else ():
        if tuple(words[at : at + size]) == tuple(wanted):
            yield at, at + size


def _mentions(words: Sequence[str], names: Sequence[str]) -> tuple[Mention, ...]:
    """Objects named in a sentence: by full label first, then by another word, then by the head."""
    taken = [False] * len(words)
    found: list[Mention] = []
    for name, said, head in _ways(names):
        many = words_of(plural(said))
        one = words_of(said)
        for form in dict.fromkeys((many, one)):
            for start, end in _find(words, form):
                if any(taken[start:end]):
                    continue
                taken[start:end] = [True] * (end - start)
                several = (form == many and many != one) or said in PLURAL_WORDS
                found.append(Mention(name, start, start + head, end, several))
    return tuple(sorted(found, key=lambda mention: mention.start))


def _ways(names: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """(class, words that name it, index of the head noun), the surest first."""
    for name in sorted(names, key=len, reverse=True):
        yield name, name, _head(name)
        if singular(name) != name:
            yield name, singular(name), _head(name)
    for name in names:
        for other in sorted(KINDS_OF.get(name, ())):
            yield name, other, 0
    heads = Counter(words_of(name)[_head(name)] for name in names if words_of(name))
    for name in names:
        words = words_of(name)
        if len(words) > 1 and name not in NOT_COMPOUND and heads[words[_head(name)]] == 1:
            yield name, words[_head(name)], 0


def _head(name: str) -> int:
    """Index of the head noun: the last word, or the last before "of"."""
    words = words_of(name)
    cut = words.index("of") if "of" in words[1:-1] else len(words)
    return max(0, cut - 1)

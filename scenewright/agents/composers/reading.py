"""Composed texts as the caption parser's tagger reads them, and the objects they name.

Class labels and attribute values have synonyms, and looser words that a text may use. Matching and
grading use only synonyms; the check of composed texts also accepts looser words. Words for people
are a list of the caption parser's (``words.toml``). :mod:`scenewright.core.vocabulary` has
predicates and verbs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from scenewright.agents.parsers.settling import tag
from scenewright.agents.parsers.splitting import sentences
from scenewright.agents.parsers.tagging import (
    ARTICLES,
    GROUPS,
    NUMBERS,
    ORDINALS,
    PARTS,
    PEOPLE,
    PEOPLE_PRONOUNS,
    PLURAL_PRONOUNS,
    POSSESSIVES,
    THING_PRONOUNS,
    VAGUE,
    Tag,
    is_animate,
)
from scenewright.core.inflection import WordLists, singular, split_phrases, stems

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
"""Class label → synonyms and narrower labels."""
_LOOSER = _labels("said_for", PEOPLE & _UNSURE)
SAID_FOR: Mapping[str, frozenset[str]] = {
    label: KINDS_OF.get(label, frozenset()) | _LOOSER.get(label, frozenset())
    for label in (*KINDS_OF, *_LOOSER)
}
"""Class label → labels that a text may use for it, :data:`KINDS_OF` included."""
_SAME = _rows("values", "same")
_LOOSE = (*_SAME, *_rows("values", "said_for"))
SMALL = _LISTS.words("text", "small")
"""Words of a value that may be left out."""
OWNING = _LISTS.words("text", "owning")
"""Words between an owner and its possession."""
MANY = _LISTS.words("labels", "many")
"""Labels that mean several without a plural form."""
NOT_COMPOUND = frozenset(" ".join(words) for words in _LISTS.phrases("labels", "not_compound"))
"""Labels whose last word alone names another thing."""
WORN = _LISTS.words("labels", "worn")
"""Clothes: "in" them means wearing them."""

_PARTS_OF: Mapping[str, frozenset[str]] = {
    whole: frozenset(parts.split()) for whole, parts in _LISTS.data["parts"].items()
}
"""Body part → parts of it: an arm has a hand, a hand has no arm."""


def same_values(word: str) -> frozenset[str]:
    """Return the words that mean the same as an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _SAME if word in row))


def said_values(word: str) -> frozenset[str]:
    """Return the words that a text may use for an attribute's word, itself included."""
    return frozenset({word}).union(*(row for row in _LOOSE if word in row))


PRONOUNS = (
    PEOPLE_PRONOUNS | THING_PRONOUNS | PLURAL_PRONOUNS | POSSESSIVES
    | {"who", "which", "that", "other", "others", "one", "ones", "another", "each", "both", "whom"}
    | {"this", "these", "those", "him", "them", "same", "all", "someone", "somebody"}
)  # fmt: skip
"""Pronouns for an object named before."""
_SIGNS: Mapping[str, tuple[str, ...]] = {"comma": (",",), "owner": ("'s",)}
_INDEFINITE = frozenset({"a", "an", "another", "one", "other"})
_INSIDE_NOUN_PHRASE = frozenset(
    {"adjective", "noun", "and", "comma", "adverb", "number", "ing", "participle", "quote"}
)
_BEFORE_PREDICATE = frozenset({"noun", "pronoun", "be", "adverb", "quote", "relative"})
_OWNED = frozenset({"owner", "adjective", "noun", "participle", "ing"})
_PIECE = re.compile(r"\w+", re.UNICODE)
_NUMBERED = re.compile(r"(?<=\w)\.[0-9]+\b")
MULTIPLE = {
    "both": 2,
    "pair": 2,
    "couple": 2,
    "twin": 2,
    "twins": 2,
    "trio": 3,
    "quartet": 4,
    "duo": 2,
}
"""Word → number of what it names."""
_MANY_TIMES = 12
_FOR_PEOPLE = PEOPLE_PRONOUNS | {"his", "their", "they", "someone", "somebody", "them"}
_WORDS_FOR_PEOPLE = frozenset(
    {"person", "human", "subject", "figure", "someone", "people", "man", "woman"}
)


def words_of(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a label, value or predicate; ``dog.1`` gives ``dog``."""
    plain = _NUMBERED.sub("", text.casefold().replace("’", "'"))
    return tuple(_PIECE.findall(re.sub(r"'s\b", "", plain)))


def alike(first: str, second: str) -> bool:
    """Return whether two words are forms of one."""
    return first == second or bool(stems(first) & stems(second))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text with its tag."""

    text: str
    """In small letters."""
    tag: Tag
    """Tag of its phrase."""
    phrase: int
    """Number of that phrase in the sentence: "to the left of" is one."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Mention of an object of a class."""

    name: str
    """The class label in small letters."""
    start: int
    """Index of its first word in the sentence."""
    head: int
    """Index of its head noun."""
    end: int
    """One past its last word."""
    many: bool
    """Whether it means several."""


@dataclass(frozen=True)
class Sentence:
    """A sentence and its mentions in order."""

    words: tuple[Word, ...]
    mentions: tuple[Mention, ...]

    @cached_property
    def has_pronoun(self) -> bool:
        """Whether a pronoun may mean an object of an earlier sentence."""
        return any(word.text in PRONOUNS for word in self.words)

    def of(self, name: str) -> list[Mention]:
        """Return the mentions of a class."""
        return [mention for mention in self.mentions if mention.name == name]

    def bearer(self, at: int) -> list[Mention]:
        """Return the mentions with the word at ``at`` before their head."""
        before = self.words[at - 1].tag if at else "article"
        if self.words[at].tag in ("ing", "participle", "verb") and before in _BEFORE_PREDICATE:
            # "Rams grazing", "the knees are bent": said of what stands before.
            return []
        if before == "be":
            return []
        for step in range(at, len(self.words)):
            here = [m for m in self.mentions if m.start <= step < m.end and m.head > at]
            if here:
                return here
            if self.words[step].tag not in _INSIDE_NOUN_PHRASE:
                return []
        return []

    def around(self, start: int, end: int) -> set[str]:
        """Return the classes named next before and next after a phrase."""
        before = [m for m in self.mentions if m.head < start]
        if not before or self.words[start - 1].tag in ("comma", "clause"):
            # "In the background there is a wall, and we can see a door."
            return {m.name for m in self.mentions if m.start >= end}
        last = max(m.end for m in before)
        follows = self.words[end].tag if end < len(self.words) else "comma"
        if last == start and follows in ("comma", "clause", "and"):
            # "A dog at the left, a cat": said of the dog.
            return {m.name for m in before if m.end == last}
        return {m.name for m in before if m.end == last} | {m.name for m in self.after(end)}

    def after(self, end: int) -> list[Mention]:
        """Return the first mentions from ``end`` on, and those joined to them by "and"."""
        found: list[Mention] = []
        for mention in self.mentions:
            if mention.start < end:
                continue
            if found and mention.start >= found[-1].end:
                between = self.words[found[-1].end : mention.start]
                if all(w.tag in _OWNED for w in between) and (
                    not between or between[0].tag == "owner"
                ):
                    # "The person's neck", "a city street": either may be meant.
                    found.append(mention)
                    continue
                if not any(w.tag in ("and", "comma") for w in between) or any(
                    w.tag in ("preposition", "ing", "verb", "be", "relative", "have")
                    for w in between
                ):
                    break
            found.append(mention)
        return found


@dataclass(frozen=True)
class Text:
    """A text with mentions of one scene's classes."""

    sentences: tuple[Sentence, ...]

    @classmethod
    def of(cls, text: str, labels: Iterable[str]) -> Text:
        """Return ``text`` read for objects of these class ``labels``."""
        names = tuple(dict.fromkeys(label.casefold() for label in labels))
        read = []
        for words, said in sentences(text):
            read_words = tuple(
                Word(piece, token.tag, number)
                for number, token in enumerate(tag(words, said))
                for piece in _SIGNS.get(token.tag) or words_of(token.text)
            )
            if read_words:
                read.append(Sentence(read_words, _mentions(read_words, names)))
        return cls(tuple(read))

    def count(self, name: str) -> int:
        """Return how many objects of the class the text introduces; 0 if it names none.

        Numbers count what they say, a bare plural two, "a …", "another …" and "the other …" one
        each, and so does each description ("the brown dog", "the black dog") said for the first
        time.
        """
        introduced = best = 0
        described: set[frozenset[str]] = set()
        for sentence in self.sentences:
            for mention in sentence.of(name):
                best = max(best, 1)
                introduced += _brought_in(sentence, mention, described)
        return max(best, introduced)

    def says(self, wanted: Iterable[str]) -> bool:
        """Return whether every word occurs, in any form."""
        return all(
            any(alike(word.text, want) for sentence in self.sentences for word in sentence.words)
            for want in wanted
        )


def _brought_in(sentence: Sentence, mention: Mention, described: set[frozenset[str]]) -> int:
    """Return how many new objects a mention adds; notes its description."""
    words = sentence.words
    begin = mention.start
    while (
        begin > 0
        and (
            words[begin - 1].tag in _BEFORE_NOUN
            # "Three black and white zebras".
            or [word.tag for word in words[max(0, begin - 2) : begin + 1]]
            in (["adjective", "and", "adjective"], ["adjective", "comma", "adjective"])
        )
    ):
        begin -= 1
        if words[begin].text in _INDEFINITE or words[begin].tag in ("article", "possessive"):
            break
    before = [word.text for word in words[begin : mention.start]]
    number = next((n for word in before if (n := _number(word)) > 1), 0)
    if not number and any(w.text == "of" for w in words[max(0, begin - 1) : mention.start]):
        near = [w.text for w in words[max(0, begin - 4) : mention.start]]
        number = next((n for word in near if (n := _number(word) or _group(word)) > 1), 0)
    if not number and mention.end < len(words):
        number = _number(words[mention.end].text) if words[mention.end].text.isdigit() else 0
    definite = bool(before) and before[0] in ARTICLES - _INDEFINITE
    if begin > 1 and words[begin - 1].tag == "owner":
        # "The left arm's hand" is another than the right arm's.
        before = [*before, *(word.text for word in words[max(0, begin - 3) : begin - 1])]
    plain = frozenset(before) - ARTICLES - _INDEFINITE - set(ORDINALS) - set(NUMBERS) - set(VAGUE)
    if mention.many:
        return 0 if definite and not number else (number or 2)
    if number > 1:
        return number
    if any(word in _INDEFINITE or word in ORDINALS for word in before):
        described.add(plain)
        return 1
    if plain and plain not in described:
        described.add(plain)
        return 1
    return 0


_BEFORE_NOUN = frozenset(
    {"adjective", "noun", "number", "article", "determiner", "adverb", "ing", "participle"}
    | {"possessive"}
)


def _number(word: str) -> int:
    if word.isascii() and word.isdigit():
        return int(word) if len(word) < 4 else 0
    return NUMBERS.get(word, 0) or MULTIPLE.get(word, 0)


def _group(word: str) -> int:
    least = GROUPS.get(word, GROUPS.get(singular(word), 0))
    return _MANY_TIMES if least > 2 else least


def _mentions(words: Sequence[Word], names: Sequence[str]) -> tuple[Mention, ...]:
    """Return the mentions in a sentence, the surest matches first.

    Words that name one class do not name another by a weaker match.
    """
    taken = [False] * len(words)
    found: list[Mention] = []
    for name, wanted, head, strict in _ways(names):
        for start in range(len(words)):
            end = _matched(words, start, wanted)
            if end is None:
                continue
            # "Hand" in "hand bag" is part of a longer label; "street" in "street sign of the
            # street" is not.
            inside = strict and all(m.head != end - 1 and m.end - m.start > end - start
                                    for m in found if m.start < end and start < m.end)  # fmt: skip
            if any(taken[start:end]) and not inside:
                continue
            at = min(start + head, end - 1)
            taken[start:end] = [True] * (end - start)
            text = words[at].text
            # "Eight colorful starfish".
            near = words[max(0, start - 4) : start]
            cuts = [n for n, w in enumerate(near, 1) if w.tag in ("article", "preposition")]
            counted = any(_number(word.text) > 1 for word in near[max(cuts, default=0) :])
            several = singular(text) != text or text in MANY or counted
            found.append(Mention(name, start, at, end, several))
    found += _scattered(words, names, found)
    pronoun = next((at for at, word in enumerate(words) if word.text in _FOR_PEOPLE), None)
    for name in names if pronoun is not None else ():
        # "He is standing".
        people = name in _WORDS_FOR_PEOPLE or (name in PRONOUNS and is_animate(name))
        if people and pronoun is not None and not any(m.name == name for m in found):
            found.append(Mention(name, pronoun, pronoun, pronoun + 1, False))
    return tuple(sorted(found, key=lambda mention: (mention.start, -mention.end)))


def _same_noun(first: str, second: str) -> bool:
    return first == second or singular(first) == singular(second)


def _matched(words: Sequence[Word], start: int, wanted: Sequence[str]) -> int | None:
    """Return the end of ``wanted`` at ``start``, each word in whatever form; also as one word."""
    if len(wanted) > 1 and words[start].text in ("".join(wanted), "".join(wanted) + "s"):
        return start + 1
    end = start + len(wanted)
    if end > len(words) and len(wanted) != 1:
        return None
    here = [word.text for word in words[start:end]]
    same = bool(here) and len(here) == len(wanted) and _same_noun(here[-1], wanted[-1])
    if same and all(alike(word, want) for word, want in zip(here, wanted, strict=True)):
        return end
    if len(wanted) == 1 and start + 2 <= len(words):
        # "surfboard" in a text that says "surf board".
        joined = words[start].text + words[start + 1].text
        if joined in (wanted[0], f"{wanted[0]}s") and len(words[start].text) > 2:
            return start + 2
    return None


def _ways(names: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], int, bool]]:
    """Return (class, words, index of the head noun, whether the label is complete)."""
    for name in sorted(names, key=len, reverse=True):
        yield name, words_of(name), _head(name), True
    for name in names:
        words = words_of(name)
        kinds = SAID_FOR.get(singular(name), frozenset()) | SAID_FOR.get(name, frozenset())
        if len(words) > 1:
            kinds |= SAID_FOR.get(singular(words[-1]), frozenset())
        for other in sorted(kinds):
            yield name, words_of(other), len(words_of(other)) - 1, False
    heads = [words_of(name)[_head(name)] for name in names if words_of(name)]
    for name in names:
        words = words_of(name)
        if len(words) > 1 and name not in NOT_COMPOUND and heads.count(words[_head(name)]) == 1:
            yield name, (words[_head(name)],), 0, False


def _scattered(
    words: Sequence[Word], names: Sequence[str], found: Sequence[Mention]
) -> Iterator[Mention]:
    """Return labels whose words are near each other: a "stone wall" as "a wall of stone"."""
    named = {mention.name for mention in found}
    for name in names:
        wanted = [w for w in words_of(name) if w not in ("of", "the", "a", "and", "in", "with")]
        if name in named or len(wanted) < 2:
            continue
        head = words_of(name)[_head(name)]
        for at, word in enumerate(words):
            near = words[max(0, at - 6) : at + 7]
            if _same_noun(word.text, head) and all(
                any(alike(other.text, want) for other in near) for want in wanted
            ):
                yield Mention(name, at, at, at + 1, singular(word.text) != word.text)
                break


def _head(name: str) -> int:
    """Return the index of the head noun: the last word, or the last before "of"."""
    words = words_of(name)
    for joint in ("of", "with", "in", "made"):
        if joint in words[1:-1]:
            return max(0, words.index(joint, 1) - 1)
    return max(0, len(words) - 1)


def may_have_part(owner: str, name: str) -> bool:
    """Return whether a label is a body part of an owner that is named as well."""
    part = _head_noun(name)
    whole = _head_noun(owner)
    return part in PARTS and (whole not in PARTS or part in _PARTS_OF.get(whole, ()))


def _head_noun(name: str) -> str:
    words = words_of(name)
    return singular(words[_head(name)]) if words else ""


def is_worn(name: str) -> bool:
    """Return whether a label names clothes: "a man in a hat" has one."""
    return any(singular(word) in WORN or word in WORN for word in words_of(name))

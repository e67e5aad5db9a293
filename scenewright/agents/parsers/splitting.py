"""From a caption to the words of its sentences, each with its place.

Quoted text is one word, its mark; options of drawing programs, links and brackets are left out, as
are phrases that frame a description ("in this image we can see").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scenewright.core.inflection import WordLists, singular

LISTS = WordLists.of("scenewright.agents.parsers", "words.toml")
"""The words that captions are read with."""
FRAME_NOUNS = LISTS.words("style", "frame")
_SEEN = frozenset({"see", "observe"})
_FRAMES: dict[str, list[tuple[str, ...]]] = {}
"""Phrases that frame a description ("in this image we can see") by first word, longest first."""
for _frame in sorted(
    {
        tuple(image if word == "{image}" else word for word in phrase)
        for phrase in LISTS.phrases("frames", "phrases")
        for image in FRAME_NOUNS
    },
    key=lambda phrase: (-len(phrase), phrase),
):
    _FRAMES.setdefault(_frame[0], []).append(_frame)


class Word(str):
    """A word that knows its place in the caption."""

    __slots__ = ("end", "start")
    start: int
    """Place of its first character, from 0."""
    end: int
    """Place after its last character."""

    @classmethod
    def at(cls, text: str, start: int, end: int) -> Word:
        """Return ``text`` as a word of the characters ``start`` to ``end``."""
        word = cls(text)
        word.start, word.end = start, end
        return word


def spanning(words: Sequence[str], at: int, size: int, text: str = "") -> str:
    """Return words as one, or ``text`` in their place; it knows its place if they do."""
    said = text or " ".join(words[at : at + size])
    first, last = words[at], words[at + size - 1]
    if isinstance(first, Word) and isinstance(last, Word):
        return Word.at(said, first.start, last.end)
    return said


_WRITINGS = LISTS.words("nouns", "writings")
_TELLS = frozenset({"say", "says", "saying"})
"""Verbs of a sign whose text is known by its capitals: "that says Keep Out"."""
_SAYS = frozenset(
    {"says", "say", "saying", "reads", "reading", "read", "writing", "spelling", "spells", "said"}
)


_SHOWS = frozenset({"show", "shows", "showing"})
_TIME = re.compile(r"[0-9]{1,2}[:.][0-9]{2}")


def capitals(words: Sequence[str], at: int) -> int:
    """Return how many words at ``at`` are a text: "with the word LOVE on it", "reads 12:43"."""
    before = words[at - 1].lower() if at else ""
    if _TIME.fullmatch(words[at]) and before in _SAYS | _SHOWS:
        return 1
    if not (before in _SAYS or singular(before) in _WRITINGS):
        return 0
    size = 0
    while at + size < len(words) and words[at + size].isupper() and len(words[at + size]) > 1:
        size += 1
    if not size and before in _TELLS:
        while at + size < len(words) and words[at + size].istitle():
            size += 1
    return size


_QUOTED = re.compile(
    r"[\"“”]([^\"“”]{1,300})[\"“”]"
    r"|(?<![\w'’])['\u2018\u201b](?!s\b)((?:(?!['’](?!\w)).){1,300})['’](?!\w)",
    re.DOTALL,
)
_MARK = "\ue000"
_JUNK = re.compile(r"https?://\S+|<[^<>]*>|[\[\](){}<>|*_~^\ue000]+")
_WEIGHT = re.compile(r"(?<=::)-?\d+(?:\.\d+)?")
"""Weight of a part of the prompt in a drawing program: "black paper::2"."""
_OPTION = re.compile(
    r"(?:(?<=\s)|^)(?:--|—)(?:no\b[^,;]*?(?=\s(?:--|—)|[,;]|$)"
    r"|[a-z]+\b(?:\s+[\d.][\w.:/]*|\s+[^\s,;]+(?=\s*(?:--|—|[,;]|$)))?)"
)
_WORD = re.compile(
    rf"{_MARK}|\d(?:\s\d){{2,}}(?:\s(?:s|mm))?\b|(?:Dr|Mr|Mrs|Ms|St|No|Jr|Sr|vs)\.|\d+\s[kK]\b|\d+(?:[.,:]\d+)*\w*(?:-\w+)*"
    r"|(?<=\s)['’]s\b|(?<=s\s)['’](?=\s)"
    r"|\w+(?:[-'’/]\w+)*s['’](?=\s)|\w+(?:[-'’/]\w+)*|&|[.,;:!?\n]|--+|[-–—](?=\s)"
)
_ENDS = frozenset(".;:!?\n")
BREAK = ";"
"""Stands where words were taken out of a sentence and what follows goes on with no list."""


def sentences(text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Split ``text`` into sentences of words and commas, with marks for its quotes.

    Words keep their case and are each a :class:`Word`; quoted text is one word, its mark. Options
    of drawing programs (``--ar 16:9``), links and brackets are left out.
    """
    said: dict[str, str] = {}
    quotes: list[tuple[str, int, int]] = []

    def keep(match: re.Match[str]) -> str:
        inside = " ".join((match[1] or match[2]).split())
        if not inside:
            return _blank(match)
        mark = f"{_MARK}{len(said)}{_MARK}"
        said[mark] = inside
        quotes.append((mark, match.start(), match.end()))
        return f" {_MARK}".ljust(len(match[0]))

    # Every step keeps the length, so that a place in what is left is one in the text.
    plain = _WEIGHT.sub(_blank, _OPTION.sub(_blank, text.replace(_MARK, " ")))
    marked = _QUOTED.sub(keep, plain)
    cleaned = _MARK.join(_JUNK.sub(_blank, part) for part in marked.split(_MARK))
    marks = iter(quotes)
    sentence: list[str] = []
    for match in _WORD.finditer(cleaned):
        word = match[0]
        if word in _ENDS or (word[0] in "-–—" and not word[-1].isalnum()):
            if sentence:
                yield sentence, said
            sentence = []
        elif word == _MARK:
            sentence.append(Word.at(*next(marks)))
        else:
            sentence.append(Word.at(word, match.start(), match.end()))
    if sentence:
        yield sentence, said


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def options(text: str) -> Iterator[Word]:
    """Yield the options of drawing programs in ``text``, such as ``--ar 16:9``."""
    for match in _OPTION.finditer(text):
        yield Word.at(match[0].strip(), match.start(), match.end())


def without_frames(words: Sequence[str]) -> list[str]:
    """Return ``words`` without framing phrases such as "in this image we can see"."""
    kept: list[str] = []
    lower = [word.lower() for word in words]
    at = 0
    while at < len(words):
        for phrase in _FRAMES.get(lower[at], ()):
            of_them = phrase[0] in ("which", "whom") and kept[-1:] == ["of"]
            if tuple(lower[at : at + len(phrase)]) == phrase and not of_them:
                at += len(phrase)
                begun = at
                while at < len(words) and lower[at] in (",", "that", "there"):
                    at += 1
                if at < len(words) and lower[at] in ("is", "are") and lower[at - 1] == "there":
                    at += 1
                # What was taken out here stood between a place and what is there.
                if kept[-1:] == ["and"] or (kept[-1:] == [","] and _SEEN.intersection(phrase)):
                    kept.append(BREAK)
                elif at > begun and kept and kept[-1] != ",":
                    kept.append(",")
                break
        else:
            kept.append(words[at])
            at += 1
    return kept

"""Denials of a caption: things that must not be there, and all else that is left unread.

Exclusions are taken out of the caption before its clauses are read: "a man without a hat, no
people" is read as a man, with the exclusion of his hat and of persons. What denies anything else
("a dog that is not red") is a passage that nothing holds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.mentions import Mention
from scenewright.agents.parsers.phrases import items
from scenewright.agents.parsers.settling import tag
from scenewright.agents.parsers.splitting import Word, sentences
from scenewright.agents.parsers.tagging import rough, words
from scenewright.agents.parsers.unread import ABSENT, negations, passages_of
from scenewright.core.intent import Exclusion, Passage
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import SceneObject


@dataclass(frozen=True, slots=True)
class Excluded:
    """An exclusion as it stands in a caption."""

    start: int
    end: int
    name: str
    """Class label with its adjectives, in the singular."""
    bearer: str
    """Class label of the object that is without it; empty if the picture is."""

    def exclusion(self, text: str, objects: Sequence[SceneObject]) -> Exclusion:
        """Return the exclusion in a scene of ``objects``."""
        bearer = next((one.id for one in objects if one.name == self.bearer), None)
        return Exclusion(name=self.name, text=text[self.start : self.end], of=bearer)


_OPENING = re.compile(
    r"(?:\b(?:and|but|with|though|yet|(?:that|which|who)\s+(?:is|are|has|have)|is|are|has|have|had"
    r"|there\s+(?:is|are|should\s+be|must\s+be))\s+)*$",
    re.IGNORECASE,
)
_WITH = re.compile(
    r"\b(?:with|has|have|is|are)\s+(?:an?\s+|one\s+|its\s+|his\s+|her\s+)?$", re.IGNORECASE
)
_OWNING = (
    r"(?:have|has|had|having|wear|wears|wearing|hold|holding|carry|carrying|bear|contain|containing"
    r"|include|show|showing)"
)
_DENIES = re.compile(
    rf"(?:(?P<own>without|sans|lacking|lacks|lacked|lack|missing|with\s+a\s+missing|devoid\s+of|bare\s+of)"
    rf"|(?P<deed>(?:not|never|n['’]t|cannot|\w+n['’]t|(?:do|does|did|is|are|was|were)\s+not)\s+(?:ever\s+)?{_OWNING}(?:\s+on)?)"
    r"|no\s+(?:longer|one)\b(?P<no>)|no\s+more|no|free\s+(?:of|from)|empty\s+of|excluding|except(?:\s+for)?"
    r"|instead\s+of|rather\s+than|in\s+place\s+of|in\s+lieu\s+of|other\s+than|anything\s+but|nothing\s+like"
    r"|hardly\s+any|neither|nor|none\s+of|(?:is|are|was|were)n['’]t(?=\s+(?:an?|any)\b)|(?:not|never)(?=\s+(?:an?|any|even|one)\b))"
    r"(?:\s+(?:any|even|a\s+single|one|single))?\b\s*",
    re.IGNORECASE,
)
_NOBODY = frozenset({"nobody", "no one", "no-one"})
_JOINING = frozenset({",", "or", "nor", "and", "any", "other"})
_GONE = frozenset({"absent", "missing", "nonexistent", "gone"})
_PEOPLE = words("negation", "people")
_STOPS = frozenset({"be", "have", "auxiliary", "and", "clause", "relative", "pronoun", "verb"})


@dataclass(slots=True)
class Denied:
    """Denials of a caption."""

    excluded: list[Excluded]
    others: list[Passage]
    """Passages that deny anything else than a thing."""
    places: list[tuple[int, int]]
    """Words that are not read on; the object of a denied relation is ("not *on* the table")."""
    gaps: list[int]
    """Places where the words on both sides of unread ones are none of one phrase."""


def denied_in(text: str) -> Denied:
    """Return what the caption denies, outside quotations."""
    denied = Denied([], [], [], [])
    for sentence, quotes in sentences(text):
        taken = -1
        spoken = [word for word in sentence if isinstance(word, Word)]
        for passage in negations(text, sentence):
            if passage.start < taken:
                continue
            found = list(_excluded(text, passage, spoken, quotes))
            if found:
                last = denied.excluded[-1] if denied.excluded else Excluded(0, 0, "", "")
                if last.bearer and _JOINS.fullmatch(text[last.end : found[0].start]):
                    found = [replace(one, bearer=last.bearer) for one in found]
                if where := _THERE.match(text, found[-1].end):
                    found[-1] = replace(found[-1], end=where.end())
                taken = found[-1].end
                denied.excluded += found
                denied.places += [(one.start, one.end) for one in found]
                continue
            linked, taken = _related(spoken, passage, quotes)
            denied.places.append((passage.start, linked))
            denied.gaps.append(passage.start)
            told = {"end": taken, "text": text[passage.start : taken]}
            denied.others.append(passage.model_copy(update=told))
    return denied


_THERE = re.compile(
    r"\s+(?:on|in|inside|at|near|around|beside|behind|under|above|to|with)\s+(?:it|them|him|her)\b",
    re.IGNORECASE,
)
"""Place of a thing that must not be there: "no cat on it"."""
_JOINS = re.compile(r"[\s,]*(?:and|or|nor)?\s*", re.IGNORECASE)


_NOT = re.compile(r"(?:\w+\s+)?(?:not|never|\w*n['’]t)\b", re.IGNORECASE)


def _related(spoken: Sequence[Word], passage: Passage, quotes: dict[str, str]) -> tuple[int, int]:
    """Return where a denied preposition ends, and its object: "not on the table"."""
    plain = _NOT.match(passage.text) is not None
    inside = [word for word in spoken if plain and passage.start <= word.start < passage.end]
    end = next(
        (one.end for one, nxt in itertools.pairwise(inside) if rough(nxt.lower()) == "preposition"),
        passage.end,
    )
    after = [word for word in spoken if word.start >= end]
    lower = [word.lower() for word in after]
    for size in range(min(4, len(after)), 0, -1):
        if tuple(lower[:size]) in lexicon.PREPOSITIONS:
            read = _named(after[size:], quotes)
            linked = after[size - 1].end
            return linked, read[1] if read is not None else linked
    return passage.end, passage.end


def _excluded(
    text: str, passage: Passage, spoken: Sequence[Word], quotes: dict[str, str]
) -> Iterator[Excluded]:
    """Yield what a passage that denies something excludes, with the rest of its list."""
    low = passage.text.lower()
    if nobody := next((one for one in _NOBODY if low.startswith(one)), ""):
        if all(rough(word) == "be" for word in low.removeprefix(nobody).split()):
            yield Excluded(_opened(text, passage.start), passage.end, "person", "")
        return
    opening = _DENIES.match(text, passage.start)
    before = [word for word in spoken if word.end <= passage.start]
    follows = next((rough(w.lower()) for w in spoken if w.start > passage.start), "")
    gone = low.split()[0] in _GONE and follows not in ("article", "possessive", "noun")
    if gone and before and rough(before[-1].lower()) == "be":
        yield from _gone(before, passage, quotes)
        return
    if opening is None or opening["no"] is not None:
        return
    after = [word for word in spoken if word.start >= opening.end()]
    first = _named(after, quotes)
    if first is None:
        return
    bearer = ""
    leads = text[: passage.start].lower().endswith(("with ", "has ", "have "))
    if opening["own"] or opening["deed"] or leads:
        named = [one for one in items(tag(before, quotes)) if isinstance(one, Mention)]
        holders = [one for one in named if one.name and not one.ignored]
        bearer = holders[-1].name if holders and not holders[-1].is_scenery else ""
    mention, end = first
    while (rest := [word for word in after if word.start >= end]) and rest[0].lower() == "of":
        # "A statue of a horse".
        inner = _named(rest[1:], quotes)
        if inner is None:
            break
        end = inner[1]
    yield Excluded(_opened(text, passage.start), end, _label(mention), bearer)
    for begin, last, mention in _list(after, end, quotes):
        yield Excluded(begin, last, _label(mention), bearer)


def _named(after: Sequence[Word], quotes: dict[str, str]) -> tuple[Mention, int] | None:
    """Return the noun phrase that ``after`` begins with, and where it ends."""
    found: tuple[Mention, int] | None = None
    for size in range(1, min(len(after), 8) + 1):
        first, *rest = items(tag(after[:size], quotes))
        if rest or not isinstance(first, Mention):
            if found is not None:
                break
        elif first.name and not first.ignored and not first.pronoun:
            found = (first, after[size - 1].end)
    return found


def _list(
    after: Sequence[Word], end: int, quotes: dict[str, str]
) -> Iterator[tuple[int, int, Mention]]:
    """Yield the other things of a list that is denied: "no cars, trees or people"."""
    rest = [word for word in after if word.start >= end]
    joins = {"or", "nor"}
    run: list[tuple[int, int, Mention]] = []
    while rest:
        joined = [*itertools.takewhile(_JOINING.__contains__, (word.lower() for word in rest))]
        closes = bool(joins.intersection(joined))
        read = _named(rest[len(joined) :], quotes) if joined else None
        if read is None or (read[0].new and not closes):
            return
        first = next(word for word in rest if word != ",")
        run.append((first.start, read[1], read[0]))
        if closes:
            yield from run
            run = []
        rest = [word for word in rest if word.start >= read[1]]


def _gone(before: Sequence[Word], passage: Passage, quotes: dict[str, str]) -> Iterator[Excluded]:
    """Yield what is said to be absent: "a room where a dog is absent"."""
    at = len(before) - 1
    while at and rough(before[at - 1].lower()) not in _STOPS and before[at - 1] != ",":
        at -= 1
    read = _named(before[at:-1], quotes)
    if read is not None:
        start = before[at - (at > 0 and rough(before[at - 1]) == "clause")].start
        end = passage.start + len(passage.text.split()[0])
        yield Excluded(start, end, _label(read[0]), "")


def _opened(text: str, start: int) -> int:
    """Return where the words begin that lead to a denial: "with no cat"."""
    missing = text[start : start + 7].lower() == "missing"
    opened = (_WITH if missing else _OPENING).search(text, 0, start)
    return opened.start() if opened is not None else start


def _label(mention: Mention) -> str:
    name = "person" if mention.name.lower() in _PEOPLE else mention.name
    said = SceneObject(id="x.1", name=name, attributes=dict(mention.attributes))
    return noun_phrase(said)


def excluded_by_options(text: str, options: Iterable[Word]) -> tuple[list[Excluded], list[Passage]]:
    """Return what options such as ``--no people`` exclude, and those that exclude nothing named."""
    excluded: list[Excluded] = []
    others: list[Passage] = []
    for option in options:
        match = re.match(r"(?:--|—)no\s+", option, re.IGNORECASE)
        if match is None:
            continue
        start = option.start + match.end()
        inside = [
            Word.at(one[0], start + one.start(), start + one.end())
            for one in re.finditer(r"[\w'’-]+", option[match.end() :])
        ]
        read = _named(inside, {})
        if read is None:
            others += passages_of(text, [option], [option], ABSENT)
        else:
            excluded.append(Excluded(option.start, option.end, _label(read[0]), ""))
    return excluded, others


def blanked(text: str, places: Iterable[tuple[int, int]], gaps: Iterable[int] = ()) -> str:
    """Return ``text`` with these places as spaces, so that all others stay where they are.

    A comma stands at the ``gaps``.
    """
    for start, end in places:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    for at in gaps:
        text = f"{text[:at]},{text[at + 1 :]}"
    return text

"""Check whether a composed text relates two classes by a predicate.

It may do so by a verb, a preposition, a passive, "with", a possessive, or by the place of each in
the picture.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.agents.composers.reading import (
    OWNING,
    Sentence,
    Text,
    Word,
    alike,
    is_worn,
    may_have_part,
    words_of,
)
from scenewright.agents.parsers.splitting import FRAME_NOUNS
from scenewright.agents.parsers.tagging import PARTICLES
from scenewright.core.inflection import ing_form, verb_base
from scenewright.core.vocabulary import (
    canonical,
    converse,
    converse_in_text,
    entails,
    kind_of,
    verbs_in_text,
)

_BEFORE_NOUN = frozenset(
    {"adjective", "noun", "number", "participle", "adverb", "and", "comma", "ing"}
)
_EVERY = frozenset({"each", "both", "all", "every"})
_HAVING = frozenset(map(canonical, ("has", "with", "of")))
_WORN = frozenset({"in", "on"})
"""Words for wearing: "a man in a hat"."""
_PARTS_OF = frozenset({"of", "on", "in", "from", "by", "inside", "at"})
_HELD = frozenset({"on", "inside", "at", "part of", "attached to", "in the middle of", "along"})
"""Predicates that may hold of what another thing "has"."""
_DIRECTIONS = frozenset({"above", "below"})
_BREAKS = frozenset({"comma", "clause", "and"})
_VERBAL = frozenset({"ing", "participle", "verb", "be", "have", "there"})
_SIDES = {
    "top": "above",
    "bottom": "below",
    "left": "left of",
    "right": "right of",
    "front": "in front of",
    "foreground": "in front of",
    "background": "behind",
    "back": "behind",
    "distance": "behind",
}
"""Side of the picture → relation to everything else."""
_ALSO = {
    "above": ("over",),
    "below": ("under",),
    "behind": ("in the background of",),
    "in front of": ("in the foreground of",),
}
"""Further relations of a side: a cloud at the top is over the rest."""
_WITH = canonical("with")
_LISTED = frozenset({"and", "comma", "article", "adjective", "number", "possessive", "noun"})
_NEXT_CLAUSE = frozenset({"ing", "verb", "be", "have", "relative", "clause"})
_NEXT_VERB = 3
"""Words between a verb and "by" that make it a passive."""


def times_joined(text: Text, source: str, predicate: str, target: str) -> float:
    """Count how often ``text`` relates two classes by ``predicate``.

    Plurals count as any number.
    """
    asked = _Asked.of(predicate)
    found = 0.0
    seen: set[str] = set()
    named = frozenset(m.name for sentence in text.sentences for m in sentence.mentions)
    if asked.name in _HAVING and may_have_part(source, target) and {source, target} <= named:
        return float("inf")
    for sentence in text.sentences:
        ends = _Ends(sentence, source, target, frozenset(seen), named)
        times = _said_in(ends, asked)
        if times:
            several = any(m.many for m in sentence.mentions if m.name in (source, target))
            every = any(word.text in _EVERY for word in sentence.words)
            found += float("inf") if several or every else times
        seen |= {mention.name for mention in sentence.mentions}
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """A predicate in parts."""

    name: str
    """Canonical."""
    verb: str
    """Its verb in the ``-ing`` form; empty without one."""
    rest: str
    """Words after the verb."""
    words: tuple[str, ...]
    """As the scene has it."""

    @classmethod
    def of(cls, predicate: str) -> _Asked:
        name = canonical(predicate)
        words = tuple(w for w in words_of(predicate) if w not in ("is", "are", "being"))
        first = name.split()[0] if name else ""
        base = verb_base(first) if first not in ("left", "like", "close", "next") else None
        verb = ing_form(base) if base is not None and name not in _HAVING else ""
        return cls(name, verb, " ".join(name.split()[1:]) if verb else "", words)


@dataclass(frozen=True, slots=True)
class _Ends:
    """A sentence that may relate two classes, and the meanings of its pronouns."""

    sentence: Sentence
    source: str
    target: str
    seen: frozenset[str]
    """Classes named in the sentences before."""
    all: frozenset[str]
    """Classes named anywhere in the text."""

    def has(self, name: str) -> bool:
        """Return whether the class is named here, or meant by a pronoun."""
        named = self.sentence.of(name)
        if self.source == self.target:
            if len(named) > 1 or any(m.many for m in named):
                return True
            return bool(named or name in self.seen) and self.sentence.has_pronoun
        return bool(named) or (name in self.seen and self.sentence.has_pronoun)

    def both(self) -> bool:
        """Return whether both classes are here, one of them perhaps as a pronoun."""
        named = self.sentence.of(self.source) or self.sentence.of(self.target)
        return bool(named) and self.has(self.source) and self.has(self.target)

    def leads_to(self, name: str, end: int) -> bool:
        """Return whether the words before ``end`` lead to the class."""
        words = self.sentence.words[end : end + 2]
        counted = any(m.start == end + 1 for m in self.sentence.mentions)
        if any(word.tag == "pronoun" for word in words[:1]) or any(
            word.text in ("them", "it", "other") or (word.text == "one" and not counted)
            for word in words
        ):
            # "On top of it": not what stands next before, but something named earlier.
            before = [m.name for m in self.sentence.mentions if m.head < end]
            return name in self.seen or name in before[:-1]
        led_to = self.sentence.after(end)
        begun = end and self.sentence.words[end - 1].tag in ("ing", "verb")
        if begun and led_to and _goes_on(self.sentence.words[end : led_to[0].start]):
            return False
        return any(mention.name == name for mention in led_to)

    def precedes(self, name: str, start: int) -> bool:
        """Return whether the class is named before ``start``, here or where a pronoun refers to."""
        here = any(m.head < start for m in self.sentence.of(name))
        return here or (name in self.seen and self.sentence.has_pronoun)

    def begins(self, name: str, start: int) -> bool:
        """Return whether the class may be the subject at ``start``."""
        if self.precedes(name, start):
            return True
        # "On the table lies a ball", "…, behind the door there is a board".
        words = self.sentence.words
        fresh = not any(m.head < start for m in self.sentence.mentions)
        if not fresh and words[start - 1].tag not in ("comma", "clause", "and"):
            return False
        led_to = self.sentence.after(start)
        return any(
            word.tag in _VERBAL or (word.tag in _BREAKS and word.tag != "and")
            for m in (self.sentence.of(name) if led_to else ())
            if m.start >= led_to[0].end
            for word in words[led_to[0].end : m.start]
        )


def _goes_on(between: Sequence[Word]) -> bool:
    """Return whether another verb or clause begins: "petting a horse and leaning on".

    In "holding and watching a bird" both have one object.
    """
    tags = [word.tag for word in between]
    if "and" in tags[:2] and "noun" not in tags and "comma" not in tags:
        return False
    return any(word.tag in _NEXT_CLAUSE for word in between)


def _said_in(ends: _Ends, asked: _Asked) -> int:
    """Count how often the sentence relates the two ends by the predicate."""
    having = asked.name in _HAVING
    if not ends.both():
        return _in_the_picture(ends, asked)
    if having:
        return int(_owned(ends, ends.source, ends.target)) or _by_verb(ends, asked)
    found = _literally(ends, asked) or (_by_verb(ends, asked) if asked.verb else 0)
    found = found or _by_place(ends, asked) or _in_the_picture(ends, asked)
    if not found and asked.name == _WITH:
        found = int(_beside(ends))
    if not found and asked.name in _HELD:
        # "A tree with lights": they are on it.
        found = int(_owned(ends, ends.target, ends.source, loosely=False))
    return found


def _beside(ends: _Ends) -> bool:
    """Return whether "and" joins the two: "a fork and a knife"."""
    named = (ends.source, ends.target)
    pairs = itertools.pairwise(m for m in ends.sentence.mentions if m.name in named)
    return any(
        {one.name, other.name} == set(named)
        and all(w.tag in _LISTED for w in ends.sentence.words[one.end : other.start])
        and any(w.tag == "and" for w in ends.sentence.words[one.end : other.start])
        for one, other in pairs
    )


def _literally(ends: _Ends, asked: _Asked) -> int:
    words = ends.sentence.words
    size = len(asked.words)
    return sum(
        ends.leads_to(ends.target, at + size) and ends.begins(ends.source, at)
        for at in range(len(words) - size + 1)
        if size
        and all(alike(words[at + n].text, asked.words[n]) for n in range(size))
        and _whole(words, at, at + size)
    )


def _whole(words: Sequence[Word], start: int, end: int) -> bool:
    """Return whether the words stand alone, not inside a longer preposition.

    "of" in "in front of" does not; "in" in "out in" does.
    """
    before = start > 0 and words[start - 1].phrase == words[start].phrase
    before = before and words[start - 1].text not in PARTICLES
    after = end < len(words) and words[end].phrase == words[end - 1].phrase
    return not (words[start].tag in ("preposition", "place") and (before or after))


def _in_the_picture(ends: _Ends, asked: _Asked) -> int:
    """Relate to the rest by a place in the picture: "On the left, a dog waits"."""
    sentence = ends.sentence
    sides: dict[str, set[str]] = {}
    for start, end, said in _places_in(sentence):
        for name in sentence.around(start, end):
            sides.setdefault(name, set()).add(said)
    own, others = sides.get(ends.source, set()), sides.get(ends.target, set())
    # Two things on one side of the picture have no side relative to each other.
    same = ends.source == ends.target
    here = [said for said in own if same or said not in others]
    there = [turned for said in others if (same or said not in own) and (turned := converse(said))]
    told = (here if ends.target in ends.all else []) + (there if ends.source in ends.all else [])
    return int(any(entails(said, asked.name) or asked.name in _ALSO.get(said, ()) for said in told))


def _places_in(sentence: Sentence) -> Iterator[tuple[int, int, str]]:
    """Return (start, end, predicate) of phrases for places in the picture."""
    words = sentence.words
    for phrase, start, end in _phrases(sentence):
        sides = [_SIDES[w.text] for w in words[start:end] if w.text in _SIDES]
        framed = any(word.text in FRAME_NOUNS for word in words[end : end + 2])
        if sides and (words[start].tag == "place" or framed):
            # "At the top left" is two sides.
            yield from ((start, end, side) for side in sides)
        elif words[start].tag == "place":
            yield start, end, phrase
    for at, word in enumerate(words[1:], 1):
        # "To its left".
        if words[at - 1].tag == "possessive" and word.tag == "noun" and word.text in _SIDES:
            yield at - 1, at + 1, _SIDES[word.text]


def _owned(ends: _Ends, owner: str, owned: str, loosely: bool = True) -> bool:
    """Return whether the owner has the other: by a verb, "with", a possessive.

    ``loosely``: also as its part, or by what is on it.
    """
    sentence = ends.sentence
    words = sentence.words
    owners = sentence.of(owner)
    for mention in sentence.of(owned):
        for at in range(mention.start - 1, -1, -1):
            known = owner in ends.seen or any(m.head < at for m in owners)
            if words[at].tag == "possessive" and known:
                return True
            if words[at].tag == "owner" and any(m.end == at for m in owners):
                return True
            if words[at].tag not in _BEFORE_NOUN:
                break
    for mention in sentence.of(owned):
        if any(m.end == mention.start or (m.start == mention.end + 1 and
               words[mention.end].text == "of") for m in owners):  # fmt: skip
            # "A wooden table leg", "kitchen cabinets", "the leg of the table".
            return True
    for at, word in enumerate(words):
        if not _whole(words, at, at + 1):
            continue
        cue = word.text in OWNING or (word.text in _WORN and is_worn(owned))
        if cue and ends.leads_to(owned, at + 1) and ends.precedes(owner, at):
            return True
        if loosely and word.text in _PARTS_OF and ends.leads_to(owner, at + 1):
            before = [m for m in sentence.mentions if m.head < at]
            if before and before[-1].name == owned:
                return True
    return False


def _by_place(ends: _Ends, asked: _Asked) -> int:
    """Count the prepositions, entailing verbs and converses that join the two."""
    found: set[int] = set()
    words = ends.sentence.words
    for phrase, start, end in _phrases(ends.sentence):
        inside = any(start <= m.head < end for m in ends.sentence.of(ends.target))
        if inside and phrase.split()[0] in asked.words:
            # "In the background there are trees", where the background is an object.
            found.add(start)
        if words[start].tag == "place" and (end == len(words) or words[end].tag in _BREAKS):
            # "A dog at the top, a cat": a place in the picture joins no two things.
            continue
        done = converse(f"{words[start - 1].text} by") if phrase == "by" and start else None
        if done is not None and kind_of(done) == "social":
            # "Held by a dog", but not "parked by a house".
            continue
        if _tells(phrase, asked.name) and (
            ends.leads_to(ends.target, end) and ends.begins(ends.source, start)
        ):
            found.add(start)
        turned = converse_in_text(phrase)
        if (
            turned is not None
            and _tells(turned, asked.name)
            and (ends.leads_to(ends.source, end) and ends.begins(ends.target, start))
        ):
            found.add(start)
    return len(found)


def _tells(said: str, asked: str) -> bool:
    """Return whether ``said`` means or entails ``asked``.

    A direction also implies a nearer relation.
    """
    if said.endswith(" by") and converse(said) is not None:
        # "Seen by" is no "by the side of".
        return canonical(said) == asked
    return entails(said, asked) or (canonical(said) in _DIRECTIONS and entails(asked, said))


def _by_verb(ends: _Ends, asked: _Asked) -> int:
    """Count the verb, or one that entails it, with the required place."""
    sentence = ends.sentence
    found = 0
    for at, word in enumerate(sentence.words):
        if _says_verb(word, asked) and _right_way(ends, at):
            found += 1
    if asked.name == canonical("wearing") and is_worn(ends.target):
        # A man in a hat wears it.
        found += sum(
            word.text == "in"
            and ends.leads_to(ends.target, at + 1)
            and ends.begins(ends.source, at)
            for at, word in enumerate(sentence.words)
        )
    if found and asked.rest and not set(asked.rest.split()) <= PARTICLES:
        return min(found, _by_place(ends, _Asked.of(asked.rest)))
    return found


def _says_verb(word: Word, asked: _Asked) -> bool:
    wanted = verbs_in_text(asked.verb)
    if word.text in wanted:
        return True
    base = verb_base(word.text)
    if base is None:
        return bool(asked.words) and alike(word.text, asked.words[0])
    said = ing_form(base)
    if said in wanted:
        return True
    if word.tag not in ("ing", "participle", "verb"):
        return False
    return any(entails(said, name) for name in (asked.verb, asked.name) if name)


def _right_way(ends: _Ends, at: int) -> bool:
    """Return whether source and target are subject and object of a verb, in this order."""
    sentence = ends.sentence
    source_after = any(m.start > at for m in sentence.of(ends.source))
    source_before = any(m.head < at for m in sentence.of(ends.source))
    target_before = any(m.head < at for m in sentence.of(ends.target))
    target_after = any(m.start > at for m in sentence.of(ends.target))
    if any(word.text == "by" for word in sentence.words[at + 1 : at + 1 + _NEXT_VERB]):
        return source_after or not source_before
    turned = source_after and not source_before and target_before and not target_after
    if turned:
        return False
    if target_after and source_before:
        ahead = next(m.start for m in sentence.of(ends.target) if m.start > at)
        return not _goes_on(sentence.words[at + 1 : ahead])
    if source_before and target_before and not target_after:
        # "The hat that a man wears", "with a stick raised": what is done to stands before.
        begun = min(m.head for m in sentence.of(ends.target))
        return (
            begun < min(m.head for m in sentence.of(ends.source))
            or (
                sentence.words[at].tag == "participle"
                and any(m.end == at for m in sentence.of(ends.target))
            )
            or ends.leads_to(ends.target, at + 1)
        )
    return True


def _phrases(sentence: Sentence) -> Iterator[tuple[str, int, int]]:
    """Yield (predicate, start, end) of every preposition and verb of a sentence.

    Verbs also come with the preposition that follows.
    """
    words = sentence.words
    at = 0
    while at < len(words):
        end = at + 1
        while end < len(words) and words[end].phrase == words[at].phrase:
            end += 1
        text = " ".join(word.text for word in words[at:end])
        if words[at].tag in ("preposition", "place"):
            yield text, at, end
        elif words[at].tag in ("ing", "participle", "verb") or _is_verb(words, at):
            base = verb_base(words[at].text)
            yield (ing_form(base) if base else text), at, end
            last = end
            while last < len(words) and words[last].tag in ("preposition", "adverb"):
                last += 1
            if last > end:
                joined = " ".join(word.text for word in words[end:last])
                yield f"{text} {joined}", at, last
        at = end


def _is_verb(words: Sequence[Word], at: int) -> bool:
    """Return whether a word tagged as a noun is a verb: "a table, old, supports a ball"."""
    word = words[at].text
    base = verb_base(word)
    third = base is not None and base != word and word.endswith("s")
    follows = words[at + 1].tag if at + 1 < len(words) else "and"
    return third and at > 0 and words[at - 1].tag in ("comma", "noun") and follows == "article"

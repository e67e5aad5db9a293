"""Doubts of a caption: other possible meanings, each with sentences that leave none.

A doubt is told where the rules had to choose: a word that is in no dictionary, a number that could
be meant in all or of each, a phrase that could belong to either of two things, and a clause that
was not read whole. The first choice is the reading that was taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scenewright.agents.parsers.attachment_doubts import AttachmentDoubts, named_again
from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.read_sentence import unsure
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    PREPOSITIONS,
    Token,
    is_animate,
    rough,
    words,
)
from scenewright.agents.parsers.unread import NAME, UNKNOWN
from scenewright.core.inflection import verb_base
from scenewright.core.intent import Doubt, Passage
from scenewright.core.scene import SceneGraph

_DEEDS = words("doubts", "deeds")
"""Activities of persons and animals: a thing that does so is seldom meant."""
_TANGLED = words("doubts", "tangled")
"""Words of clauses that say why, when or what not."""
_ARRANGED = words("groups", "arranged")
_MOST_WORDS = 20
_MOST_THINGS = 6
"""A sentence of so many words and things is seldom read right in all."""
_LONGEST_NAME = 4
_MOST = 3
"""Doubts that are told of a caption: nobody answers more."""


class SentenceDoubts(AttachmentDoubts):
    """Doubts of one sentence of a caption."""

    def first(self) -> Iterator[Doubt]:
        """Yield the doubts that are told before all others."""
        yield from self.misspelt()
        mentions = [one for one in enumerate(self.items) if isinstance(one[1], Mention)]
        for at, item in mentions:
            if isinstance(item, Mention) and (item.number or 0) > 1:
                yield from self.number_of_each(at, item)
                yield from self.one_for_each(at, item)
                yield from self.number_of_colors(item)
        for at, item in enumerate(self.items):
            if isinstance(item, Token) and item.place[0] >= 0 and 0 < at < len(self.items) - 1:
                if item.lower == "with":
                    yield from self.with_what(at, item)
                elif item.tag in ("ing", "participle"):
                    yield from self.who_does(at, item)
        placed = [item for item in self.items if item.place[0] >= 0]
        things = [one for one in placed if isinstance(one, Mention) and not one.ignored]
        tangled = [one for one in placed if isinstance(one, Token) and one.lower in _TANGLED]
        odd = [one for one in things if one.bare and _is_odd(one.name)]
        odd = [one for one in odd if not self.called(one)[:1].isupper()]
        if tangled:
            end = self.end_of_clause(self.items.index(tangled[0]))
            yield unsure(self.text, tangled[0].place[0], end)
        elif odd:
            yield unsure(self.text, *odd[0].place)
        elif len(self.words) >= _MOST_WORDS and len(things) >= _MOST_THINGS:
            yield unsure(self.text, placed[0].place[0], placed[-1].place[1])

    def more(self) -> Iterator[Doubt]:
        """Yield the doubts of words that join as no phrase does, or in two ways."""
        for at, item in enumerate(self.items):
            if item.place[0] < 0:
                continue
            if isinstance(item, Mention):
                yield from self.side_by_side(at, item)
                yield from self.long_name(item)
                yield from self.owner(item)
                yield from self.group_of_one(item)
                yield from self.strange(at, item)
            else:
                yield from self.misfit(at, item)
                yield from self.place_of(at, item)
                yield from self.done_to(at, item)
                yield from self.meanwhile(at, item)
                yield from self.after_text(at, item)
        yield from self.framed()


def doubts_of(
    text: str,
    scene: SceneGraph,
    read: Sequence[tuple[Sequence[str], Sequence[Item]]],
    unread: Sequence[Passage],
) -> tuple[Doubt, ...]:
    """Return the doubts of a caption in its order: of its sentences, and of what was not read."""
    sentences = [SentenceDoubts(text, said, items, scene) for said, items in read]
    first = [one for sentence in sentences for one in sentence.first()]
    found = list({(one.kind, one.text): one for one in reversed(first)}.values())
    more = [one for sentence in sentences for one in sentence.more()]
    again = named_again(text, scene, [items for _, items in read])
    for one in (*more, *again, *_strange(text, scene)):
        told = any(lost.start <= one.start and one.end <= lost.end for lost in unread)
        if not told and not any(
            (one.start < o.end and o.start < one.end) or one.text == o.text for o in found
        ):
            found.append(one)
    for passage in unread:
        # Words that name things or deeds, and do not only say how.
        known = passage.reason in (UNKNOWN, NAME) and any(
            rough(word) in ("noun", "verb", "ing", "weak") and word not in _ARRANGED
            for word in passage.text.lower().split()
        )
        if known and not any(_is_beside(text, one, passage) for one in found):
            found.append(unsure(text, passage.start, passage.end))
    return tuple(sorted(found, key=lambda one: (one.start, one.end))[:_MOST])


def _is_beside(text: str, doubt: Doubt, passage: Passage) -> bool:
    """Return whether a doubt covers a passage, or doubts the reading of the same sentence."""
    first, last = sorted(((doubt.start, doubt.end), (passage.start, passage.end)))
    between = text[first[1] : last[0]]
    return last[0] < first[1] or (doubt.kind == "reading" and not re.search(r"[.!?;]", between))


def _strange(text: str, scene: SceneGraph) -> Iterator[Doubt]:
    """Doubt relations that are seldom meant, and a thing that the sentences relate to nothing."""
    main = scene.objects[0].name
    names = {item.id: item.name for item in scene.objects}
    for relation in scene.relations:
        said = relation.predicate.split()
        doer = names[relation.source]
        piled = len(said) > 1 and tuple(said) not in PREPOSITIONS and said != ["has", "on"]
        # Words that join two things and say of neither what it does.
        piled = piled and all(w in ("has", "next") or (w,) in PREPOSITIONS for w in said)
        acts = verb_base(said[0]) in _DEEDS and said[-1] != "like" and not is_animate(doer)
        if piled or (acts and doer != main):
            # The words from one label to another, if they stand in one sentence.
            first, last = (
                re.escape(name.split()[-1][:-1] or name) for name in (doer, names[relation.target])
            )
            between = rf"[^.;:]*?\b{last}\w*" if doer != names[relation.target] else ""
            yield from _around(text, rf"\b{first}\w*{between}")
    ends = {end for relation in scene.relations for end in (relation.source, relation.target)}
    for item in scene.objects:
        loose = item.id not in ends and not item.attributes and bool(scene.relations)
        name = re.escape(item.name)
        named = rf"\bof\b[^,.]*{name}|{name}\w*(?:\s+(?:of|about|and)\b|,)|\band\b[^,.]*{name}"
        if loose and not re.search(named, text, re.IGNORECASE):
            yield from _around(text, rf"\b{re.escape(item.name.split()[-1][:-1] or item.name)}\w*")


def _around(text: str, pattern: str) -> Iterator[Doubt]:
    found = re.search(pattern, text, re.IGNORECASE)
    if found is not None:
        yield unsure(text, *found.span())


def _is_odd(name: str) -> bool:
    """Return whether a label is long, or holds a word that names nothing."""
    parts = name.split()
    if len(parts) >= _LONGEST_NAME and name.islower():
        return True
    last = parts[-1] if parts else ""
    kinds = parts_of_speech(last) if last.islower() else frozenset()
    return bool(kinds) and "NOUN" not in kinds and last not in ADJECTIVES

"""Doubts of a caption: other possible meanings, each with sentences that leave none.

A doubt is told where the rules had to choose: a word that is in no dictionary, a number that could
be meant in all or of each, a phrase that could belong to either of two things, and a clause that
was not read whole. The first choice is the reading that was taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.naming import misspelt
from scenewright.agents.parsers.second_looks import (
    SaidSentence,
    SecondLook,
    has_tag,
    is_thing,
    named_again,
    unsure,
)
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import Word
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    CLOTHES,
    NUMBER_WORDS,
    PREPOSITIONS,
    THING_PARTS,
    Token,
    is_animate,
    rough,
    words,
)
from scenewright.agents.parsers.unread import NAME, UNKNOWN
from scenewright.core.english import article
from scenewright.core.inflection import plural, singular, verb_base
from scenewright.core.intent import Doubt, Passage
from scenewright.core.scene import SceneGraph

_SHARED = words("doubts", "shared")
"""Verbs with one thing for several, or one for each."""
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


class Doubts(SaidSentence):
    """Doubts of one sentence of a caption."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Doubt]:
        yield from self._misspelt()
        yield from self._counts()
        yield from self._attachments()
        yield from self._clauses()

    # Words

    def _misspelt(self) -> Iterator[Doubt]:
        for word in self.words:
            known = misspelt(word) if isinstance(word, Word) else ""
            if isinstance(word, Word) and parts_of_speech(known) & {"NOUN", "ADJ"}:
                yield self.doubt(
                    "word", word.start, word.end, f"is {known!r} meant by {str(word)!r}?",
                    (f"{word}, as written", self.text),
                    (known, re.sub(rf"\b{re.escape(word)}\b", known, self.text)),
                )  # fmt: skip

    # Numbers

    def _counts(self) -> Iterator[Doubt]:
        for at, item in enumerate(self.items):
            if not isinstance(item, Mention) or (item.number or 0) < 2 or item.place[0] < 0:
                continue
            yield from self._number_of_each(at, item)
            yield from self._one_for_each(at, item)
            yield from self._number_of_colors(item)

    def _number_of_each(self, at: int, counted: Mention) -> Iterator[Doubt]:
        """Doubt "two dogs and cats"."""
        after = self.items[at + 1 : at + 3]
        if len(after) < 2 or not has_tag(after[0], "and") or not isinstance(after[1], Mention):
            return
        other = after[1]
        if not other.bare or other.least < 2 or other.attributes or counted.part:
            return
        start, end = other.place
        number, name = _spelt(counted.number or 0), self.text[start:end]
        yield self.doubt(
            "count", counted.place[0], end, f"{number} in all, or {number} of each?",
            (f"{number} {plural(counted.name)}", self.with_(start, end, f"some {name}")),
            (f"{number} of each", self.with_(start, end, f"{number} {name}")),
        )  # fmt: skip

    def _one_for_each(self, at: int, counted: Mention) -> Iterator[Doubt]:
        """Doubt "three women holding a sign"."""
        after = [one for one in self.items[at + 1 : at + 4] if not has_tag(one, "be", "relative")]
        if len(after) < 2 or not isinstance(after[0], Token) or not isinstance(after[1], Mention):
            return
        held = after[1]
        if verb_base(after[0].lower) not in _SHARED or not held.new or held.number or not held.name:
            return
        if not counted.animate or held.part:
            return
        start, end = held.place
        noun = self.text[start:end].partition(" ")[2]
        yield self.doubt(
            "count", counted.place[0], end, f"one {held.name} for all, or one for each?",
            (f"one {held.name} for all", self.with_(start, end, f"one shared {noun}")),
            (f"one {held.name} for each", self.with_(start, end, f"{plural(noun)}, one for each")),
        )  # fmt: skip

    def _number_of_colors(self, counted: Mention) -> Iterator[Doubt]:
        """Doubt "two red and blue balls"."""
        color = next((value for key, value in counted.attributes if key == "color"), "")
        colors = color.split(" and ")
        if len(colors) != 2 or counted.number != 2:
            return
        start, end = counted.place
        one, many = singular(counted.name), plural(counted.name)
        apart = " and ".join(f"{article(each)} {each} {one}" for each in colors)
        question = f"are both {color}, or is one {colors[0]} and the other {colors[1]}?"
        yield self.doubt(
            "count", start, end, question,
            (f"both are {color}", self.with_(start, end, f"two {many} that are each {color}")),
            (f"one {colors[0]}, one {colors[1]}", self.with_(start, end, apart)),
        )  # fmt: skip

    # Attachments

    def _attachments(self) -> Iterator[Doubt]:
        for at, item in enumerate(self.items):
            if isinstance(item, Token) and item.place[0] >= 0 and 0 < at < len(self.items) - 1:
                if item.lower == "with":
                    yield from self._with_what(at, item)
                elif item.tag in ("ing", "participle"):
                    yield from self._who_does(at, item)

    def _with_what(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man watching a dog with a telescope" and "a man and a woman with a hat"."""
        had, near = self.items[at + 1], self.items[at - 1]
        if not isinstance(had, Mention) or not isinstance(near, Mention) or not is_thing(near):
            return
        far = self.before(at - 1)
        if far is None or not had.name or had.owner is not None or had.place[0] < 0:
            return
        joined, between = self.joined(at - 1), self.items[at - 2]
        deed = isinstance(between, Token) and between.tag in ("verb", "ing")
        both_can = near.animate and far.animate
        piece = had.is_part or had.name.rpartition(" ")[2].lower() in THING_PARTS | CLOTHES
        if not both_can or not (joined or (deed and not piece)):
            return
        start, end = link.place[0], max(had.place[1], self.end_of_clause(at + 1))
        thing = self.text[had.place[0] : end]
        first, second = self.called(near), self.called(far)
        if first == second:
            return
        said = f"The {first} {'have' if near.least > 1 else 'has'} {thing}."
        one = (f"the {first}", self.apart(start, end, said))
        said = f"The {second} {'have' if far.least > 1 else 'has'} {thing}."
        other = (f"the {second}", self.apart(start, end, said))
        if joined:
            said = f"The {second} and the {first} both have {thing}."
            other = ("both", self.apart(start, end, said))
        taken = (other, one) if self.related(far.name, had.name) else (one, other)
        yield self.doubt("attachment", start, end, f"who has {thing}?", *taken)

    def _who_does(self, at: int, verb: Token) -> Iterator[Doubt]:
        """Doubt "a man with a dog wearing a hat"."""
        near = self.items[at - 1]
        if not isinstance(near, Mention) or not near.animate or not is_thing(near):
            return
        far = self.before(at - 1)
        if far is None or not far.animate or self.joined(at - 1) or near.is_part:
            return
        end = self.end_of_clause(at)
        start = verb.place[0]
        deed = self.text[start:end].strip()
        done = self.items[at + 1]
        done_to = done.name if isinstance(done, Mention) else ""
        taken = (far, near) if self.related(far.name, done_to) else (near, far)
        if self.called(near) == self.called(far):
            return
        choices = []
        for one in taken:
            called, verb_form = self.called(one), "are" if one.least > 1 else "is"
            said = f"The {called} {verb_form} {deed}."
            choices.append((f"the {called}", self.apart(start, end, said)))
        yield self.doubt("attachment", start, end, f"who is {deed}?", *choices)

    # Clauses

    def _clauses(self) -> Iterator[Doubt]:
        placed = [item for item in self.items if item.place[0] >= 0]
        if not placed:
            return
        start, end = placed[0].place[0], placed[-1].place[1]
        things = [one for one in placed if isinstance(one, Mention) and not one.ignored]
        tangled = next(
            (one for one in placed if isinstance(one, Token) and one.lower in _TANGLED), None
        )
        names = [
            one
            for one in placed
            if isinstance(one, Mention)
            and not one.ignored
            and one.bare
            and _is_odd(one.name)
            and not self.called(one)[:1].isupper()
        ]
        if tangled is not None:
            yield self._unsure(tangled.place[0], self.end_of_clause(self.items.index(tangled)))
        elif names:
            yield self._unsure(*names[0].place)
        elif len(self.words) >= _MOST_WORDS and len(things) >= _MOST_THINGS:
            yield self._unsure(start, end)

    def _unsure(self, start: int, end: int) -> Doubt:
        return unsure(self.text, start, end)


def doubts_of(
    text: str,
    scene: SceneGraph,
    read: Sequence[tuple[Sequence[str], Sequence[Item]]],
    unread: Sequence[Passage],
) -> tuple[Doubt, ...]:
    """Return the doubts of a caption in its order: of its sentences, and of what was not read."""
    found: list[Doubt] = []
    for said, items in read:
        found += Doubts(text, said, items, scene)
    found = list({(one.kind, one.text): one for one in reversed(found)}.values())
    looks = [one for said, items in read for one in SecondLook(text, said, items, scene)]
    again = named_again(text, scene, [items for _, items in read])
    for one in (*looks, *again, *_strange(text, scene)):
        told = any(lost.start <= one.start and one.end <= lost.end for lost in unread)
        if not told and not any(
            (one.start < o.end and o.start < one.end) or one.text == o.text for o in found
        ):
            found.append(one)
    for passage in unread:
        known = passage.reason in (UNKNOWN, NAME) and _tells(passage.text)
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
        piled = len(said) > 1 and tuple(said) not in PREPOSITIONS and said != ["has", "on"]
        piled = piled and all(_links(word) for word in said)
        doer = names[relation.source]
        acts = verb_base(said[0]) in _DEEDS and said[-1] != "like" and not is_animate(doer)
        if piled or (acts and doer != main):
            yield from _around(text, names[relation.source], names[relation.target])
    ends = {end for relation in scene.relations for end in (relation.source, relation.target)}
    for item in scene.objects:
        loose = item.id not in ends and not item.attributes and bool(scene.relations)
        name = re.escape(item.name)
        named = rf"\bof\b[^,.]*{name}|{name}\w*(?:\s+(?:of|about|and)\b|,)|\band\b[^,.]*{name}"
        if loose and not re.search(named, text, re.IGNORECASE):
            yield from _around(text, item.name, item.name)


def _links(word: str) -> bool:
    """Return whether a word joins two things and says of neither what it does."""
    return word == "has" or (word,) in PREPOSITIONS or word == "next"


def _around(text: str, first: str, last: str) -> Iterator[Doubt]:
    """Doubt the words from one label to another, if they stand in one sentence."""
    one, other = (re.escape(name.split()[-1][:-1] or name) for name in (first, last))
    found = re.search(rf"\b{one}\w*[^.;:]*?\b{other}\w*", text, re.IGNORECASE)
    if first == last:
        found = re.search(rf"\b{one}\w*", text, re.IGNORECASE)
    if found is not None:
        yield unsure(text, found.start(), found.end())


def _tells(passage: str) -> bool:
    """Return whether words that were not read name things or deeds, and do not only say how."""
    return any(
        rough(word) in ("noun", "verb", "ing", "weak") and word not in _ARRANGED
        for word in passage.lower().split()
    )


def _is_odd(name: str) -> bool:
    """Return whether a label is long, or holds a word that names nothing."""
    parts = name.split()
    if len(parts) >= _LONGEST_NAME and name.islower():
        return True
    last = parts[-1] if parts else ""
    kinds = parts_of_speech(last) if last.islower() else frozenset()
    return bool(kinds) and "NOUN" not in kinds and last not in ADJECTIVES


def _spelt(number: int) -> str:
    return NUMBER_WORDS[number - 1] if number <= len(NUMBER_WORDS) else str(number)

"""Doubts of phrases that may be said of either of two things, and of what is named again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from scenewright.agents.parsers.links import SAYS, WRITES
from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.read_sentence import ReadSentence, is_thing
from scenewright.agents.parsers.splitting import FRAME_NOUNS, Word
from scenewright.agents.parsers.tagging import NO_RELATION, Token, is_person
from scenewright.agents.parsers.word_doubts import WordDoubts
from scenewright.core.inflection import ing_form, verb_base
from scenewright.core.intent import Doubt
from scenewright.core.scene import SceneGraph

_FRAMED = re.compile(
    r"\b(?:with|and|has|holding|showing)\s+((?:an?|the)\s+(?:[\w-]+\s)?"
    rf"({'|'.join(sorted(FRAME_NOUNS))}))\b"
)
_LEAST_LISTED = 3
"""A place after so many things is seldom that of all."""


class AttachmentDoubts(WordDoubts):
    """Doubts of which thing a phrase of a sentence is said."""

    def with_what(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man watching a dog with a telescope" and "a man and a woman with a hat"."""
        had, near = self.peek(at + 1), self.peek(at - 1)
        if not isinstance(had, Mention) or not isinstance(near, Mention) or not is_thing(near):
            return
        far = self.before(at - 1)
        if far is None or not had.name or had.owner is not None:
            return
        joined, deed = self.joined(at - 1), self.peek(at - 2).tag in ("verb", "ing")
        borne = had.is_piece or had.is_clothes
        first, second = self.called(near), self.called(far)
        apart = near.animate and far.animate and first != second
        if not apart or not (joined or (deed and not borne)):
            return
        start, end = link.place[0], max(had.place[1], self.end_of_clause(at + 1))
        thing = self.text[had.place[0] : end]
        one, other = self.said_of_each(start, end, "has", thing, (near, far))
        if joined:
            said = f"The {second} and the {first} both have {thing}."
            other = ("both", self.split_off(start, end, said))
        taken = (other, one) if self.related(far.name, had.name) else (one, other)
        yield self.doubt("attachment", start, end, f"who has {thing}?", *taken)

    def who_does(self, at: int, verb: Token) -> Iterator[Doubt]:
        """Doubt "a man with a dog wearing a hat"."""
        near, far = self.peek(at - 1), self.before(at - 1)
        if not isinstance(near, Mention) or not near.animate or not is_thing(near):
            return
        if far is None or not far.animate or self.joined(at - 1) or near.is_part:
            return
        start, end = verb.place[0], self.end_of_clause(at)
        deed, done = self.text[start:end].strip(), self.peek(at + 1)
        done_to = done.name if isinstance(done, Mention) else ""
        taken = (far, near) if self.related(far.name, done_to) else (near, far)
        if self.called(near) != self.called(far):
            choices = self.said_of_each(start, end, "is", deed, taken)
            yield self.doubt("attachment", start, end, f"who is {deed}?", *choices)

    def done_to(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a bat that he is holding in his hands": does he hold the bat?"""
        thing = self.peek(at - 1)
        if link.tag != "relative" or not isinstance(thing, Mention) or not thing.name:
            return
        if not isinstance(self.peek(at + 1), Mention):
            return
        verb = next((one for one in self.items[at + 2 :] if one.tag in ("verb", "ing")), None)
        if not isinstance(verb, Token):
            return
        said = ing_form(verb_base(verb.lower) or verb.lower)
        if not any(
            said in relation.predicate and self.names[relation.target] == thing.name
            for relation in self.scene.relations
        ):
            question = f"is the {self.called(thing)} what is meant by 'that'?"
            yield self.unclear(thing.place[0], verb.place[1], question)

    def place_of(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man riding a wave on top of a board" and "a cat, a dog and a cup on a chair"."""
        near, place = self.peek(at - 1), self.peek(at + 1)
        if link.tag != "preposition" or link.lower in NO_RELATION:
            return
        if not isinstance(near, Mention) or not isinstance(place, Mention) or not place.name:
            return
        if not near.name or near.ignored or place.ignored:
            return
        listed: list[Mention] = []
        for item in reversed(self.items[:at] if self.joined(at - 1) else ()):
            if isinstance(item, Mention):
                listed.append(item)
            elif item.tag not in ("and", "comma"):
                break
        if len(listed) >= _LEAST_LISTED and link.lower != "with":
            if all(self.related(one.name, place.name) for one in listed):
                start, end = link.place[0], self.end_of_clause(at)
                said = self.text[start:end].strip()
                (_, sentence), *_ = self.said_of_each(start, end, "is", said, [near])
                yield self.doubt(
                    "attachment", start, end, f"what is {said}?",
                    ("all of them", self.text),
                    (f"the {self.called(near)} only", sentence),
                )  # fmt: skip
            return
        before = (one for one in reversed(self.items[: at - 1]) if isinstance(one, Mention))
        far = next(
            (
                one
                for one in before
                if one.name and one.name != near.name and self.related(one.name, near.name)
            ),
            None,
        )
        if far is None or (far.name == place.name and not place.new):
            return
        if near.is_piece or near.is_clothes or place.is_part or place.is_scenery:
            return
        deed = far.animate and not near.animate
        between = self.peek(at - 2).tag
        if link.lower == "with":
            either = deed and not place.is_piece and between == "preposition"
        elif deed:
            either = between in ("verb", "ing")
        else:
            either = not (far.animate or near.animate or near.is_scenery)
        if either and self.related(near.name, place.name):
            yield self._of_either(link, at, near, far)

    def meanwhile(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man shouting into a microphone while standing on a stump"."""
        verb = self.peek(at + 1)
        if link.tag != "clause" or not isinstance(verb, Token) or verb.tag != "ing":
            return
        things = [one for one in self.items[:at] if isinstance(one, Mention) and one.name]
        if len(things) < 2 or things[0].name == things[-1].name:
            return
        doers = {
            self.names[relation.source]
            for relation in self.scene.relations
            if relation.predicate.startswith(verb.lower)
        } | {
            item.name
            for item in self.scene.objects
            if verb.lower in item.attributes.get("state", "").split()
        }
        if things[-1].name in doers and things[0].name not in doers:
            yield self._of_either(link, at + 1, things[-1], things[0])

    def _of_either(self, link: Token, at: int, near: Mention, far: Mention) -> Doubt:
        """Return the doubt of which of two things a phrase that begins at ``at`` is said."""
        start, end = link.place[0], self.end_of_clause(at)
        deed = "has" if link.lower == "with" else "is"
        skipped = link.place[1] if deed == "has" else start
        if link.tag == "clause":
            skipped = self.items[at].place[0]
        said = self.text[skipped:end].strip()
        asked = "who" if near.animate and far.animate else "what"
        choices = self.said_of_each(start, end, deed, said, (near, far))
        return self.doubt("attachment", start, end, f"{asked} {deed} {said}?", *choices)

    def after_text(self, at: int, quote: Token) -> Iterator[Doubt]:
        """Doubt "a volcano with the text 'MAGMA' in red": the volcano, or what is written."""
        # Right after "the words" there is nothing else that it could be said of.
        things = [one for one in self.items[: at - 1] if isinstance(one, Mention) and one.name]
        if quote.tag != "quote" or not things:
            return
        before = self.peek(at - int(self.peek(at + 1).tag != "comma"))
        at += 1 + (self.peek(at + 1).tag == "comma")
        after = self.peek(at)
        if not isinstance(after, Token) or after.tag not in ("preposition", "participle"):
            return
        start, end = after.place[0], self.end_of_clause(at)
        said = self.text[start:end].strip(" .,")
        told = isinstance(before, Token) and verb_base(before.lower) in SAYS | WRITES
        if told or verb_base(after.lower) in WRITES:
            # "Says 'STOP' on a wall", "'STOP' written on it".
            return
        thing = self.called(things[-1])
        question = f"is {said!r} said of the words {quote.text!r}, or of the {thing}?"
        yield self.unclear(start, start + len(said), question)

    def framed(self) -> Iterator[Doubt]:
        """Doubt "a book with an illustration of a dog": a thing, or what the picture is."""
        placed = [word for word in self.words if isinstance(word, Word)]
        things = [one for one in self.items if isinstance(one, Mention) and is_thing(one)]
        for found in re.finditer(_FRAMED, self.text) if things and placed else ():
            noun = found[2].lower()
            inside = things[0].place[1] <= found.start() <= placed[-1].end
            if inside and not any(noun in name.split() for name in self.names.values()):
                question = f"is the {noun} a thing in the picture, or the picture itself?"
                yield self.unclear(*found.span(1), question)


def named_again(text: str, scene: SceneGraph, read: Sequence[Sequence[Item]]) -> Iterator[Doubt]:
    """Doubt whether what a later sentence names is what was named, or another one.

    "There are people on a hill. There are people behind a fence": the same ones? "A person is
    jumping. A tree is behind the man": is he the person?
    """
    seen: dict[str, Mention] = {}
    doubted: set[str] = set()
    drawn = [item.name for item in scene.objects]
    if not re.search(r"\b(?:an?|the|there)\b", text, re.IGNORECASE):
        return  # Notes such as "plant in pot. pot on table" name each again.
    for before_items, items in pairwise(((), *read)):
        sentence = ReadSentence(text, (), items, scene)
        yield from _it(sentence, before_items)
        mentions = [one for one in items if isinstance(one, Mention) and is_thing(one)]
        for one in mentions:
            known = seen.get(one.name.casefold())
            if one.part or one.again:
                continue
            start, end = one.place
            called = sentence.called(one)
            if known is not None and not one.known and one.name not in doubted:
                several = known.least > 1 and (one.new or one.least > 1)
                if not several and (not one.new or known.new or known.known):
                    continue
                doubted.add(one.name)
                meant, more = sentence.called(known), one.least > 1
                question = f"the {meant} from before, or {'others' if more else 'another'}?"
                choices: tuple[tuple[str, str], ...] = ()
                if more and drawn.count(one.name) <= known.least:
                    other = sentence.with_(start, end, f"another group of {called}")
                    choices = (("the same", text), ("others", other))
                elif known.least == 1:
                    same = sentence.with_(start, end, f"the {called}")
                    choices = (("another", text), ("the same", same))
                yield sentence.doubt("reading", start, end, question, *choices)
            elif known is None and one.known and one.owner is None and is_person(one.name):
                persons = [other for other in seen.values() if is_person(other.name)]
                if persons:
                    meant = sentence.called(persons[-1])
                    yield sentence.doubt(
                        "reading", start, end, f"is the {called} the {meant} from before?",
                        ("no", text),
                        ("yes", sentence.with_(start, end, f"the {persons[-1].name}")),
                    )  # fmt: skip
        for one in mentions:
            seen.setdefault(one.name.casefold(), one)


def _it(sentence: ReadSentence, before: Sequence[Item]) -> Iterator[Doubt]:
    """Doubt "a robot with a cup for a head. It stands in a street", where it is not the robot."""
    first, rest = sentence.peek(0), sentence.items[1:]
    things = [one for one in before if isinstance(one, Mention) and one.name and not one.ignored]
    if not isinstance(first, Mention) or first.pronoun != "it" or len(things) < 2:
        return
    done = next((one.name for one in rest if isinstance(one, Mention) and one.name), None)
    names = sentence.names
    doers = {names[r.source] for r in sentence.scene.relations if names[r.target] == done}
    near = next((one.name for one in things[1:] if one.name in doers), "")
    if near and things[0].name not in doers:
        choices = (
            (f"the {name}", sentence.with_(*first.place, f"the {name}"))
            for name in (near, things[0].name)
        )
        yield sentence.doubt("attachment", *first.place, "what is 'it'?", *choices)

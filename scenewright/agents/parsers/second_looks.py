"""A second look at a sentence that was read: words that join as no phrase does, or in two ways.

The reader settles on one tag of each word and on one bearer of each phrase. What it settled on is
held against the sentence once more: two noun phrases side by side, an auxiliary without a verb, a
place that may be that of who acts or of what is near, "it" that may be either of two things, a
class that is named again. Where another reading can be said, it is a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from scenewright.agents.parsers.links import (
    GIVES,
    SAYS,
    WRITES,
)
from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.spelling import is_known, parts_of_speech
from scenewright.agents.parsers.splitting import FRAME_NOUNS, Word
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    GROUPS,
    NO_RELATION,
    PARTICLES,
    PLURAL_MODIFIERS,
    SCENERY,
    Token,
    is_person,
    rough,
)
from scenewright.core.english import article
from scenewright.core.inflection import ing_form, plural, singular, verb_base
from scenewright.core.intent import Choice, Doubt, DoubtKind
from scenewright.core.scene import SceneGraph

DETERMINING = frozenset({"article", "determiner", "possessive", "number"})
_DEEDS = frozenset({"verb", "ing", "participle"})
_AFTER_AUXILIARY = frozenset({"verb", "be", "have", "auxiliary", "adverb", "ing", "participle"})
_FRAMED = re.compile(
    r"\b(?:with|and|has|holding|showing)\s+((?:an?|the)\s+(?:[\w-]+\s)?"
    rf"({'|'.join(sorted(FRAME_NOUNS))}))\b"
)
_POINTING = frozenset({"this", "that", "these", "those"})
_LEAST_LISTED = 3
"""A place after so many things is seldom that of all."""


@dataclass(frozen=True, slots=True)
class SaidSentence:
    """A sentence of a caption as it was read, and other ways to say it."""

    text: str
    """The caption."""
    words: Sequence[str]
    items: Sequence[Item]
    scene: SceneGraph

    def doubt(
        self, kind: DoubtKind, start: int, end: int, question: str, *choices: tuple[str, str]
    ) -> Doubt:
        """Return a doubt of a passage with its choices, each a label and a sentence."""
        return Doubt(
            kind=kind,
            start=start,
            end=end,
            text=self.text[start:end],
            question=question,
            choices=tuple(Choice(label=label, sentence=said.strip()) for label, said in choices),
        )

    def with_(self, start: int, end: int, said: str) -> str:
        """Return the caption with ``said`` in this place."""
        return f"{self.text[:start]}{said}{self.text[end:]}"

    def apart(self, start: int, end: int, said: str) -> str:
        """Return the caption without this place, and with ``said`` as its own sentence."""
        left = f"{self.text[:start].rstrip()}{self.text[end:]}".strip()
        return f"{left}{'' if left.endswith(('.', '!', '?')) else '.'} {said}"

    def called(self, mention: Mention) -> str:
        """Return the words of a noun phrase without its determiner."""
        said = self.text[mention.place[0] : mention.place[1]].split()
        while len(said) > 1 and rough(said[0].lower()) in DETERMINING:
            said.pop(0)
        return " ".join(said)

    def before(self, at: int) -> Mention | None:
        """Return the thing named before the one at ``at``, with at most two words between."""
        for item in reversed(self.items[max(0, at - 3) : at]):
            if isinstance(item, Mention):
                return item if is_thing(item) else None
            if item.tag in ("clause", "relative"):
                return None
        return None

    def joined(self, at: int) -> bool:
        """Return whether "and" stands before the item at ``at``."""
        return at > 0 and has_tag(self.items[at - 1], "and")

    def end_of_clause(self, at: int) -> int:
        """Return where the clause of the item at ``at`` ends in the caption."""
        end = self.items[at].place[1]
        for item in self.items[at + 1 :]:
            if has_tag(item, "and", "comma", "clause", "relative"):
                break
            end = max(end, item.place[1])
        return end

    def related(self, source: str, target: str) -> bool:
        """Return whether the scene relates two things of these labels."""
        return bool(self.predicates(source, target))

    def predicates(self, source: str, target: str) -> list[str]:
        """Return the predicates from things of one label to things of another."""
        names = {item.id: item.name for item in self.scene.objects}
        return [
            one.predicate
            for one in self.scene.relations
            if (names[one.source], names[one.target]) == (source, target)
        ]


class SecondLook(SaidSentence):
    """Doubts of what a sentence's words do not say for sure."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Doubt]:
        for at, item in enumerate(self.items):
            if item.place[0] < 0:
                continue
            if isinstance(item, Mention):
                yield from self._side_by_side(at, item)
                yield from self._long_name(item)
                yield from self._whose(item)
                yield from self._group_of_one(item)
                yield from self._parted(at, item)
            else:
                yield from self._misfit(at, item)
                yield from self._place_of(at, item)
                yield from self._done_to(at, item)
                yield from self._meanwhile(at, item)
                yield from self._after_text(at, item)
        yield from self._framed()

    def _next(self, at: int, steps: int = 1) -> Item | None:
        return self.items[at + steps] if 0 <= at + steps < len(self.items) else None

    # Words that join as no phrase does

    def _side_by_side(self, at: int, first: Mention) -> Iterator[Doubt]:
        """Doubt "a lady wearing red playing tennis" and "a panda mad scientist"."""
        second = self._next(at)
        if not isinstance(second, Mention) or second.pronoun or not second.name or not first.name:
            return
        before, after = self._next(at, -1), self._next(at, 2)
        given = isinstance(before, Token) and verb_base(before.lower) in GIVES
        if given or has_tag(after, "verb", "be", "have", "auxiliary") or second.place[0] < 0:
            return
        start, end = first.place[0], second.place[1]
        one = self.text[start : first.place[1]]
        other = self.text[second.place[0] : end]
        yield self.doubt(
            "reading", start, end, f"how do {one!r} and {other!r} belong together?",
            ("as it stands", self.text),
            ("two things", self.with_(start, end, f"{one} and {other}")),
        )  # fmt: skip

    def _misfit(self, at: int, token: Token) -> Iterator[Doubt]:
        """Doubt a word that does not go with the next one as what it was taken for."""
        before, after = self._next(at, -1), self._next(at)
        start, end = token.place
        if token.tag == "auxiliary":
            deed = isinstance(after, Mention) or has_tag(after, *_AFTER_AUXILIARY)
            if not deed and rough(token.lower) == "auxiliary":
                yield self._thing_after_all(at, token)
        elif token.tag == "preposition":
            leads = has_tag(after, "and", "comma") and not has_tag(before, *_DEEDS)
            if isinstance(after, Mention) and not after.name and after.ignored:
                said = self.text[after.place[0] : after.place[1]].lower()
                leads, end = said in _POINTING, after.place[1]
            if leads:
                yield self._unclear(start, end, f"what does {self.text[start:end]!r} lead to?")
        elif token.tag in ("verb", "participle") and not has_tag(before, "be", "auxiliary"):
            yield from self._participle(at, token)
        elif token.tag == "ing" and isinstance(after, Mention) and _is_plain(after):
            told = any(has_tag(item, "be", *_DEEDS) for item in self.items[:at])
            listed = has_tag(before, "and", "comma") and not told
            if listed or has_tag(before, "ing"):
                noun = self.called(after)
                yield self.doubt(
                    "reading", start, after.place[1],
                    f"is {token.text!r} what is being done, or a kind of {noun}?",
                    ("what is being done", self.text),
                    (f"a kind of {noun}", self.with_(start, end + 1, f"{token.text}-")),
                )  # fmt: skip
        elif token.tag == "adjective":
            first = self._next(at, -2)
            tells = isinstance(first, Mention) and first.name.lower() not in ADJECTIVES
            alone = before is None or (has_tag(before, "comma") and has_tag(after, "and"))
            alone = alone and (before is None or tells)
            named = token.text[:1].isupper() and before is not None
            told = any(has_tag(item, "be") for item in self.items[:at])
            if named:
                run = [one.place[1] for one in takewhile(_is_capital, self.items[at:])]
                if not _is_capital(before):
                    said = self.text[start : run[-1]]
                    yield self._unclear(start, run[-1], f"is {said!r} a name?")
            elif alone and not told:
                yield self._unclear(start, end, f"what is {token.text}?")
        elif token.tag == "adverb" and isinstance(before, Mention) and before.name:
            if after is None or has_tag(after, "comma", "and"):
                return
            named = "NOUN" in parts_of_speech(token.lower) and token.lower not in PARTICLES
            if named and not token.lower.endswith("ly"):
                start = before.place[0]
                whole = self.called(before)
                yield self.doubt(
                    "reading", start, end,
                    f"is {token.text!r} part of the name of the {whole}?",
                    ("no", self.text),
                    ("yes", self.with_(before.place[1], token.place[0], "-")),
                )  # fmt: skip

    def _participle(self, at: int, token: Token) -> Iterator[Doubt]:
        """Doubt "a washer and dryer set" and "paint chipped doors"."""
        before, after = self._next(at, -1), self._next(at)
        lower = token.lower
        if isinstance(before, Mention) and before.name and lower.endswith("ed"):
            if _is_plain(before) and isinstance(after, Mention) and _is_plain(after):
                start = before.place[0]
                noun = self.called(after)
                yield self.doubt(
                    "reading", start, after.place[1],
                    f"is {self.text[start : token.place[1]]!r} a kind of {noun}?",
                    ("no", self.text),
                    ("yes", self.with_(before.place[1], token.place[0], "-")),
                )  # fmt: skip
        elif (
            token.tag == "participle"
            and verb_base(lower) == lower
            and "NOUN" in parts_of_speech(lower)
        ):
            yield self._thing_after_all(at, token)

    def _thing_after_all(self, at: int, token: Token) -> Doubt:
        start, end = token.place
        before = self._next(at, -1)
        said = self.with_(start, end, f"{article(token.lower)} {token.text}")
        if isinstance(before, Mention) and before.place[1] > 0:
            said = self.with_(before.place[1], start, "-")
        question = f"is {token.text!r} a thing?"
        return self.doubt("reading", start, end, question, ("no", self.text), ("yes", said))

    def _unclear(self, start: int, end: int, question: str) -> Doubt:
        return unsure(self.text, start, end, question)

    def _long_name(self, mention: Mention) -> Iterator[Doubt]:
        """Doubt a label that holds a plural, or ends as a picture does: "heavy weight photo"."""
        parts = mention.name.split()
        if len(parts) < 2 or not mention.name.islower() or mention.place[0] < 0:
            return
        first = parts[:-1]
        odd = [w for w in first if singular(w) != w and w not in PLURAL_MODIFIERS and "'" not in w]
        odd += [w for w in first if rough(w) in ("preposition", "clause", "auxiliary")]
        odd += [w for w in parts[-1:] if w in FRAME_NOUNS]
        if odd:
            start, end = mention.place
            yield self._unclear(start, end, f"is {mention.name!r} the name of one thing?")

    def _whose(self, mention: Mention) -> Iterator[Doubt]:
        """Doubt "a symbol with tiger's heads": with a tiger, or with such heads only."""
        owner = mention.owner
        if owner is None or not owner.name or not owner.bare or not mention.is_part:
            return
        start, end = mention.place
        said = self.text[start:end]
        like = re.sub(r"['’]s\b|(?<=s)['’]", "-like", said)
        if owner.name[:1].islower() and like != said:
            yield self.doubt(
                "reading", start, end, f"is the {owner.name} to be seen too?",
                (f"with the {owner.name}", self.text),
                (f"without the {owner.name}", self.with_(start, end, like)),
            )  # fmt: skip

    def _group_of_one(self, mention: Mention) -> Iterator[Doubt]:
        """Doubt "a group of zebra": how many are there?"""
        start, end = mention.place
        if mention.least > 1 or not mention.animate or start < 0 or mention.owner is not None:
            return
        said = self.text[start:end].split()
        groups = [w for w, of in pairwise(said) if of == "of" and GROUPS.get(w.lower(), 0) > 1]
        if groups and not mention.number:
            name = mention.name
            yield self.doubt(
                "count", start, end, f"is this one {name}, or several?",
                (f"one {name}", self.with_(start, end, f"one {name}")),
                ("several", self.with_(start, end, f"several {plural(name)}")),
            )  # fmt: skip

    def _parted(self, at: int, mention: Mention) -> Iterator[Doubt]:
        """Doubt "elephants and one is by water", and names of no dictionary: "wayne barlowe"."""
        start, end = mention.place
        if start < 0 or mention.pronoun or mention.each:
            return
        parts = mention.name.split()
        strange = len(parts) > 1 and mention.name.islower() and not any(map(is_known, parts))
        alone = not mention.name and mention.part in ("one", "others") and at > 0
        if strange or alone or (mention.name == "other" and mention.ignored):
            said = self.text[start:end]
            yield self._unclear(start, end, f"what is {said!r}?")

    # Phrases that join in two ways

    def _done_to(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a bat that he is holding in his hands": does he hold the bat?"""
        thing, doer = self._next(at, -1), self._next(at)
        if link.tag != "relative" or not isinstance(thing, Mention) or not thing.name:
            return
        if not isinstance(doer, Mention):
            return
        verb = next((one for one in self.items[at + 2 :] if has_tag(one, "verb", "ing")), None)
        if not isinstance(verb, Token) or verb.place[0] < 0 or thing.place[0] < 0:
            return
        said = ing_form(verb_base(verb.lower) or verb.lower)
        names = {item.id: item.name for item in self.scene.objects}
        done = any(said in r.predicate and names[r.target] == thing.name
                   for r in self.scene.relations)  # fmt: skip
        if not done:
            start, end = thing.place[0], verb.place[1]
            yield self._unclear(start, end, f"is the {self.called(thing)} what is meant by 'that'?")

    def _place_of(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man riding a wave on top of a board" and "a cat, a dog and a cup on a chair"."""
        near, place = self._next(at, -1), self._next(at)
        if link.tag != "preposition" or link.lower in NO_RELATION:
            return
        if not isinstance(near, Mention) or not isinstance(place, Mention) or not place.name:
            return
        if not near.name or near.ignored or place.ignored or place.place[0] < 0:
            return
        listed = self._listed(at - 1)
        if len(listed) >= _LEAST_LISTED and link.lower != "with":
            if all(self.related(one.name, place.name) for one in listed):
                yield from self._place_of_all(at, link, listed)
            return
        far = self._has_to_do_with(at - 1)
        if (
            far is None
            or (far.name == place.name and not place.new)
            or near.is_piece
            or near.is_clothes
            or place.is_part
        ):
            return
        deed = far.animate and not near.animate
        between = self._next(at, -2)
        if link.lower == "with":
            either = deed and not place.is_piece and has_tag(between, "preposition")
        elif deed:
            either = has_tag(between, "verb", "ing")
        else:
            either = not (far.animate or near.animate or near.is_scenery)
        if not either or not self.related(near.name, place.name) or place.is_scenery:
            return
        yield self._of_either(link, at, near, far)

    def _of_either(self, link: Token, at: int, near: Mention, far: Mention) -> Doubt:
        """Return the doubt of which of two things a phrase that begins at ``at`` is said."""
        start, end = link.place[0], self.end_of_clause(at)
        deed = "has" if link.lower == "with" else "is"
        skipped = link.place[1] if link.lower == "with" else start
        if link.tag == "clause":
            skipped = self.items[at].place[0]
        said = self.text[skipped:end].strip()
        choices = []
        for one in (near, far):
            called = self.called(one)
            does = {"has": "have", "is": "are"}[deed] if one.least > 1 else deed
            choices.append(
                (f"the {called}", self.apart(start, end, f"The {called} {does} {said}."))
            )
        asked = "who" if near.animate and far.animate else "what"
        return self.doubt("attachment", start, end, f"{asked} {deed} {said}?", *choices)

    def _has_to_do_with(self, at: int) -> Mention | None:
        """Return the thing before ``at`` that the scene relates to the one there."""
        near = self.items[at]
        for one in reversed(self.items[:at]):
            if not isinstance(near, Mention) or not isinstance(one, Mention) or not one.name:
                continue
            if one.name != near.name and self.related(one.name, near.name):
                return one
        return None

    def _listed(self, at: int) -> list[Mention]:
        """Return the things of the list that ends at ``at``."""
        found: list[Mention] = []
        for item in reversed(self.items[: at + 1]):
            if isinstance(item, Mention):
                found.append(item)
            elif item.tag not in ("and", "comma"):
                break
        return found if self.joined(at) else []

    def _place_of_all(self, at: int, link: Token, listed: Sequence[Mention]) -> Iterator[Doubt]:
        start, end = link.place[0], self.end_of_clause(at)
        said, last = self.text[start:end].strip(), self.called(listed[0])
        be = "are" if listed[0].least > 1 else "is"
        yield self.doubt(
            "attachment", start, end, f"what is {said}?",
            ("all of them", self.text),
            (f"the {last} only", self.apart(start, end, f"The {last} {be} {said}.")),
        )  # fmt: skip

    def _meanwhile(self, at: int, link: Token) -> Iterator[Doubt]:
        """Doubt "a man shouting into a microphone while standing on a stump"."""
        verb = self._next(at)
        if link.tag != "clause" or not isinstance(verb, Token) or verb.tag != "ing":
            return
        things = [one for one in self.items[:at] if isinstance(one, Mention) and one.name]
        if len(things) < 2 or things[0].name == things[-1].name:
            return
        main, near = things[0], things[-1]
        names = {item.id: item for item in self.scene.objects}
        doers = {names[r.source].name for r in self.scene.relations
                 if r.predicate.startswith(verb.lower)}  # fmt: skip
        doers |= {item.name for item in names.values()
                  if verb.lower in item.attributes.get("state", "").split()}  # fmt: skip
        if near.name not in doers or main.name in doers:
            return
        yield self._of_either(link, at + 1, near, main)

    def _after_text(self, at: int, quote: Token) -> Iterator[Doubt]:
        """Doubt "a volcano with the text 'MAGMA' in red": the volcano, or what is written."""
        # Right after "the words" there is nothing else that it could be said of.
        things = [one for one in self.items[: at - 1] if isinstance(one, Mention) and one.name]
        if quote.tag != "quote" or not things:
            return
        after = self._next(at)
        if has_tag(after, "comma"):
            at += 1
            after = self._next(at)
        if not has_tag(after, "preposition", "participle") or after is None or after.place[0] < 0:
            return
        start, end = after.place[0], self.end_of_clause(at + 1)
        said = self.text[start:end].strip(" .,")
        before = self._next(at, -1)
        told = isinstance(before, Token) and verb_base(before.lower) in SAYS | WRITES
        if told or (isinstance(after, Token) and verb_base(after.lower) in WRITES):
            # "Says 'STOP' on a wall", "'STOP' written on it".
            return
        yield self._unclear(
            start,
            start + len(said),
            f"is {said!r} said of the words {quote.text!r}, or of the {self.called(things[-1])}?",
        )

    def _framed(self) -> Iterator[Doubt]:
        """Doubt "a book with an illustration of a dog": a thing, or what the picture is."""
        placed = [word for word in self.words if isinstance(word, Word)]
        things = [one for one in self.items if isinstance(one, Mention) and is_thing(one)]
        if not things or things[0].place[0] < 0:
            return
        for found in re.finditer(_FRAMED, self.text):
            noun = found[2].lower()
            inside = bool(placed) and things[0].place[1] <= found.start() <= placed[-1].end
            drawn = any(noun in item.name.split() for item in self.scene.objects)
            if inside and not drawn:
                yield self._unclear(
                    found.start(1), found.end(1),
                    f"is the {noun} a thing in the picture, or the picture itself?",
                )  # fmt: skip


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
        yield from _it(text, scene, before_items, items)
        mentions = [one for one in items if isinstance(one, Mention) and is_thing(one)]
        for one in mentions:
            known = seen.get(one.name.casefold())
            if one.place[0] < 0 or one.part or one.again:
                continue
            start, end = one.place
            sentence = SaidSentence(text, (), items, scene)
            called = sentence.called(one)
            several = known is not None and known.least > 1 and (one.new or one.least > 1)
            once = known is not None and one.new and not (known.new or known.known)
            if known is not None and (several or once) and not one.known:
                if one.name in doubted:
                    continue
                doubted.add(one.name)
                merged = drawn.count(one.name) <= known.least
                meant, more = sentence.called(known), one.least > 1
                question = f"the {meant} from before, or {'others' if more else 'another'}?"
                choices: tuple[tuple[str, str], ...] = ()
                same = ("the same", sentence.with_(start, end, f"the {called}"))
                if merged and more:
                    other = sentence.with_(start, end, f"another group of {called}")
                    choices = (("the same", text), ("others", other))
                elif known.least == 1:
                    choices = (("another", text), same)
                yield sentence.doubt("reading", start, end, question, *choices)
            elif known is None and one.known and one.owner is None and is_person(one.name):
                before = [m for m in seen.values() if is_person(m.name)]
                if before:
                    meant = sentence.called(before[-1])
                    yield sentence.doubt(
                        "reading", start, end, f"is the {called} the {meant} from before?",
                        ("no", text),
                        ("yes", sentence.with_(start, end, f"the {before[-1].name}")),
                    )  # fmt: skip
        for one in mentions:
            seen.setdefault(one.name.casefold(), one)


def _it(
    text: str, scene: SceneGraph, before: Sequence[Item], items: Sequence[Item]
) -> Iterator[Doubt]:
    """Doubt "a robot with a cup for a head. It stands in a street", where it is not the robot."""
    first = items[0] if items else None
    things = [one for one in before if isinstance(one, Mention) and one.name and not one.ignored]
    if not isinstance(first, Mention) or first.pronoun != "it" or len(things) < 2:
        return
    done = next((one for one in items[1:] if isinstance(one, Mention) and one.name), None)
    names = {item.id: item.name for item in scene.objects}
    doers = {names[r.source] for r in scene.relations if done and names[r.target] == done.name}
    near = [one for one in things[1:] if one.name in doers]
    if near and things[0].name not in doers and first.place[0] >= 0:
        said = SaidSentence(text, (), items, scene)
        yield said.doubt(
            "attachment", *first.place, f"what is {first.pronoun!r}?",
            *((f"the {one.name}", said.with_(*first.place, f"the {one.name}"))
              for one in (near[0], things[0])),
        )  # fmt: skip


def _is_capital(item: Item | None) -> bool:
    return isinstance(item, Token) and item.tag == "adjective" and item.text[:1].isupper()


def _is_plain(mention: Mention) -> bool:
    """Return whether a noun phrase is nothing but its noun."""
    return mention.bare and bool(mention.name) and not mention.attributes and mention.place[0] >= 0


_OPENING = DETERMINING | {"preposition", "be", "have", "auxiliary", "and", "adjective", "ing"}


_READ_SO = "are these words read as they are meant?"


def unsure(text: str, start: int, end: int, question: str = _READ_SO) -> Doubt:
    """Return the doubt of a passage that was perhaps not read as it is meant."""
    choices = [Choice(label="as it stands", sentence=text.strip())]
    without = re.sub(r"\s*([.,;:])", r"\1", f"{text[:start].rstrip()} {text[end:].lstrip()}")
    without = without.strip(" .,;:")
    before = text[:start].split()[-1:]
    # "A", "with" and their like do not stand without what follows them.
    open_ended = any(rough(word.lower()) in _OPENING for word in before)
    if any(letter.isalpha() for letter in without) and not open_ended:
        choices.append(Choice(label="without these words", sentence=without))
    return Doubt(
        kind="reading",
        start=start,
        end=end,
        text=text[start:end],
        question=question,
        choices=tuple(choices) if len(choices) > 1 else (),
    )


def has_tag(item: Item | None, *tags: str) -> bool:
    """Return whether an item is a word with one of these tags."""
    return isinstance(item, Token) and item.tag in tags


def is_thing(mention: Mention) -> bool:
    """Return whether a mention names a thing that is no scenery."""
    named = bool(mention.name) and not mention.pronoun and not mention.ignored
    return named and mention.name.rpartition(" ")[2].lower() not in SCENERY

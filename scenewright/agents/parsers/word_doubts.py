"""Doubts of words: misspelt or counted ones, and words that join as no phrase does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile

from scenewright.agents.parsers.links import GIVES
from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.naming import misspelt
from scenewright.agents.parsers.read_sentence import ReadSentence, unsure
from scenewright.agents.parsers.spelling import is_known, parts_of_speech
from scenewright.agents.parsers.splitting import FRAME_NOUNS, Word
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    END,
    GROUPS,
    NUMBER_WORDS,
    PARTICLES,
    PLURAL_MODIFIERS,
    Token,
    rough,
    words,
)
from scenewright.core.english import article
from scenewright.core.inflection import plural, singular, verb_base
from scenewright.core.intent import Doubt

_SHARED = words("doubts", "shared")
"""Verbs with one thing for several, or one for each."""
_DEEDS = frozenset({"verb", "ing", "participle"})
_AFTER_AUXILIARY = _DEEDS | {"be", "have", "auxiliary", "adverb", "phrase"}
_POINTING = frozenset({"this", "that", "these", "those"})


class WordDoubts(ReadSentence):
    """Doubts of the words and the numbers of a sentence."""

    def misspelt(self) -> Iterator[Doubt]:
        """Doubt words that are in no dictionary."""
        for word in self.words:
            known = misspelt(word) if isinstance(word, Word) else ""
            if isinstance(word, Word) and parts_of_speech(known) & {"NOUN", "ADJ"}:
                yield self.doubt(
                    "word", word.start, word.end, f"is {known!r} meant by {str(word)!r}?",
                    (f"{word}, as written", self.text),
                    (known, re.sub(rf"\b{re.escape(word)}\b", known, self.text)),
                )  # fmt: skip

    # Numbers

    def number_of_each(self, at: int, counted: Mention) -> Iterator[Doubt]:
        """Doubt "two dogs and cats"."""
        other = self.peek(at + 2)
        if self.peek(at + 1).tag != "and" or not isinstance(other, Mention) or counted.part:
            return
        if not other.bare or other.least < 2 or other.attributes:
            return
        start, end = other.place
        spelt = NUMBER_WORDS[counted.number - 1 : counted.number] if counted.number else ()
        number, name = spelt[0] if spelt else str(counted.number), self.text[start:end]
        yield self.doubt(
            "count", counted.place[0], end, f"{number} in all, or {number} of each?",
            (f"{number} {plural(counted.name)}", self.with_(start, end, f"some {name}")),
            (f"{number} of each", self.with_(start, end, f"{number} {name}")),
        )  # fmt: skip

    def one_for_each(self, at: int, counted: Mention) -> Iterator[Doubt]:
        """Doubt "three women holding a sign"."""
        after = [one for one in self.items[at + 1 : at + 4] if one.tag not in ("be", "relative")]
        verb, held = [*after, END, END][:2]
        if not isinstance(verb, Token) or not isinstance(held, Mention):
            return
        if verb_base(verb.lower) not in _SHARED or not held.new or held.number or not held.name:
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

    def number_of_colors(self, counted: Mention) -> Iterator[Doubt]:
        """Doubt "two red and blue balls"."""
        color = next((value for key, value in counted.attributes if key == "color"), "")
        colors = color.split(" and ")
        if len(colors) != 2 or counted.number != 2:
            return
        start, end = counted.place
        one, many = singular(counted.name), plural(counted.name)
        told_apart = " and ".join(f"{article(each)} {each} {one}" for each in colors)
        yield self.doubt(
            "count", start, end,
            f"are both {color}, or is one {colors[0]} and the other {colors[1]}?",
            (f"both are {color}", self.with_(start, end, f"two {many} that are each {color}")),
            (f"one {colors[0]}, one {colors[1]}", self.with_(start, end, told_apart)),
        )  # fmt: skip

    def group_of_one(self, mention: Mention) -> Iterator[Doubt]:
        """Doubt "a group of zebra": how many are there?"""
        if mention.least > 1 or not mention.animate or mention.owner is not None or mention.number:
            return
        start, end = mention.place
        said = self.text[start:end].split()
        if any(of == "of" and GROUPS.get(word.lower(), 0) > 1 for word, of in pairwise(said)):
            name = mention.name
            yield self.doubt(
                "count", start, end, f"is this one {name}, or several?",
                (f"one {name}", self.with_(start, end, f"one {name}")),
                ("several", self.with_(start, end, f"several {plural(name)}")),
            )  # fmt: skip

    # Words that join as no phrase does

    def side_by_side(self, at: int, first: Mention) -> Iterator[Doubt]:
        """Doubt "a lady wearing red playing tennis" and "a panda mad scientist"."""
        second, before = self.peek(at + 1), self.peek(at - 1)
        if not isinstance(second, Mention) or second.pronoun or not second.name or not first.name:
            return
        given = isinstance(before, Token) and verb_base(before.lower) in GIVES
        if given or self.peek(at + 2).tag in ("verb", "be", "have", "auxiliary"):
            return
        start, end = first.place[0], second.place[1]
        one, other = self.text[slice(*first.place)], self.text[slice(*second.place)]
        yield self.doubt(
            "reading", start, end, f"how do {one!r} and {other!r} belong together?",
            ("as it stands", self.text),
            ("two things", self.with_(start, end, f"{one} and {other}")),
        )  # fmt: skip

    def misfit(self, at: int, token: Token) -> Iterator[Doubt]:
        """Doubt a word that does not go with the next one as what it was taken for."""
        before, after = self.peek(at - 1), self.peek(at + 1)
        start, end = token.place
        lower, text = token.lower, token.text
        told = {one.tag for one in self.items[:at]}
        match token.tag:
            case "auxiliary":
                if after.tag not in _AFTER_AUXILIARY and rough(lower) == "auxiliary":
                    yield self._thing_after_all(before, token)
            case "preposition":
                leads = after.tag in ("and", "comma") and before.tag not in _DEEDS
                if isinstance(after, Mention) and not after.name and after.ignored:
                    leads = self.text[slice(*after.place)].lower() in _POINTING
                    end = after.place[1]
                if leads:
                    yield self.unclear(start, end, f"what does {self.text[start:end]!r} lead to?")
            case "verb" | "participle" if before.tag not in ("be", "auxiliary"):
                named = isinstance(before, Mention) and bool(before.name)
                base = token.tag == "participle" and verb_base(lower) == lower
                if isinstance(before, Mention) and named and lower.endswith("ed"):
                    # "Paint chipped doors".
                    if _is_plain(before) and isinstance(after, Mention) and _is_plain(after):
                        start, noun = before.place[0], self.called(after)
                        yield self.doubt(
                            "reading", start, after.place[1],
                            f"is {self.text[start:end]!r} a kind of {noun}?",
                            ("no", self.text),
                            ("yes", self.with_(before.place[1], token.place[0], "-")),
                        )  # fmt: skip
                elif base and "NOUN" in parts_of_speech(lower):
                    # "A washer and dryer set".
                    yield self._thing_after_all(before, token)
            case "ing" if isinstance(after, Mention) and _is_plain(after):
                listed = before.tag in ("and", "comma") and not told & (_DEEDS | {"be"})
                if listed or before.tag == "ing":
                    noun = self.called(after)
                    yield self.doubt(
                        "reading", start, after.place[1],
                        f"is {text!r} what is being done, or a kind of {noun}?",
                        ("what is being done", self.text),
                        (f"a kind of {noun}", self.with_(start, end + 1, f"{text}-")),
                    )  # fmt: skip
            case "adjective" if before is not END and text[:1].isupper():
                end = [one.place[1] for one in takewhile(_is_capital, self.items[at:])][-1]
                if not _is_capital(before):
                    yield self.unclear(start, end, f"is {self.text[start:end]!r} a name?")
            case "adjective" if "be" not in told:
                first = self.peek(at - 2)
                tells = isinstance(first, Mention) and first.name.lower() not in ADJECTIVES
                listed = before.tag == "comma" and after.tag == "and"
                if before is END or (listed and tells):
                    yield self.unclear(start, end, f"what is {text}?")
            case "adverb" if isinstance(before, Mention) and before.name:
                named = "NOUN" in parts_of_speech(lower) and not lower.endswith("ly")
                ends = after.tag in ("end", "comma", "and")
                if named and not ends and lower not in PARTICLES:
                    start = before.place[0]
                    yield self.doubt(
                        "reading", start, end,
                        f"is {text!r} part of the name of the {self.called(before)}?",
                        ("no", self.text),
                        ("yes", self.with_(before.place[1], token.place[0], "-")),
                    )  # fmt: skip

    def _thing_after_all(self, before: Item, token: Token) -> Doubt:
        start, end = token.place
        said = self.with_(start, end, f"{article(token.lower)} {token.text}")
        if isinstance(before, Mention):
            said = self.with_(before.place[1], start, "-")
        question = f"is {token.text!r} a thing?"
        return self.doubt("reading", start, end, question, ("no", self.text), ("yes", said))

    def unclear(self, start: int, end: int, question: str) -> Doubt:
        """Return the doubt of a passage that may be left out."""
        return unsure(self.text, start, end, question)

    # Names

    def long_name(self, mention: Mention) -> Iterator[Doubt]:
        """Doubt a label that holds a plural, or ends as a picture does: "heavy weight photo"."""
        parts = mention.name.split()
        odd = bool(parts) and parts[-1] in FRAME_NOUNS
        odd = odd or any(
            (singular(word) != word and word not in PLURAL_MODIFIERS and "'" not in word)
            or rough(word) in ("preposition", "clause", "auxiliary")
            for word in parts[:-1]
        )
        if odd and len(parts) > 1 and mention.name.islower():
            yield self.unclear(*mention.place, f"is {mention.name!r} the name of one thing?")

    def owner(self, mention: Mention) -> Iterator[Doubt]:
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

    def strange(self, at: int, mention: Mention) -> Iterator[Doubt]:
        """Doubt "elephants and one is by water", and names of no dictionary: "wayne barlowe"."""
        if mention.pronoun or mention.each:
            return
        parts = mention.name.split()
        strange = len(parts) > 1 and mention.name.islower() and not any(map(is_known, parts))
        alone = not mention.name and mention.part in ("one", "others") and at > 0
        if strange or alone or (mention.name == "other" and mention.ignored):
            said = self.text[slice(*mention.place)]
            yield self.unclear(*mention.place, f"what is {said!r}?")


def _is_capital(item: Item) -> bool:
    return isinstance(item, Token) and item.tag == "adjective" and item.text[:1].isupper()


def _is_plain(mention: Mention) -> bool:
    """Return whether a noun phrase is nothing but its noun."""
    return mention.bare and bool(mention.name) and not mention.attributes

"""The classes of prompts (PSG-Bench, supplement A.2 and Table 6), and rules that find them.

Each prompt has one category and one challenge, even where several would fit: PEOPLE goes before
everything, a proper noun makes WORLD KNOWLEDGE and not ARTS, and of the rest the rarer one counts.
An artist's or a style's name is no such proper noun: the paper has a raccoon "in the style of
Vincent van Gogh" under ARTS, and a street in Paris under WORLD KNOWLEDGE.

The rules know words (``prompt_classes.toml``) and no meaning: they are for where no language model
is at hand, and say so in what they give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from scenewright.core.plurals import singular
from scenewright.core.word_lists import read_data

RULES_VERSION = 1
"""Raised when the rules classify otherwise."""
CATEGORIES = (
    *("PEOPLE", "ARTS", "WORLD KNOWLEDGE", "ILLUSTRATIONS", "ABSTRACT"),
    *("ANIMALS", "VEHICLES", "OUTDOOR SCENES", "OTHER"),
)
"""PEOPLE, then the rarer first; ARTS only where no proper noun makes it WORLD KNOWLEDGE."""
CHALLENGES = (
    *("WORLD KNOWLEDGE", "ABSTRACT", "LINGUISTIC STRUCTURES"),
    *("IMAGINATION", "QUANTITY", "COMPLEX", "NONE"),
)
"""The rarer first; NONE if nothing about a prompt is hard."""
EXAMPLES: dict[str, str] = {
    "IMAGINATION": "A cat is flying.",
    "QUANTITY": "5 apples are placed on the dining table.",
    "COMPLEX": "A Renaissance-style oil painting of a deer resting beneath an ancient oak tree.",
    "LINGUISTIC STRUCTURES": "A t-shirt with 'NERD'",
    "WORLD KNOWLEDGE": "Eiffel Tower in Paris",
    "ABSTRACT": "'300'; '101'; 'the golden ratio'; the 'Fibonacci number'",
}
"""Challenge → an example of Table 6."""
MANY_WORDS = 8
"""Words that carry meaning from which on a prompt is COMPLEX: Table 6's shortest one has as
many."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d+")
_QUOTED = re.compile(r"(?<!\w)['\u2018\u201c\"]([^'\u2019\u201d\"]+)['\u2019\u201d\"](?!\w)")
_STYLE_OF = re.compile(
    r"\b(?:style of|painted by|drawn by|by)\s+(?:[A-Z][\w'-]*|van|de|da|von)(?:\s+(?:[A-Z][\w'-]*"
    r"|van|de|da|von))*"
)
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class Classes:
    """What a prompt is."""

    category: str
    """One of :data:`CATEGORIES`; empty if it is unclassified."""
    challenge: str
    """One of :data:`CHALLENGES`; empty if it is unclassified."""
    by: str
    """``rules@1`` or the language model."""
    note: str = ""
    """Why it is unclassified, or which rule changed the model's answer."""


@cache
def _data() -> Mapping[str, Any]:
    return read_data("scenewright.agents.parsers", "prompt_classes.toml")


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(str(_data()[name]).split())


def _forms(name: str) -> list[str]:
    found: list[str] = _data()[name]
    return found


def classify(prompt: str) -> Classes:
    """The classes of ``prompt`` by the rules."""
    read = _Read.of(prompt)
    return Classes(read.category(), read.challenge(), f"rules@{RULES_VERSION}")


def with_precedence(found: Classes, prompt: str) -> Classes:
    """``found`` by a model, where the paper's precedence does not speak against it.

    A prompt that names people is PEOPLE; ARTS with a proper noun is WORLD KNOWLEDGE.
    """
    read = _Read.of(prompt)
    wanted, why = found.category, ""
    if found.category != "PEOPLE" and (person := read.first("people")):
        wanted, why = "PEOPLE", f"PEOPLE goes first: {person!r}"
    elif found.category == "ARTS" and (name := read.proper_noun):
        wanted, why = "WORLD KNOWLEDGE", f"a proper noun goes before ARTS: {name!r}"
    if wanted == found.category:
        return found
    return Classes(wanted, found.challenge, found.by, f"{why}; the model said {found.category}")


@dataclass(frozen=True)
class _Read:
    """A prompt, taken apart."""

    text: str
    """In small letters, single spaces."""
    words: tuple[str, ...]
    """In small letters and the singular, without what stands in quotation marks."""
    quoted: tuple[str, ...]
    """What stands in quotation marks."""
    proper_noun: str
    """The first name of something in the world; empty if there is none."""

    @classmethod
    def of(cls, prompt: str) -> _Read:
        text = " ".join(prompt.split())
        bare = _QUOTED.sub(" ", text)
        words = tuple(singular(w) for w in map(str.casefold, _WORD.findall(bare)))
        quoted = tuple(match.strip() for match in _QUOTED.findall(text))
        return cls(text.casefold(), words, quoted, _proper_noun(bare))

    def first(self, name: str) -> str:
        """The first word of the list; empty if the prompt has none of it."""
        wanted = _words(name)
        return next((word for word in self.words if word in wanted), "")

    def says(self, name: str) -> bool:
        return any(form in self.text for form in _forms(name))

    def category(self) -> str:
        if self.first("people"):
            return "PEOPLE"
        art = self.says("art_forms") or (self.first("arts") not in ("", *_words("art_things")))
        if self.proper_noun:
            return "WORLD KNOWLEDGE"
        if art:
            return "ARTS"
        if self.first("illustrations"):
            return "ILLUSTRATIONS"
        if self.is_abstract():
            return "ABSTRACT"
        if self.first("animals") and not self.first("places_of_animals"):
            return "ANIMALS"
        if self.first("vehicles"):
            return "VEHICLES"
        return "OUTDOOR SCENES" if self.first("outdoor") else "OTHER"

    def is_abstract(self) -> bool:
        """Ideas, or numbers shown as such."""
        return self.says("abstract_forms") or any(text.isdigit() for text in self.quoted)

    def challenge(self) -> str:
        if self.proper_noun:
            return "WORLD KNOWLEDGE"
        if self.is_abstract():
            return "ABSTRACT"
        if any(re.search(r"[A-Za-z]", text) for text in self.quoted):
            return "LINGUISTIC STRUCTURES"
        if self.is_unreal():
            return "IMAGINATION"
        if any(w in _words("numbers") or (w.isdigit() and int(w) > 1) for w in self.words):
            return "QUANTITY"
        meaning = [word for word in self.words if word not in _words("stop")]
        return "COMPLEX" if len(meaning) >= MANY_WORDS else "NONE"

    def is_unreal(self) -> bool:
        """What cannot be, as far as words show: a cat that flies."""
        if self.says("imagination_forms"):
            return True
        acts = [word for word in self.words if word in _words("human_acts")]
        if not acts or self.first("people"):
            return False
        doers = self.first("animals") or self.first("vehicles")
        return bool(doers) and not (acts == ["flying"] and bool(self.first("flies")))


def _proper_noun(text: str) -> str:
    """A capital within a sentence, or a place known by name; styles and artists are none."""
    without = _STYLE_OF.sub(" ", text)
    for sentence in _SENTENCE.split(without):
        for at, match in enumerate(_WORD.finditer(sentence)):
            word = match.group()
            plain = word.casefold().removesuffix("'s")
            if plain in _words("style_names") or plain.endswith("-style"):
                continue
            if plain in _words("landmarks"):
                return word
            named = at > 0 and word[:1].isupper() and not word.isupper() and len(word) > 1
            if named and plain not in _words("stop"):
                return word
    return ""

"""Classes of prompts (PSG-Bench) and of scenes (Scene-Bench), found by rules.

Each prompt has one category and one challenge (PSG-Bench, supplement A.2 and Table 6), even where
several would fit: PEOPLE has precedence, a proper noun makes WORLD KNOWLEDGE rather than ARTS, and
of the rest the rarer one counts. An artist's or a style's name is no such proper noun: the paper
has a raccoon "in the style of Vincent van Gogh" under ARTS, and a street in Paris under WORLD
KNOWLEDGE. The rules know words (``prompt_classes.toml``), not meanings; they are for use without a
language model, and mark their results.

Scenes have a group and a category by their content (Scene-Bench, appendix A). The paper asks a
language model; these rules use the names of objects and predicates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from scenewright.agents.parsers.tagging import is_person
from scenewright.core.inflection import read_data, singular
from scenewright.core.scene import SceneGraph

RULES_VERSION = 1
"""Raised when the rules classify otherwise."""
PROMPT_CATEGORIES = (
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
"""Fewest content words of a COMPLEX prompt, as in the shortest example of Table 6."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d+")
_QUOTED = re.compile(r"(?<!\w)['\u2018\u201c\"]([^'\u2019\u201d\"]+)['\u2019\u201d\"](?!\w)")
_STYLE_OF = re.compile(
    r"\b(?:style of|painted by|drawn by|by)\s+(?:[A-Z][\w'-]*|van|de|da|von)(?:\s+(?:[A-Z][\w'-]*"
    r"|van|de|da|von))*"
)
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class Classes:
    """Classes of a prompt."""

    category: str
    """One of :data:`PROMPT_CATEGORIES`; empty if it is unclassified."""
    challenge: str
    """One of :data:`CHALLENGES`; empty if it is unclassified."""
    by: str
    """``rules@1`` or the language model."""
    note: str = ""
    """Why it is unclassified, or the rule that changed the model's answer."""


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
    """Return the classes of ``prompt`` by the rules."""
    read = _Read.of(prompt)
    return Classes(read.category(), read.challenge(), f"rules@{RULES_VERSION}")


def with_precedence(found: Classes, prompt: str) -> Classes:
    """Return a model's classes ``found``, corrected by the paper's precedence.

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
    """A prompt in parts."""

    text: str
    """In small letters, single spaces."""
    words: tuple[str, ...]
    """In small letters and the singular, without texts in quotation marks."""
    quoted: tuple[str, ...]
    """Texts in quotation marks."""
    proper_noun: str
    """First proper noun; empty if there is none."""

    @classmethod
    def of(cls, prompt: str) -> _Read:
        text = " ".join(prompt.split())
        bare = _QUOTED.sub(" ", text)
        words = tuple(singular(w) for w in map(str.casefold, _WORD.findall(bare)))
        quoted = tuple(match.strip() for match in _QUOTED.findall(text))
        return cls(text.casefold(), words, quoted, _proper_noun(bare))

    def first(self, name: str) -> str:
        """Return the first of the list's words in the prompt; empty if there is none."""
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
        """Return whether the prompt shows ideas, or numbers as such."""
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
        """Return words that contradict each other, such as a cat that flies; else empty."""
        if self.says("imagination_forms"):
            return True
        acts = [word for word in self.words if word in _words("human_acts")]
        if not acts or self.first("people"):
            return False
        doers = self.first("animals") or self.first("vehicles")
        return bool(doers) and not (acts == ["flying"] and bool(self.first("flies")))


def _proper_noun(text: str) -> str:
    """Return a capitalised word within a sentence, or a known place, but no style or artist."""
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


PEOPLE = "People-Centric"
OTHERS = "Non-People-Centric"
SCENE_CATEGORIES: dict[str, tuple[str, ...]] = {
    PEOPLE: (
        *("Social Interaction", "Individual Activities", "Work/Occupation"),
        *("Travel/Exploration", "Sports & Recreation", "Performance/Entertainment", "Daily Life"),
    ),
    OTHERS: ("Nature", "Urban/Built", "Objects", "Abstract/Artistic"),
}
"""First level → second level, as the paper names them."""
BESIDE_PEOPLE: dict[str, frozenset[str]] = {
    "Sports & Recreation": frozenset({"ball"}),
    "Individual Activities": frozenset({"hat", "umbrella", "tree"}),
    "Travel/Exploration": frozenset({"car", "boat"}),
    "Work/Occupation": frozenset({"table", "lamp"}),
    "Daily Life": frozenset({"house", "dog", "cat"}),
}
"""Class → things that indicate it beside one person."""
ALONE: dict[str, frozenset[str]] = {
    "Urban/Built": frozenset({"house", "car"}),
    "Nature": frozenset({"tree", "dog", "cat", "boat"}),
    "Objects": frozenset({"ball", "table", "lamp", "umbrella", "hat"}),
}
"""Class → things that indicate it without a person."""


def diversity(scene: SceneGraph) -> tuple[str, str]:
    """Return (group, category) of ``scene``."""
    people = {item.id for item in scene.objects if is_person(item.name)}
    if not people:
        return OTHERS, _most(scene, ALONE, "Objects")
    if len(people) > 1:
        return PEOPLE, "Social Interaction"
    if any(r.predicate == "riding" and r.source in people for r in scene.relations):
        return PEOPLE, "Travel/Exploration"
    return PEOPLE, _most(scene, BESIDE_PEOPLE, "Individual Activities")


def _most(scene: SceneGraph, classes: dict[str, frozenset[str]], otherwise: str) -> str:
    names = [item.name.casefold() for item in scene.objects]
    votes = {said: sum(name in things for name in names) for said, things in classes.items()}
    best = max(votes, key=lambda said: votes[said])
    return best if votes[best] else otherwise

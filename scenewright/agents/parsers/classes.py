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
_DATA: Mapping[str, Any] = read_data("scenewright.agents.parsers", "prompt_classes.toml")
PROMPT_CATEGORIES: tuple[str, ...] = tuple(_DATA["categories"])
"""PEOPLE, then the rarer first; ARTS only where no proper noun makes it WORLD KNOWLEDGE."""
CHALLENGES: tuple[str, ...] = tuple(_DATA["challenges"])
"""The rarer first; NONE if nothing about a prompt is hard."""
EXAMPLES: dict[str, str] = _DATA["examples"]
"""Challenge → an example of Table 6."""
SCENE_CATEGORIES: dict[str, tuple[str, ...]] = {
    group: tuple(names) for group, names in _DATA["scenes"].items()
}
"""First level → second level, as the paper names them."""
PEOPLE, OTHERS = SCENE_CATEGORIES
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
def _words(name: str) -> frozenset[str]:
    return frozenset(str(_DATA[name]).split())


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
        return any(form in self.text for form in _DATA[name])

    def category(self) -> str:
        if self.first("people"):
            return "PEOPLE"
        art = self.says("art_forms") or self.first("arts") not in ("", *_words("art_things"))
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


def diversity(scene: SceneGraph) -> tuple[str, str]:
    """Return (group, category) of ``scene``."""
    people = {item.id for item in scene.objects if is_person(item.name)}
    if not people:
        return OTHERS, _most(scene, "alone", "Objects")
    if len(people) > 1:
        return PEOPLE, "Social Interaction"
    if any(r.predicate == "riding" and r.source in people for r in scene.relations):
        return PEOPLE, "Travel/Exploration"
    return PEOPLE, _most(scene, "beside_people", "Individual Activities")


def _most(scene: SceneGraph, table: str, otherwise: str) -> str:
    """Return the class of a table of which the scene names most things."""
    names = [item.name.casefold() for item in scene.objects]
    votes = {said: sum(map(names.count, words.split())) for said, words in _DATA[table].items()}
    best = max(votes, key=lambda said: votes[said])
    return best if votes[best] else otherwise

"""Facts and questions as DSG and TIFA publish them.

A tuple of the Davidsonian Scene Graph (Cho et al., ICLR 2024) states one fact: ``entity - part
(man's hat)``, ``attribute - color (hat, red)``, ``relation - spatial (man, bench, on)``, that is a
broad kind, a kind, and parts between commas; ``global - style (oil painting)`` is about the whole
picture. TIFA (Hu et al., 2023) publishes questions with types
of elements, choices and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from scenewright.core.intent import GlobalKind

GLOBALS: Mapping[str, GlobalKind] = {
    **{kind: kind for kind in get_args(GlobalKind)},
    **dict.fromkeys(("resolution", "detail"), "quality"),
    "creator": "artist",
    "aspect ratio": "aspect",
    "lighting": "light",
}
"""Kind of a tuple → the kind of what it says of the whole picture."""
ASIDE = frozenset(
    {"style", "artist", "resolution", "detail", "aspect", "aspect ratio", "seed", "lighting"}
    | {"font", "creator", "quality", "text rendering", "count", "width", "height", "part"}
)
"""Attribute kinds that describe how the picture is made, or repeat a count."""
_TUPLE = re.compile(r"\s*(\w+) - ([^(]+?)\s*\((.*)\)\s*", re.DOTALL)
_OWNER = re.compile(r"^(.*(?:'s|s'|’s|s’))\s+(\S.*)$")
_POSSESSIVE = re.compile(r"^(?:the|a|an|their|his|her|its|your|my|our)\s+", re.IGNORECASE)
_POSSESSIVE_END = re.compile(r"(?:'s|’s|(?<=s)['’])$")


@dataclass(frozen=True, slots=True)
class Proposition:
    """One tuple."""

    broad: str
    """``entity``, ``attribute``, ``relation``, ``action``, ``global`` or ``other``."""
    kind: str
    """``whole``, ``color``, ``spatial``, …; empty or ``-`` where there is none."""
    parts: tuple[str, ...]
    """Parts between the commas; none is empty."""


def read_tuple(text: str) -> Proposition | None:
    """Return the tuple in ``text``; none if it has not the form of one."""
    match = _TUPLE.fullmatch(text)
    if match is None:
        return None
    parts = tuple(part.strip() for part in match[3].split(", ") if part.strip())
    return Proposition(match[1], match[2].strip(), parts)


def label(name: str) -> str:
    """Return a label without owners and articles: ``the man's left arm`` is ``left arm``."""
    while True:
        found = _OWNER.match(name)
        if found is None:
            return _POSSESSIVE.sub("", name)
        name = found[2]


def owner(name: str) -> str:
    """Return the label of the owner that ``name`` begins with, ``man`` for ``the man's hat``.

    Empty if it names none.
    """
    found = _OWNER.match(name)
    return label(_POSSESSIVE_END.sub("", found[1])) if found else ""


TYPES = (
    *("object", "animal", "human", "food", "activity", "attribute", "counting", "color"),
    *("material", "spatial", "location", "shape", "other"),
)
"""Types of elements; an animal or a human is ``animal/human``, as in the release."""
YES_OR_NO = ("yes", "no")
NUMBERS = {
    word: str(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
"""Word → its digits among the choices."""
_ASKED = re.compile(r"Question: (?P<question>.*) Choices: (?P<choices>.*)\. Answer:", re.DOTALL)


def read_choices(asked: str) -> tuple[str, tuple[str, ...]]:
    """Return question and choices of ``Question: … Choices: a, b. Answer:``.

    Any other text is the question, without choices.
    """
    found = _ASKED.fullmatch(asked.strip())
    if found is None:
        return asked.strip(), ()
    return found["question"], tuple(found["choices"].split(", "))

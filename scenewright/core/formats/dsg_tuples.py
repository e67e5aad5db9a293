"""The tuples of the Davidsonian Scene Graph (Cho et al., ICLR 2024), one fact each.

``entity - part (man's hat)``, ``attribute - color (hat, red)``,
``relation - spatial (man, bench, on)``: a broad kind, a kind, and parts between commas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ASIDE = frozenset(
    {"style", "artist", "resolution", "detail", "aspect", "aspect ratio", "seed", "lighting"}
    | {"font", "creator", "quality", "text rendering", "count", "width", "height", "part"}
)
"""Kinds of attributes that are no attribute of a thing: they say how the picture is made, or
repeat a count."""
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
    """What stands between the commas; none is empty."""


def read_tuple(text: str) -> Proposition | None:
    """The tuple in ``text``; none if it has not the form of one."""
    match = _TUPLE.fullmatch(text)
    if match is None:
        return None
    parts = tuple(part.strip() for part in match[3].split(", ") if part.strip())
    return Proposition(match[1], match[2].strip(), parts)


def label(name: str) -> str:
    """A label without owners and articles: ``the man's left arm`` is ``left arm``."""
    while True:
        found = _OWNER.match(name)
        if found is None:
            return _POSSESSIVE.sub("", name)
        name = found[2]


def owner(name: str) -> str:
    """The label of the owner that ``name`` begins with, ``man`` for ``the man's hat``; empty if
    it names none."""
    found = _OWNER.match(name)
    return label(_POSSESSIVE_END.sub("", found[1])) if found else ""

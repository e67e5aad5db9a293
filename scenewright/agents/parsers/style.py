"""Style: what says how a picture is made and not what it shows is set aside.

"An oil painting of", "highly detailed, trending on artstation", "by NAME", "in the style of".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scenewright.agents.parsers.lexicon import LEAD_ADJECTIVES, LEADS, SITES, STYLE, rough
from scenewright.core.plurals import singular

_MAKERS = frozenset({"by", "art", "artwork", "style", "inspired"})

_YEARS = re.compile(r"[0-9]+(?:st|nd|rd|th|s)?")


def without_style(words: Sequence[str]) -> list[str]:
    """``words`` of a sentence without its phrases of style; commas stay between what is left."""
    kept: list[str] = []
    names = False
    for at, fragment in enumerate(_fragments(words)):
        if names and all(rough(word.lower()) in ("noun", "and") for word in fragment):
            continue
        rest = _without_maker(_without_lead(fragment))
        names = names or (len(fragment) > len(rest) and "by" in map(str.lower, fragment))
        if not rest or _is_style(rest, first=at == 0):
            continue
        if kept:
            kept.append(",")
        kept.extend(rest)
    return kept


def _fragments(words: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            found.append([])
        else:
            found[-1].append(word)
    return [fragment for fragment in found if fragment]


def _without_lead(words: list[str]) -> list[str]:
    """Without "a photo of" at its beginning."""
    named = False
    for at, word in enumerate(words):
        lower = word.lower()
        if lower in LEADS or singular(lower) in LEADS:
            named = True
        elif named and lower in ("of", "showing", "shows", "depicting", "from", "featuring"):
            return words[at + 1 :]
        elif lower not in LEAD_ADJECTIVES and not _YEARS.fullmatch(lower):
            break
    return words


def _without_maker(words: list[str]) -> list[str]:
    """Without "by NAME" and "in the style of NAME" at its end."""
    lower = [word.lower() for word in words]
    for at, word in enumerate(lower):
        if word == "by" and at + 1 < len(words):
            named = words[at + 1][:1].isupper() and rough(lower[at + 1]) == "noun"
            if named and (at == 0 or rough(lower[at - 1]) not in ("participle", "ing", "be")):
                return words[:at]
            if at == 0 or lower[at - 1] in STYLE:
                return words[:at]
        if lower[at : at + 4] == ["in", "the", "style", "of"] or lower[at : at + 2] == [
            "style",
            "of",
        ]:
            return words[:at]
        if lower[at : at + 3] == ["in", "style", "of"]:
            return words[:at]
    return words


def _is_style(words: Sequence[str], first: bool) -> bool:
    lower = [word.lower() for word in words]
    if not first and lower[0] in SITES:
        return True
    if any(rough(word) in ("article", "possessive", "be", "ing") for word in lower):
        return False
    style = [word in STYLE or singular(word) in STYLE for word in lower]
    small = [
        rough(word) in ("adverb", "preposition", "and", "number", "adjective") for word in lower
    ]
    if all(s or m for s, m in zip(style, small, strict=True)) and any(style):
        return True
    if first:
        return False
    return style[-1] or lower[0] in _MAKERS or any(word in SITES for word in lower)

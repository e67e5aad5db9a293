"""Wishes for the whole picture in English: how a prompt says them, and how they are asked about."""

from __future__ import annotations

import re

from scenewright.core.english import LISTS, article
from scenewright.core.inflection import is_plural, singular
from scenewright.core.intent import Exclusion, Global

_PICTURES = LISTS.words("wishes", "pictures")
_BARE_PICTURES = LISTS.words("wishes", "bare_pictures")
_DAYS = LISTS.words("wishes", "days")
_TIMES = LISTS.words("wishes", "times")
_MOODS = LISTS.words("wishes", "moods")
_SETTINGS = LISTS.words("wishes", "settings")
_LOWERED = 3
"""Longest word in capitals that is an abbreviation: "CCTV" and "3D" are, "PHOTO" is not."""


def picture_phrase(wish: Global) -> str:
    """Return ``an oil painting`` where a wish names a picture that shows the rest, else nothing."""
    words = wish.text.split()
    if wish.kind not in ("medium", "view", "style", "artist") or not words:
        return ""
    first, last = words[0].casefold(), words[-1].casefold()
    # "Painting in the style of birth of venus painting" names its picture first.
    if first in _SETTINGS or first in ("by", "shot") or any(w in ("by", "in", "of") for w in words):
        return ""
    if last in _BARE_PICTURES:
        return _uncapitalised(wish.text)
    if singular(last) in _PICTURES:
        said = _uncapitalised(wish.text)
        return said if is_plural(last) else f"{article(said)} {said}"
    return ""


def _uncapitalised(text: str) -> str:
    """Return the words of a caption's beginning as they stand inside a sentence."""
    first, _, rest = text.partition(" ")
    common = singular(first.casefold()) in _PICTURES | _BARE_PICTURES
    shouted = first.isupper() and first.isalpha() and (not rest or rest.isupper())
    if common or (shouted and len(first) > _LOWERED):
        first = first.lower()
    elif rest and first[:1].isupper() and first[1:].islower() and not rest[:1].isupper():
        # "Vector illustration" begins a caption; "Victorian painting" is a name.
        first = first if first.endswith(("ian", "ish", "ese", "an")) else first.lower()
    return f"{first} {rest}".strip()


def as_said(wish: Global) -> str:
    """Return a wish as it goes on inside a sentence."""
    known = wish.kind in ("medium", "view") or (wish.kind == "style" and not wish.text.isupper())
    return _uncapitalised(wish.text) if known else _lower_first(wish.text)


_OPENING = re.compile(
    r"(?:(?:and|but|with|there\s+(?:is|are|should\s+be|must\s+be))\s+)+(?=no\b|without\b|not\b)",
    re.IGNORECASE,
)


def goes_on(text: str) -> bool:
    """Return whether a phrase goes on without a comma: "at night", "from above"."""
    return text.partition(" ")[0].casefold() in _SETTINGS | {"without"}


def exclusion_phrase(excluded: Exclusion) -> str:
    """Return what must not be there as a phrase: "no people" of "and there are no people"."""
    return _OPENING.sub("", excluded.text, count=1)


def wish_question(wish: Global) -> str:
    """Return the question whether a picture is as wished.

    >>> wish_question(Global(kind="medium", text="oil painting"))
    'Is the image an oil painting?'
    >>> wish_question(Global(kind="artist", text="by Van Gogh"))
    'Is the image in the style of Van Gogh?'
    >>> wish_question(Global(kind="time", text="at night"))
    'Is it night in the image?'
    """
    text = " ".join(wish.text.split())
    picture = picture_phrase(wish)
    if picture:
        return f"Is the image {picture}?"
    first, _, rest = text.partition(" ")
    low = first.casefold()
    if wish.kind in ("medium", "style", "artist", "quality") or "style" in text.split():
        return _style_question(wish, text)
    if wish.kind == "view" and low == "from":
        return f"Is the scene seen {text}?"
    if wish.kind in ("time", "weather"):
        return _setting_question(wish, rest if low in _SETTINGS and rest else text)
    if wish.kind == "light":
        shown = f"the scene {text}" if low in _SETTINGS else text
        return f"Does the image show {_lower_first(shown)}?"
    if wish.kind == "mood":
        if low in _SETTINGS:
            return _style_question(wish, text)
        if text.split()[-1].casefold() in _MOODS:
            return f"Does the image have {article(text)} {_lower_first(text)}?"
        return f"Is the mood of the image {_lower_first(text)}?"
    if low in _SETTINGS or low == "shot":
        return f"Is the image {_lower_first(text)}?"
    return f'Does "{text}" describe the {wish.kind} of the image?'


def _style_question(wish: Global, text: str) -> str:
    low = text.casefold()
    made = re.search(r"(?:^|\s)by\s+(.+)", text, re.IGNORECASE)
    if wish.kind == "artist" and made is not None:
        return f"Is the image in the style of {made[1]}?"
    style = re.search(r"\bin (?:the|an?) .*\bstyle\b.*|\bin .+ style$", text, re.IGNORECASE)
    if style is not None:
        return f"Is the image {_lower_first(style[0])}?"
    if low.endswith("style"):
        return f"Is the image in {article(text)} {text}?"
    if low.split()[0] in _SETTINGS or re.match(r"\w+(?:ed|n) (?:in|with|by|on)\b", low):
        return f"Is the image {_lower_first(text)}?"
    if wish.kind == "artist":
        return f"Is the image in the style of {text}?"
    return f"Is the style of the image {text}?"


def _setting_question(wish: Global, said: str) -> str:
    """Return the question about a time or a weather that is said without its preposition."""
    words = said.split()
    last = words[-1].casefold()
    plain = re.sub(r"^the\s+", "", said, flags=re.IGNORECASE)
    if last in _DAYS or (wish.kind == "time" and last in _TIMES):
        return f"Is it {_lower_first(plain)} in the image?"
    if wish.kind == "weather" and not last.endswith(("y", "ed", "ear", "cast", "ot", "old", "arm")):
        return f"Is there {_lower_first(plain)} in the image?"
    return f"Is it {_lower_first(said)} in the image?"


def _lower_first(text: str) -> str:
    first, _, rest = text.partition(" ")
    known = first[1:].islower() and first.casefold() in _SETTINGS | _TIMES | {"the", "a", "an"}
    return f"{first.lower()} {rest}".strip() if known else text

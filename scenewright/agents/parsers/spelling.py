"""English words: which parts of speech they can be, and the nearest one to a misspelt word.

The dictionaries are those of lemminflect (forms and parts of speech) and pyspellchecker (words by
frequency); both are loaded when the first word is looked up that is in no list of ours.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from scenewright.core.inflection import singular

if TYPE_CHECKING:
    from spellchecker import SpellChecker

_SHORTEST = 4
"""Shorter words are names and abbreviations as often as mistakes."""
_SURE = 6
"""Shorter words are taken for mistakes only of words that captions are full of."""
_ALIKE = 0.82


@lru_cache(maxsize=16384)
def parts_of_speech(word: str) -> frozenset[str]:
    """Return what a lower-case word can be: ``NOUN``, ``VERB``, ``ADJ``, ``ADV``.

    Empty for a word that the dictionary does not have.
    """
    from lemminflect import getAllLemmas

    return frozenset(getAllLemmas(word)) & {"NOUN", "VERB", "ADJ", "ADV"}


@lru_cache(maxsize=1)
def _spelling() -> SpellChecker:
    from spellchecker import SpellChecker

    return SpellChecker()


@lru_cache(maxsize=16384)
def _sound(word: str) -> str:
    """Return a word as it sounds: "elefant" is "elephant"."""
    for written, sound in _SOUNDS:
        word = word.replace(written, sound)
    return re.sub(r"(.)\1+", r"\1", word)


def is_compound(word: str) -> bool:
    """Return whether a word is two, such as "tophat" and "railcar"."""
    parts = ((word[:at], word[at:]) for at in range(3, len(word) - 2))
    return any(parts_of_speech(a) and "NOUN" in parts_of_speech(b) for a, b in parts)


def is_known(word: str) -> bool:
    """Return whether a word is in the dictionary, or is two of its words."""
    return bool(parts_of_speech(word) or parts_of_speech(singular(word))) or is_compound(word)


_SOUNDS = (("ph", "f"), ("ck", "k"), ("ce", "se"), ("ci", "si"), ("c", "k"), ("z", "s"), ("y", "i"))


@lru_cache(maxsize=4096)
def nearest(word: str, known: frozenset[str]) -> str:
    """Return the nearest known word to a misspelt lower-case one; empty if it is spelt right.

    The words of ``known`` come before those of the dictionary, which come by frequency. Empty too
    where no word is near.
    """
    if len(word) < _SHORTEST or not word.isalpha() or word in known or parts_of_speech(word):
        return ""
    spelling = _spelling()
    if spelling.known([word]):
        return ""
    alike_sounding = {one for one in known if one[0] == word[0] and _sound(one) == _sound(word)}
    if alike_sounding:
        return min(alike_sounding)
    if is_compound(word):
        return ""
    near = spelling.edit_distance_1(word)
    beginning = {one for one in known if one[0] == word[0]}
    found = near & (beginning if len(word) < _SURE else known)
    if not found and len(word) >= _SURE:
        found = set(get_close_matches(word, sorted(beginning), 1, _ALIKE)) or spelling.known(near)
    return max(sorted(found), key=spelling.word_usage_frequency, default="")

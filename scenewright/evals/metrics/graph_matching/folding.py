"""Texts as they are compared: case and spaces folded, the values of an attribute apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from scenewright.core.vocabulary import canonical_key

_REMEMBERED = 2**14
_SEVERAL = re.compile(r"\s*(?:[,;|&]|\band\b)\s*")


@lru_cache(_REMEMBERED)
def folded(text: str) -> str:
    """``text`` without case, its white space as single spaces: ``"  Dark  RED"`` → ``"dark red"``.

    Texts that are equal after it count as the same.
    """
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


@lru_cache(_REMEMBERED)
def values_of(text: str) -> tuple[str, ...]:
    """The values that an attribute's text lists, folded and sorted, each once.

    Commas, semicolons, ``|``, ``&`` and the word *and* part them: ``"white and Black"`` →
    ``("black", "white")``. A text of separators alone is one value.
    """
    whole = folded(text)
    return tuple(sorted({part for part in _SEVERAL.split(whole) if part})) or (whole,)


def attribute_texts(attributes: Mapping[str, str]) -> dict[str, str]:
    """Key → the one text that is compared: values sorted and joined (XTC-Bench, Sec. 3.2.6).

    Keys that mean the same (:func:`~scenewright.core.vocabulary.same_key`) are one key with the
    values of both.
    """
    gathered: dict[str, set[str]] = {}
    for key, text in attributes.items():
        gathered.setdefault(canonical_key(key), set()).update(values_of(text))
    return {key: " ".join(sorted(values)) for key, values in gathered.items()}

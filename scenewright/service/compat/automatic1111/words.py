"""AUTOMATIC1111's prompt syntax, read as plain words: weights, networks, words that change."""

from __future__ import annotations

import re

_NETWORK = re.compile(r"<[^<>]*>")
_EDITED = re.compile(r"\[([^\[\]():|]*):([^\[\]():|]*):\s*[\d.]+\s*\]")
_SWITCHED = re.compile(r"\[([^\[\]()|]*)\|[^\[\]()]*\]")
_WEIGHTED = re.compile(r"\(([^()\[\]]*?)(?::\s*[\d.]+\s*)?\)|\[([^()\[\]]*)\]")
_BREAK = re.compile(r"\s*\bBREAK\b\s*")
_AND = re.compile(r"\s+AND\s+")
_ESCAPED = {"\\(": "\ue000", "\\)": "\ue001", "\\[": "\ue002", "\\]": "\ue003"}
_MOST_NESTED = 20


def plain_words(prompt: str) -> str:
    """``prompt`` without its syntax: ``(red ball:1.2) <lora:x:1>`` is ``red ball``.

    Of words that change while a picture is drawn (``[dog:cat:0.5]``, ``[dog|cat]``) the last or
    the first stay. Parentheses with a backslash before them are meant as such.
    """
    text = _NETWORK.sub(" ", prompt)
    for shown, kept in _ESCAPED.items():
        text = text.replace(shown, kept)
    for _ in range(_MOST_NESTED):
        before = text
        text = _EDITED.sub(lambda found: found[2].strip() or found[1], text)
        text = _SWITCHED.sub(r"\1", text)
        text = _WEIGHTED.sub(lambda found: found[1] or found[2] or "", text)
        if text == before:
            break
    text = _AND.sub(", ", _BREAK.sub(". ", text))
    for shown, kept in _ESCAPED.items():
        text = text.replace(kept, shown[1])
    return re.sub(r"\s+", " ", text).strip(" ,")

"""Probabilities of the answers in a JSON text, from the probabilities of its tokens.

A model that tells the likeliest tokens at each place tells, at the token that begins an
answer's value, how likely it held the other answers. Where tokens begin and end is the
model's affair: places are found by counting bytes in the tokens joined.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

MIN_MASS = 1e-3
"""Labels that together get less probability than this are no answer."""
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_AFTER_LETTER = frozenset(").:")


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply and what could have stood in its place."""

    data: bytes
    """The token in UTF-8; a character may be cut in two."""
    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[bytes, float], ...] = ()
    """The likeliest tokens at its place, each with its logarithm; may hold the token itself."""


def answer_places(data: bytes) -> list[tuple[int, int]]:
    """Where the strings ``answers[i].a`` of a JSON text stand, in order.

    Pairs of byte offsets of the content, without the quotes. ``data`` must be sound JSON.
    """
    return [place for path, place in _strings(data) if _is_answer(path)]


def label_masses(
    tokens: Sequence[Token], place: tuple[int, int], labels: Sequence[str]
) -> dict[int, float] | None:
    """Probability of each of ``labels`` (by index) at the value that stands at ``place``.

    Read at the first token that holds more of the value than space, and normalised over the
    labels that are among its likeliest tokens. None if the value begins with no label or the
    tokens tell no probability.
    """
    ends = list(accumulate(len(token.data) for token in tokens))
    start, end = place
    value = b"".join(token.data for token in tokens)[start:end]
    said = _label(value + b'"', labels)
    while said is not None and start < end:
        at = bisect_right(ends, start)
        token = tokens[at]
        before = token.data[: start - (ends[at] - len(token.data))]
        if token.data[len(before) :].strip():
            # Of an answer that is cut into tokens, the first may look like another label.
            fits = _label(token.data[len(before) :], labels) == said
            return _masses(token, before, labels) if fits else None
        start = ends[at]
    return None


def _masses(token: Token, before: bytes, labels: Sequence[str]) -> dict[int, float] | None:
    if not token.top:
        # Beside no others its own probability says nothing of theirs.
        return None
    chances = {token.data: token.logprob, **dict(token.top)}
    masses: dict[int, float] = {}
    for data, logprob in chances.items():
        index = _label(data[len(before) :], labels) if data.startswith(before) else None
        if index is not None and not math.isnan(logprob):
            masses[index] = masses.get(index, 0.0) + math.exp(min(0.0, logprob))
    total = sum(masses.values())
    if total <= 0.0:
        return None
    return {index: mass / total for index, mass in masses.items()}


def _label(data: bytes, labels: Sequence[str]) -> int | None:
    """The label that a value beginning with ``data`` is, if it can be no other."""
    inside, quote, _ = data.partition(b'"')
    text = inside.decode("utf-8", errors="replace").strip().casefold()
    if not text:
        return None
    spelled = [label.casefold() for label in labels]
    if text in spelled:
        return spelled.index(text)
    if len(spelled[0]) == 1:
        lettered = text[0] in spelled and text[1:2] in _AFTER_LETTER
        return spelled.index(text[0]) if lettered else None
    if quote:
        return None
    begun = [index for index, label in enumerate(spelled) if label.startswith(text)]
    return begun[0] if len(begun) == 1 else None


def _is_answer(path: tuple[str | int, ...]) -> bool:
    return len(path) == 3 and path[0] == "answers" and path[2] == "a"


def _strings(data: bytes) -> Iterator[tuple[tuple[str | int, ...], tuple[int, int]]]:
    """Every string value of a JSON text: its path, and where its content stands."""
    path: list[str | int] = []
    key = False
    for match in _LEXEME.finditer(data):
        lexeme = match.group()
        if lexeme in (b"{", b"["):
            path.append("" if lexeme == b"{" else 0)
            key = lexeme == b"{"
        elif lexeme in (b"}", b"]"):
            path.pop()
            key = False
        elif lexeme == b",":
            last = path[-1]
            if isinstance(last, int):
                path[-1] = last + 1
            key = isinstance(last, str)
        elif lexeme == b":":
            key = False
        elif key:
            path[-1] = json.loads(lexeme)
        elif lexeme.startswith(b'"'):
            yield tuple(path), (match.start() + 1, match.end() - 1)

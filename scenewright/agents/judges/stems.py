"""Questions that share their words, written once with blanks.

``Is there a dog in the image?`` and ``Is there a car in the image?`` are ``Is there a * in the
image?`` with ``dog`` and ``car``: most of a sheet's tokens are words that its questions have in
common. Filling the blanks in gives back the questions, letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

BLANK = "*"
"""Stands in a stem where the questions differ."""
_TOKEN = re.compile(r"\w+|\W", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stem:
    """Several questions, or a single one without a blank."""

    text: str
    """What the questions have in common, with :data:`BLANK` where they differ."""
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Index of each question and the words for its blanks."""

    @property
    def is_shared(self) -> bool:
        """Whether it has blanks."""
        return bool(self.rows[0][1])


def filled(stem: str, words: Sequence[str]) -> str:
    """Return the question of ``stem`` with ``words`` in its blanks.

    Raises ``ValueError`` unless there are as many words as blanks.
    """
    parts = stem.split(BLANK)
    if len(parts) != len(words) + 1:
        raise ValueError(f"{len(words)} words for the {len(parts) - 1} blanks of {stem!r}")
    pairs = zip(parts, [*words, ""], strict=True)
    return "".join(text for pair in pairs for text in pair)


def stems_of(questions: Sequence[str], keys: Sequence[Hashable]) -> list[Stem]:
    """Return ``questions`` as stems, each question in one, in the order of their first questions.

    Questions share a stem only if their ``keys`` are equal, and they begin with the same two words
    and end with the same word or sign.
    """
    groups: dict[Hashable, list[int]] = {}
    for at, (question, key) in enumerate(zip(questions, keys, strict=True)):
        words = question.split()
        signs = _TOKEN.findall(question)
        groups.setdefault((key, *words[:2], signs[-1] if signs else ""), []).append(at)
    found: list[Stem] = []
    for rows in groups.values():
        stem = _stem([questions[at] for at in rows])
        if stem is None:
            found += [Stem(questions[at], ((at, ()),)) for at in rows]
        else:
            text, words_of = stem
            found.append(Stem(text, tuple(zip(rows, words_of, strict=True))))
    return sorted(found, key=lambda one: one.rows[0][0])


def _stem(questions: Sequence[str]) -> tuple[str, list[tuple[str, ...]]] | None:
    """A stem of all questions and each one's words, if a sheet is not longer by it."""
    if len(questions) < 2:
        return None
    cut = [_TOKEN.findall(question) for question in questions]
    before = _common(cut, most=min(map(len, cut)) - 1)
    rest = [tokens[before:] for tokens in cut]
    after = _common([tokens[::-1] for tokens in rest], most=min(map(len, rest)) - 1)
    blanks = [tokens[: len(tokens) - after] for tokens in rest]
    parts = ["".join(cut[0][:before]), "".join(rest[0][len(rest[0]) - after :])]
    words: list[tuple[str, ...]] = [("".join(tokens),) for tokens in blanks]
    between = _between(blanks)
    if between is not None:
        inner, pairs = between
        parts.insert(1, inner)
        words = pairs
    saved = (len(questions) - 1) * sum(map(len, parts))
    # Quotes, commas and brackets of a stem, and of each question's further blanks.
    spent = 6 + (len(parts) - 2) * (3 * len(questions) + 1)
    if saved < spent or any(BLANK in part for part in parts):
        return None
    return BLANK.join(parts), words


def _between(blanks: Sequence[Sequence[str]]) -> tuple[str, list[tuple[str, ...]]] | None:
    """Words inside all of ``blanks`` and what stands before and after them: ``and the``."""
    for token in dict.fromkeys(blanks[0][1:-1]):
        if not token.isalnum() or any(tokens.count(token) != 1 for tokens in blanks):
            continue
        places = [tokens.index(token) for tokens in blanks]
        left = [list(tokens[:at])[::-1] for tokens, at in zip(blanks, places, strict=True)]
        right = [list(tokens[at + 1 :]) for tokens, at in zip(blanks, places, strict=True)]
        if not all(left) or not all(right):
            continue
        back = _common(left, most=min(map(len, left)) - 1)
        on = _common(right, most=min(map(len, right)) - 1)
        inner = [*left[0][:back][::-1], token, *right[0][:on]]
        pairs: list[tuple[str, ...]] = [
            ("".join(before[back:][::-1]), "".join(behind[on:]))
            for before, behind in zip(left, right, strict=True)
        ]
        return "".join(inner), pairs
    return None


def _common(rows: Sequence[Sequence[str]], most: int) -> int:
    """How many first tokens all ``rows`` share, at most ``most``."""
    count = 0
    while count < most and len({row[count] for row in rows}) == 1:
        count += 1
    return count

"""The answers that TIFA's questions expect, where a release has the choices but not the key.

The DSG release holds what judges said to TIFA's questions about TIFA160, and the choices (in the
text that PaLI was given), but not which choice is right. It follows from how the questions were
made (Hu et al., 2023): of the prompt, with the right choice first, except that numbers are in their
own order; and kept only if a language model that reads the prompt picks the same. So the first
choice is expected unless the prompt says another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scenewright.core.formats.published_questions import NUMBERS, YES_OR_NO

_COUNTED = 3
"""Words after a number that may name what is counted."""
_PLAIN = frozenset(
    {"a", "an", "the", "is", "are", "what", "how", "many", "there", "in", "on", "of", "or", "and"}
)


def expected_answer(question: str, choices: Sequence[str], prompt: str) -> str:
    """The choice that ``prompt`` makes right.

    - yes, where yes and no are the choices;
    - of numbers, the one that the prompt gives to what the question names;
    - the first, unless the sentence of the prompt that is closest to the question names another
      and not the first.

    Raises ``ValueError`` without choices.
    """
    if not choices:
        raise ValueError(f"{question!r} has no choices")
    if tuple(choices) == YES_OR_NO:
        return "yes"
    asked = set(_words(question)) - _PLAIN
    if all(choice.isdecimal() for choice in choices):
        return _count(asked, choices, prompt)
    sentences = [_words(part) for part in re.split(r"[.!?]\s", prompt)]
    near = max(sentences, key=lambda words: len(asked & set(words)))
    named = [choice for choice in choices if _within(_words(choice), near)]
    return choices[0] if not named or choices[0] in named else named[0]


def _count(asked: set[str], choices: Sequence[str], prompt: str) -> str:
    words = [NUMBERS.get(word, word) for word in _words(prompt)]
    places = [at for at, word in enumerate(words) if word in choices]
    if not places:
        return choices[0]
    return words[max(places, key=lambda at: len(asked & set(words[at + 1 : at + 1 + _COUNTED])))]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _within(part: list[str], whole: list[str]) -> bool:
    n = len(part)
    return any(whole[at : at + n] == part for at in range(len(whole) - n + 1))

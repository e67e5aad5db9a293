"""TIFA's questions as they are published (Hu et al., 2023): types of elements, choices, numbers."""

from __future__ import annotations

import re

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
"""Word → the digits that stand for it among the choices."""
_ASKED = re.compile(r"Question: (?P<question>.*) Choices: (?P<choices>.*)\. Answer:", re.DOTALL)


def read_choices(asked: str) -> tuple[str, tuple[str, ...]]:
    """Return question and choices of ``Question: … Choices: a, b. Answer:``.

    Any other text is the question, without choices.
    """
    found = _ASKED.fullmatch(asked.strip())
    if found is None:
        return asked.strip(), ()
    return found["question"], tuple(found["choices"].split(", "))

"""Facts put as a sheet of numbered questions: the text, the answers' schema and the labels.

Everything that comes from a scene is data: a question is one line of JSON (an array, whose
missing keys save a tenth of the tokens), in which a name can end neither its line nor its string.
"""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.facts import Fact
from scenewright.prompts import Prompt, load_prompt

SHEET_PROMPT = "judge_sheet"
TOOL = "report_answers"
TOOL_DESCRIPTION = "Report the answers to all questions about the image."
MAX_OPTIONS = len(string.ascii_uppercase)
MAX_QUESTION = 2000
MAX_OPTION = 500

# Directions and line ends of Unicode reorder or break a line as control characters do; a lone
# surrogate cannot be sent at all.
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class Sheet:
    """Questions about one image, as they are asked in one call."""

    facts: tuple[Fact, ...]
    """What is asked; question n is about ``facts[n − 1]``."""
    labels: tuple[tuple[str, ...], ...]
    """What may be answered to each fact, one an option in their order: yes/no, or letters."""
    text: str
    """What the judge reads below the image."""
    prompt: Prompt
    """The prompt file."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the wanted answers."""
        return sheet_schema()


def sheet_of(facts: Sequence[Fact]) -> Sheet:
    """The sheet that asks ``facts``, in order.

    Raises ``ValueError`` for no facts, and for a fact of more options than letters.
    """
    if not facts:
        raise ValueError("a sheet needs a fact: give one or more")
    prompt = load_prompt(SHEET_PROMPT)
    labels = tuple(labels_of(fact) for fact in facts)
    lines = [_line(at, fact, labels[at - 1]) for at, fact in enumerate(facts, start=1)]
    return Sheet(tuple(facts), labels, prompt.render(questions="\n".join(lines)), prompt)


def sheet_schema() -> Mapping[str, Any]:
    """JSON schema of the answers, strict: every key required, none besides."""
    schema = load_prompt(SHEET_PROMPT).output
    assert schema is not None, "the prompt of the sheet ships with its schema"
    return schema


def labels_of(fact: Fact) -> tuple[str, ...]:
    """What may be answered to ``fact``. Raises ``ValueError`` for more options than letters."""
    if fact.is_binary:
        return fact.options
    if len(fact.options) > MAX_OPTIONS:
        raise ValueError(f"{len(fact.options)} options: offer at most {MAX_OPTIONS}")
    return tuple(string.ascii_uppercase[: len(fact.options)])


def clean(text: str, length: int = MAX_QUESTION) -> str:
    """``text`` without control characters, each a space, and at most ``length`` characters."""
    kept = "".join(
        " " if unicodedata.category(one) in _CONTROLS or one in _BIDI else one for one in text
    )
    return kept if len(kept) <= length else f"{kept[: length - 1]}…"


def _line(number: int, fact: Fact, labels: tuple[str, ...]) -> str:
    line: list[Any] = [number, clean(fact.question)]
    if not fact.is_binary:
        options = (clean(option, MAX_OPTION) for option in fact.options)
        line.append(dict(zip(labels, options, strict=True)))
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))

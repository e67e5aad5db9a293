"""Facts put as a sheet of numbered questions: the text, the answers' schema and the labels.

The instructions are the same for every picture, and are sent before it, so that a provider's
cache of prompts can hold them; the questions follow the picture. Words that questions share are
written once (:mod:`~scenewright.agents.judges.stems`), as are the options that they share. A line
of the questions is a JSON array:

- ``[1,"Is there a dog in the image?"]``, or with options
  ``[4,"Where is the dog?",["A:on","B:under"]]``;
- ``["Is there a * in the image?",[1,"dog"],[2,"car"]]``: a stem and a row for each question;
- ``["Where is the *?",["C:nowhere"],[4,"dog",["A:on","B:under"]],…]``: what all questions
  of the stem share (all options, or the last one), then the rows with their own.

Everything that comes from a scene is data inside a JSON string: a name can end neither its line
nor its string.
"""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from scenewright.agents.judges.stems import Stem, stems_of
from scenewright.core.facts import Fact
from scenewright.prompts import Prompt, load_prompt

SHEET_PROMPT = "judge_sheet"
PAIR_PROMPT = "judge_pair"
TOOL = "report_answers"
MAX_OPTIONS = len(string.ascii_uppercase)
MAX_QUESTION = 2000
MAX_OPTION = 500

Reasons = Literal["none", "doubted", "all"]
"""The answers that a judge gives a reason for: none; those that deny or doubt; all."""
REASONS: tuple[Reasons, ...] = get_args(Reasons)
_ASKED_REASONS: Mapping[Reasons, str] = {
    "none": "",
    "doubted": ' why: "n: up to eight words" for each no or doubt.',
    "all": ' why: "n: up to eight words" for each n.',
}

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
    instructions: str
    """What the judge reads before the image: the same for all sheets of one ``reasons``."""
    text: str
    """The questions, below the image."""
    reasons: Reasons
    """The answers that want a reason."""
    prompt: Prompt
    """The prompt file."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the wanted answers."""
        return sheet_schema(self.reasons)

    @property
    def characters(self) -> int:
        """Length of all that is sent beside the image: instructions, questions and schema."""
        return len(self.instructions) + len(self.text) + len(json.dumps(self.schema))


def sheet_of(facts: Sequence[Fact], *, reasons: Reasons = "doubted", stems: bool = True) -> Sheet:
    """The sheet that asks ``facts``; ``stems``: words that questions share are written once.

    Raises ``ValueError`` for no facts, and for a fact of more options than letters.
    """
    if not facts:
        raise ValueError("a sheet needs a fact: give one or more")
    labels = tuple(labels_of(fact) for fact in facts)
    questions = [clean(fact.question) for fact in facts]
    # Keys of their own keep questions apart.
    keys = [_alike(fact) for fact in facts] if stems else list(range(len(facts)))
    found = stems_of(questions, keys)
    text = "\n".join(_line(stem, facts, labels) for stem in found)
    return Sheet(
        facts=tuple(facts),
        labels=labels,
        instructions=sheet_instructions(reasons),
        text=text,
        reasons=reasons,
        prompt=load_prompt(SHEET_PROMPT),
    )


def of_two(sheet: Sheet) -> Sheet:
    """Return ``sheet`` with the instructions for two images to compare."""
    prompt = load_prompt(PAIR_PROMPT)
    return replace(
        sheet, instructions=prompt.render(reasons=_ASKED_REASONS[sheet.reasons]), prompt=prompt
    )


def sheet_instructions(reasons: Reasons) -> str:
    """What precedes the image on every sheet."""
    return load_prompt(SHEET_PROMPT).render(reasons=_ASKED_REASONS[reasons])


def sheet_schema(reasons: Reasons = "doubted") -> Mapping[str, Any]:
    """JSON schema of the answers, strict: every key required, none besides."""
    schema = load_prompt(SHEET_PROMPT).output
    assert schema is not None, "the prompt of the sheet ships with its schema"
    if reasons == "none":
        schema = deepcopy(schema)
        del schema["properties"]["why"]
        schema["required"].remove("why")
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


def _alike(fact: Fact) -> Hashable:
    """What questions must have in common beside words to share a stem."""
    return None if fact.is_binary else (len(fact.options), clean(fact.options[-1], MAX_OPTION))


def _line(stem: Stem, facts: Sequence[Fact], labels: Sequence[tuple[str, ...]]) -> str:
    offered = [_options(facts[at], labels[at]) for at, _ in stem.rows]
    if not stem.is_shared:
        ((at, _),) = stem.rows
        (options,) = offered
        return _json([at + 1, stem.text, *([options] if options else [])])
    line: list[Any] = [stem.text]
    shared = offered[0] if all(row == offered[0] for row in offered) else offered[0][-1:]
    if shared:
        line.append(shared)
    for (at, words), options in zip(stem.rows, offered, strict=True):
        own = options[: len(options) - len(shared)]
        line.append([at + 1, *words, *([own] if own else [])])
    return _json(line)


def _options(fact: Fact, labels: tuple[str, ...]) -> list[str]:
    """The options of a choice, each after its letter."""
    if fact.is_binary:
        return []
    cleaned = (clean(option, MAX_OPTION) for option in fact.options)
    return [f"{label}:{option}" for label, option in zip(labels, cleaned, strict=True)]


def _json(line: list[Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))

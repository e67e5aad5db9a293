"""Question sheets: facts as numbered questions, with the schema and labels of the answers.

The instructions are the same for every picture and precede it, so that a provider's prompt cache
can hold them; the questions follow the picture. Words and options shared by questions are written
once. A line of the questions is a JSON array:

- ``[1,"Is there a dog in the image?"]``, or with options
  ``[4,"Where is the dog?",["A:on","B:under"]]``;
- ``["Is there a * in the image?",[1,"dog"],[2,"car"]]``: a stem and a row for each question;
- ``["Where is the *?",["C:nowhere"],[4,"dog",["A:on","B:under"]],…]``: what all questions
  of the stem share (all options, or the last one), then the rows with their own.

Everything from a scene is data inside a JSON string: a name can end neither its line nor its
string.

A stem is the common text of several questions: ``Is there a dog in the image?`` and ``Is there a
car in the image?`` are ``Is there a * in the image?`` with ``dog`` and ``car``. Most tokens of a
sheet are words that its questions share. Filling the blanks restores the questions exactly.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, get_args

from scenewright.core.facts import Fact
from scenewright.core.validation import cut_short
from scenewright.prompts import Prompt, load_prompt

BLANK = "*"
"""Blank of a stem, where the questions differ."""
_TOKEN = re.compile(r"\w+|\W", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stem:
    """Several questions with common text, or a single one without a blank."""

    text: str
    """Common text, with :data:`BLANK` where the questions differ."""
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
    """Group ``questions`` into stems, in the order of their first questions.

    Questions share a stem only if their ``keys`` are equal, and they begin with the same two words
    and end with the same word or sign.
    """
    groups: dict[Hashable, list[int]] = {}
    for at, (question, key) in enumerate(zip(questions, keys, strict=True)):
        words = question.split()
        signs = _TOKEN.findall(question)
        groups.setdefault((key, *words[:2], signs[-1] if signs else ""), []).append(at)
    found = [stem for rows in groups.values() for stem in _stems(rows, questions)]
    return sorted(found, key=lambda one: one.rows[0][0])


def _stems(rows: Sequence[int], questions: Sequence[str]) -> list[Stem]:
    """Return a stem of the questions at ``rows``, or one of each where that is shorter."""
    apart = [Stem(questions[at], ((at, ()),)) for at in rows]
    if len(rows) < 2:
        return apart
    cut = [_TOKEN.findall(questions[at]) for at in rows]
    before = _common(cut)
    rest = [tokens[before:] for tokens in cut]
    after = _common([tokens[::-1] for tokens in rest])
    blanks = [tokens[: len(tokens) - after] for tokens in rest]
    parts = ["".join(cut[0][:before]), "".join(rest[0][len(rest[0]) - after :])]
    words: list[tuple[str, ...]] = [("".join(tokens),) for tokens in blanks]
    between = _between(blanks)
    if between is not None:
        inner, words = between
        parts.insert(1, inner)
    saved = (len(rows) - 1) * sum(map(len, parts))
    # Quotes, commas and brackets of a stem, and of each question's further blanks.
    spent = 6 + (len(parts) - 2) * (3 * len(rows) + 1)
    if saved < spent or any(BLANK in part for part in parts):
        return apart
    return [Stem(BLANK.join(parts), tuple(zip(rows, words, strict=True)))]


def _between(blanks: Sequence[Sequence[str]]) -> tuple[str, list[tuple[str, ...]]] | None:
    """Return words inside all of ``blanks``, with the words before and after them: ``and the``."""
    for token in dict.fromkeys(blanks[0][1:-1]):
        if not token.isalnum() or any(tokens.count(token) != 1 for tokens in blanks):
            continue
        places = [tokens.index(token) for tokens in blanks]
        left = [tokens[:at][::-1] for tokens, at in zip(blanks, places, strict=True)]
        right = [tokens[at + 1 :] for tokens, at in zip(blanks, places, strict=True)]
        if not all(left) or not all(right):
            continue
        back, on = _common(left), _common(right)
        inner = [*left[0][:back][::-1], token, *right[0][:on]]
        pairs: list[tuple[str, ...]] = [
            ("".join(before[back:][::-1]), "".join(behind[on:]))
            for before, behind in zip(left, right, strict=True)
        ]
        return "".join(inner), pairs
    return None


def _common(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of first tokens shared by all ``rows``, but for the last of a row."""
    shared = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False))
    return max(0, min(len(list(shared)), min(map(len, rows)) - 1))


SHEET_PROMPT = "judge_sheet"
PAIR_PROMPT = "judge_pair"
TOOL = "report_answers"
MAX_OPTIONS = len(string.ascii_uppercase)
MAX_QUESTION = 2000
MAX_OPTION = 500

Reasons = Literal["none", "doubted", "all"]
"""Answers that need a reason: none; those that deny or doubt; all."""
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
    """Questions about one image in one call."""

    facts: tuple[Fact, ...]
    """Facts; question n is about ``facts[n − 1]``."""
    labels: tuple[tuple[str, ...], ...]
    """Labels of each fact's options in their order: yes/no, or letters."""
    instructions: str
    """Instructions before the image: the same for all sheets with the same ``reasons``."""
    text: str
    """The questions, below the image."""
    reasons: Reasons
    """Answers that need a reason."""
    prompt: Prompt
    """The prompt file."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the wanted answers: as many at most as there are questions."""
        return sheet_schema(self.reasons, len(self.facts))

    @property
    def characters(self) -> int:
        """Characters sent besides the image: instructions, questions and schema."""
        return len(self.instructions) + len(self.text) + len(json.dumps(self.schema))


def sheet_of(
    facts: Sequence[Fact],
    *,
    reasons: Reasons = "doubted",
    stems: bool = True,
    prompt: str = SHEET_PROMPT,
) -> Sheet:
    """Return the sheet of ``facts``; ``stems``: write shared words once.

    ``prompt``: the instructions, :data:`PAIR_PROMPT` for two images to compare.

    Raises ``ValueError`` for no facts, and for a fact of more options than letters.
    """
    if not facts:
        raise ValueError("a sheet needs a fact: give one or more")
    labels = tuple(labels_of(fact) for fact in facts)
    questions = [clean(fact.question) for fact in facts]
    # What questions with a common stem must share; keys of their own keep them apart.
    keys: list[Hashable] = [
        None if fact.is_binary else (len(fact.options), clean(fact.options[-1], MAX_OPTION))
        for fact in facts
    ]
    keys = keys if stems else list(range(len(facts)))
    found = stems_of(questions, keys)
    text = "\n".join(_line(stem, facts, labels) for stem in found)
    return Sheet(
        facts=tuple(facts),
        labels=labels,
        instructions=sheet_instructions(reasons, prompt),
        text=text,
        reasons=reasons,
        prompt=load_prompt(prompt),
    )


def sheet_instructions(reasons: Reasons, prompt: str = SHEET_PROMPT) -> str:
    """Return the instructions before the image."""
    return load_prompt(prompt).render(reasons=_ASKED_REASONS[reasons])


def sheet_schema(reasons: Reasons = "doubted", questions: int = 0) -> Mapping[str, Any]:
    """Return the strict JSON schema of the answers: all keys required, no others.

    ``questions``: how many there are; 0: as many as the prompt's file allows.
    """
    schema = deepcopy(load_prompt(SHEET_PROMPT).output)
    assert schema is not None, "the prompt of the sheet ships with its schema"
    if questions:
        for answers in schema["properties"].values():
            answers["maxItems"] = questions
    if reasons == "none":
        del schema["properties"]["why"]
        schema["required"].remove("why")
    return schema


def labels_of(fact: Fact) -> tuple[str, ...]:
    """Return the labels of the options of ``fact``.

    Raises ``ValueError`` for more options than letters.
    """
    if fact.is_binary:
        return fact.options
    if len(fact.options) > MAX_OPTIONS:
        raise ValueError(f"{len(fact.options)} options: offer at most {MAX_OPTIONS}")
    return tuple(string.ascii_uppercase[: len(fact.options)])


# The options of choices are the same few words for every picture.
@lru_cache(maxsize=4096)
def clean(text: str, length: int = MAX_QUESTION) -> str:
    """Return at most ``length`` characters of ``text``, with spaces for control characters."""
    kept = "".join(
        " " if unicodedata.category(one) in _CONTROLS or one in _BIDI else one for one in text
    )
    return cut_short(kept, length)


def _line(stem: Stem, facts: Sequence[Fact], labels: Sequence[tuple[str, ...]]) -> str:
    # The options of a choice, each after its letter.
    offered = [
        [
            f"{label}:{clean(option, MAX_OPTION)}"
            for label, option in zip(labels[at], facts[at].options, strict=True)
            if not facts[at].is_binary
        ]
        for at, _ in stem.rows
    ]
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


def _json(line: list[Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))

"""Questions in the text of a request, and what a model that judged them says.

The questions are a sheet of them, or a single one in plain words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scenewright.agents.judges.remote import OPTIONS as PAIR
from scenewright.agents.judges.sheet import filled
from scenewright.mock_providers.bent_replies import apply_content_fault, as_json
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.streams import pieces
from scenewright.mock_providers.wire import ModelReply, ModelRequest, ScriptedReply, Token

YES_NO: Mapping[str, str] = {"yes": "yes", "no": "no"}
MOST_QUESTIONS = 512
_LETTER = re.compile(r"(?<!\w)([A-Z])\) ")
_OPTION = re.compile(r"([A-Z]):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Question:
    """One question about the image."""

    number: int
    """Its number on the sheet."""
    text: str
    """The question's text, without the options."""
    options: Mapping[str, str]
    """Answer → its meaning; yes and no mean themselves."""

    @property
    def is_binary(self) -> bool:
        """Whether it takes yes or no."""
        return self.options is YES_NO


@dataclass(frozen=True, slots=True)
class Judged:
    """Answer of a model to one question."""

    question: Question
    """The question."""
    answer: str
    """The key of the option that it picks."""
    probability: float
    """That this answer is right, 0 to 1."""
    chances: tuple[tuple[str, float], ...]
    """Key of an option → its probability, of all options."""


def sheet_of(text: str) -> list[Question]:
    """Return the questions of the sheet in ``text``, by number.

    Lines as :mod:`scenewright.agents.judges.sheet` writes them, with blanks filled in and shared
    options added. Empty if there are none; raises ``Problem`` if the options of one are unfit.
    """
    found: list[Question] = []
    for line in text.splitlines():
        if not line.startswith("["):
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match entry:
            case [int(), str(), *_]:
                found += _question("*", entry, [])
            case [str(stem), [str(), *_] as shared, *rows]:
                found += [one for row in rows for one in _question(stem, row, shared)]
            case [str(stem), *rows]:
                found += [one for row in rows for one in _question(stem, row, [])]
    if len(found) > MOST_QUESTIONS:
        raise Problem.invalid(f"{len(found)} questions on one sheet: ask at most {MOST_QUESTIONS}")
    return sorted(found, key=lambda one: one.number)


def _question(stem: str, row: object, shared: list[object]) -> list[Question]:
    """Return the question of a row, or none if the row is not one."""
    match row:
        case [int(number), *words, [*options]] if number > 0:
            offered: list[object] | None = [*options, *shared]
        case [int(number), *words] if number > 0:
            offered = shared or None
        case _:
            return []
    try:
        asked = filled(stem, [word for word in words if isinstance(word, str)])
    except ValueError:
        return []
    return [Question(number, asked, _options(number, offered))]


def is_of_pairs(questions: Sequence[Question]) -> bool:
    """Whether ``questions`` compare two images."""
    return bool(questions) and all(tuple(one.options.values()) == PAIR for one in questions)


def plain_question(text: str) -> Question:
    """Return the one question of a text without a sheet.

    In the words of ``judge_binary`` and ``judge_choice``: options as ``A) left of; B) on.``, a last
    line that says how to answer.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    asked = " ".join(line for line in lines if not line.startswith("Answer with "))
    if not asked:
        raise Problem.invalid("the request holds no question: put it in the last user message")
    marks = list(_LETTER.finditer(asked))
    if len(marks) < 2 or [m[1] for m in marks] != [chr(65 + i) for i in range(len(marks))]:
        return Question(1, asked, YES_NO)
    ends = [*(mark.start() for mark in marks[1:]), len(asked)]
    options = {
        mark[1]: asked[mark.end() : end].strip().rstrip(";.").strip()
        for mark, end in zip(marks, ends, strict=True)
    }
    offered = [f"{letter}:{option}" for letter, option in options.items()]
    return Question(1, asked[: marks[0].start()].strip(), _options(1, offered))


def _options(number: int, given: Sequence[object] | None) -> Mapping[str, str]:
    if given is None:
        return YES_NO
    pairs = [_OPTION.fullmatch(option) for option in given if isinstance(option, str)]
    options = {pair[1]: pair[2] for pair in pairs if pair is not None}
    if not 2 <= len(given) <= 26 or len(set(options.values())) < len(given):
        raise Problem.invalid(
            f'question {number}: give 2 to 26 options, all different, as ["A:option", …]'
        )
    return options


_OUTSIDE = "maybe"
_FIELDS = ("n", "a", "p")
_OF_ANSWERS = (Fault.OUTSIDE_OPTIONS, Fault.WRONG_NUMBER)
"""Faults that bend the answers themselves."""


def render_answer(
    judged: Sequence[Judged], sheet: bool, asked: ModelRequest, fault: Fault | None, chance: Chance
) -> ModelReply:
    """Return the answer to ``asked``, bent by ``fault`` if it is one of content.

    ``sheet``: the questions came as a sheet, so that plain text holds the JSON too.
    """
    shown = asked.fields if asked.fields and "a" in asked.fields else _FIELDS
    answers: list[dict[str, Any]] = []
    for item in judged:
        told = (item.question.number, item.answer, round(item.probability, 4))
        row = dict(zip(_FIELDS, told, strict=True))
        answers.append({name: value for name, value in row.items() if name in shown})
    if fault is Fault.OUTSIDE_OPTIONS:
        for answer in answers:
            answer["a"] = _OUTSIDE
    if fault is Fault.WRONG_NUMBER:
        if chance.number % 2 and answers:
            answers.pop()
        else:
            extra = dict(answers[-1])
            if "n" in extra:
                extra["n"] = max(item.question.number for item in judged) + 1
            answers.append(extra)
    in_json = (sheet and not asked.plain) or asked.form != "text"
    arguments: dict[str, Any] = {"answers": answers}
    if asked.fields is None or "why" in asked.fields:
        arguments["why"] = []
    text = as_json(arguments) if in_json else "\n".join(str(answer["a"]) for answer in answers)
    line = ScriptedReply(text)
    if asked.form == "tool":
        line = ScriptedReply(calls=((asked.tool, arguments),))
    said = apply_content_fault(line, asked, None if fault in _OF_ANSWERS else fault)
    if asked.alternatives is not None and said.text == text:
        return replace(said, tokens=_tokens(text, answers, judged, in_json))
    return said


def _tokens(
    text: str, answers: Sequence[dict[str, Any]], judged: Sequence[Judged], in_json: bool
) -> tuple[Token, ...]:
    """Return the pieces of ``text``; those that hold an answer with the chances of its options."""
    found: list[Token] = []
    at = 0
    for position, answer in enumerate(answers):
        mark = f'"a":{json.dumps(answer["a"])}' if in_json else str(answer["a"])
        start = text.index(mark, at)
        if in_json:
            start += len('"a":"')
        end = start + (len(mark) - len('"a":""') if in_json else len(mark))
        found += [Token(piece, ((piece, 1.0),)) for piece in pieces(text[at:start])]
        piece, item = text[start:end], judged[min(position, len(judged) - 1)]
        chances = [(piece, 1.0)]
        if piece == item.answer:
            others = [chance for chance in item.chances if chance[0] != piece]
            chances = [(piece, item.probability), *sorted(others, key=lambda chance: -chance[1])]
        found.append(Token(piece, tuple(chances)))
        at = end
    found += [Token(piece, ((piece, 1.0),)) for piece in pieces(text[at:])]
    return tuple(found)

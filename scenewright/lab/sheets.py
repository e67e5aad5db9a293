"""Questions in the text of a request: a sheet of them, or a single one in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.lab.problems import Problem

YES_NO: Mapping[str, str] = {"yes": "yes", "no": "no"}
MOST_QUESTIONS = 512
_LETTER = re.compile(r"(?<!\w)([A-Z])\) ")


@dataclass(frozen=True, slots=True)
class Question:
    """One question about the image."""

    number: int
    """Its number on the sheet."""
    text: str
    """What is asked, without the options."""
    options: Mapping[str, str]
    """What may be answered → what it means; yes and no mean themselves."""

    @property
    def is_binary(self) -> bool:
        """Whether it takes yes or no."""
        return self.options is YES_NO


def sheet_of(text: str) -> list[Question]:
    """The questions of the sheet in ``text``: lines that are JSON arrays of a number, a question
    and, where there are some, its options. Empty if there are none; raises ``Problem`` if the
    options of one are unfit.
    """
    found = []
    for line in text.splitlines():
        if not line.startswith("["):
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match entry:
            case [int(number), str(asked), *options] if number > 0 and len(options) < 2:
                found.append(Question(number, asked, _options(number, *options)))
    if len(found) > MOST_QUESTIONS:
        raise Problem.invalid(f"{len(found)} questions on one sheet: ask at most {MOST_QUESTIONS}")
    return found


def plain_question(text: str) -> Question:
    """The one question of a text without a sheet, in the words of ``judge_binary`` and
    ``judge_choice``: options as ``A) left of; B) on.``, a last line that says how to answer.
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
    return Question(1, asked[: marks[0].start()].strip(), _options(1, options))


def _options(number: int, given: object = None) -> Mapping[str, str]:
    if given is None:
        return YES_NO
    if (
        not isinstance(given, dict)
        or not 2 <= len(given) <= 26
        or not all(isinstance(option, str) and option for option in given.values())
        or len(set(given.values())) < len(given)
    ):
        raise Problem.invalid(
            f"question {number}: give 2 to 26 options, all different, as {{letter: option}}"
        )
    return given

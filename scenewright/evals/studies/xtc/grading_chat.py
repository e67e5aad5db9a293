"""Grades by a language model, as XTC-Bench gives them (Sec. 6.2.4), several pairs a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import (
    ReplyError,
    as_data,
    ask_for,
    digest_of,
    name_of,
    shortened,
    tool_of,
)
from scenewright.evals.studies.xtc.base import AnswerPair, Grade
from scenewright.evals.studies.xtc.grading_cache import BEST, CachingGrader
from scenewright.prompts import load_prompt

PROMPT = "score_answers"
_LONGEST = 1000
"""Characters of an answer that the model is shown: a model that rambles is told by less."""
_CUT = " […]"


class ChatGrader(CachingGrader):
    """Grades with a chat model that calls a tool with the scores.

    What the model leaves out, gives twice or out of range is told to it once; what is still
    unusable has no grade, with the reason. Words in answers are data: they can neither end the
    block in which they stand nor stand for another pair's number.
    """

    def __init__(
        self, chat: BaseChatModel, *, pairs_a_call: int = 20, concurrency: int = 4
    ) -> None:
        """``pairs_a_call``: most pairs that one call holds; ``concurrency``: most calls at a time.

        Raises ``ValueError`` for numbers below 1.
        """
        super().__init__()
        if pairs_a_call < 1 or concurrency < 1:
            raise ValueError(
                f"pairs_a_call is {pairs_a_call} and concurrency {concurrency}: use 1 or more"
            )
        self.chat = chat
        self.pairs_a_call = pairs_a_call
        self._gate = asyncio.Semaphore(concurrency)

    @property
    def id(self) -> str:
        """``account:model``."""
        return name_of(self.chat)

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, the prompt, how many pairs stand side by side."""
        parts = [load_prompt(PROMPT).hash, str(self.pairs_a_call), str(_LONGEST)]
        return f"chat grader@1 {self.id}#{digest_of(self.chat, *parts)}"

    async def aclose(self) -> None:
        """The chat model belongs to who made it and stays open."""

    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        size = self.pairs_a_call
        chunks = [pairs[at : at + size] for at in range(0, len(pairs), size)]
        answers = await asyncio.gather(*map(self._call, chunks))
        return [grade for grades in answers for grade in grades]

    async def _call(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        prompt = load_prompt(PROMPT)
        rows = [
            {
                "number": number,
                "question": _shown(pair.question),
                "gt_answer": _shown(pair.expected),
                "pred_answer": _shown(pair.given),
                **({"best": True} if pair.best else {}),
            }
            for number, pair in enumerate(pairs, 1)
        ]
        sheet = _Sheet(len(pairs))
        messages = [HumanMessage(prompt.render(pairs=as_data(rows)))]
        tool = tool_of(prompt)
        try:
            async with self._gate:
                await ask_for(self.chat, messages, tool, sheet.read)
        except ReplyError as error:
            sheet.fail(str(error))
        except Exception as error:
            # Whatever the model's library raises costs this call's pairs and no others.
            sheet.fail(shortened(f"{type(error).__name__}: {error}"))
        return sheet.grades()


class _Sheet:
    """The scores of one call: of its first reply and, where that lacks some, of the second."""

    def __init__(self, pairs: int) -> None:
        self._scores: dict[int, int] = {}
        self._problems = {number: "the model gave no score" for number in range(1, pairs + 1)}
        self._strict = True

    def read(self, arguments: Mapping[str, Any]) -> None:
        """Takes what can be used; ``ValueError`` where there is nothing, or at first not all."""
        rows = arguments.get("scores")
        if not isinstance(rows, list):
            raise ValueError('there is no list "scores"')
        said: dict[int, list[Any]] = {}
        for row in rows:
            number = _whole(row.get("number")) if isinstance(row, Mapping) else None
            if number is not None and number in {*self._problems, *self._scores}:
                said.setdefault(number, []).append(row.get("score"))
        for number, scores in said.items():
            score = _whole(scores[0])
            if len(scores) > 1:
                self._note(number, f"the model gave {len(scores)} scores")
            elif score is None or not 0 <= score <= BEST:
                self._note(number, f"the score {shortened(repr(scores[0]))} is not one of 0 to 5")
            else:
                self._scores[number] = score
                self._problems.pop(number, None)
        first, self._strict = self._strict, False
        if self._problems and (first or not self._scores):
            raise ValueError("; ".join(self._told()))

    def _note(self, number: int, problem: str) -> None:
        if number not in self._scores:
            self._problems[number] = problem

    def _told(self) -> Iterator[str]:
        for number, problem in self._problems.items():
            yield f"pair {number}: {problem}"

    def fail(self, reason: str) -> None:
        """No reply came, or none that was of use."""
        self._problems = dict.fromkeys(self._problems, reason)

    def grades(self) -> list[Grade]:
        """One a pair, in order."""
        return [
            Grade(score=self._scores.get(number), reason=self._problems.get(number, ""))
            for number in sorted({*self._scores, *self._problems})
        ]


def _whole(value: object) -> int | None:
    """``value`` as a whole number; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value.strip()) < 10 else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - len(_CUT)] + _CUT

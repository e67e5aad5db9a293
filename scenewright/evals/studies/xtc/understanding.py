"""Who answers XTC-Bench's questions about a picture: the port, and any chat model that sees.

A judge that picks from closed answers stands in
:mod:`scenewright.evals.studies.xtc.understanding_judges`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.agents.judges.sheet import clean
from scenewright.evals.studies.xtc.base import Question, Reply
from scenewright.prompts import load_prompt

PROMPT = "answer_questions"
QUESTIONS_A_CALL = 20
"""More in one call get shorter and sloppier answers; a call sends the picture anew."""
MOST_ANSWER = 300
"""Characters of an answer that are kept: a few words were asked for."""


@runtime_checkable
class Understander(Protocol):
    """Answers open questions about a picture."""

    @property
    def id(self) -> str:
        """For example ``chat:openai:gpt-…``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a question could get another answer."""
        ...

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """As :meth:`~scenewright.evals.studies.xtc.base.UnifiedModel.answer`."""
        ...

    async def aclose(self) -> None:
        """Free the model."""
        ...


@dataclass(frozen=True)
class ChatUnderstander:
    """Implements :class:`Understander` by a chat model that takes images and calls a tool."""

    chat: BaseChatModel
    """The model."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to a picture before it is sent."""
    questions_a_call: int = QUESTIONS_A_CALL
    """Most questions of one call."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for calls without a question."""
        if self.questions_a_call < 1:
            raise ValueError(f"{self.questions_a_call} questions a call: use 1 or more")

    @property
    def id(self) -> str:
        """``chat:`` and the model's name."""
        return f"chat:{name_of(self.chat)}"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt, preparation of pictures and questions of a call."""
        parts = (load_prompt(PROMPT).hash, repr(self.preparation), str(self.questions_a_call))
        return f"{self.id}@1#{digest_of(self.chat, *parts)}"

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        """One reply a question; a call that fails leaves its questions without a text."""
        replies: list[Reply] = []
        for start in range(0, len(questions), self.questions_a_call):
            some = questions[start : start + self.questions_a_call]
            try:
                replies += await self._asked(image, some)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:500]
                replies += [Reply(text=None, reason=reason) for _ in some]
        return replies

    async def _asked(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        prompt = load_prompt(PROMPT)
        rows = [{"number": at, "question": q.text} for at, q in enumerate(questions, start=1)]
        picture = await prepare(image, self.preparation)
        text = prompt.render(questions=as_data(rows))
        asked = HumanMessage(content=[picture.block, {"type": "text", "text": text}])
        tool = tool_of(prompt)

        def read(arguments: Mapping[str, Any]) -> list[Reply]:
            return read_answers(arguments, len(questions))

        return (await ask_for(self.chat, [asked], tool, read)).value

    async def aclose(self) -> None:
        """Nothing: chat models are shared."""


def read_answers(arguments: Mapping[str, Any], n: int) -> list[Reply]:
    """The replies to questions 1 to ``n`` in a tool's ``arguments``.

    A number that is missing or given with different answers has no text and a reason; numbers that
    were not asked are passed over. Raises ``ValueError`` if nothing at all is usable.
    """
    rows = arguments.get("answers")
    if not isinstance(rows, list):
        raise ValueError("answers is no list of {number, answer}")
    found: dict[int, list[str]] = {}
    for row in rows:
        number = row.get("number") if isinstance(row, dict) else None
        said = row.get("answer") if isinstance(row, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(said, str):
            continue
        text = " ".join(clean(said, MOST_ANSWER).split())
        if 1 <= number <= n and text:
            given = found.setdefault(number, [])
            if text.casefold() not in (other.casefold() for other in given):
                given.append(text)
    if not found and n:
        raise ValueError(f"no answer to any of the numbers 1 to {n}")
    return [_reply(at, found.get(at, [])) for at in range(1, n + 1)]


def _reply(number: int, given: Sequence[str]) -> Reply:
    if len(given) == 1:
        return Reply(text=given[0])
    what = "left out" if not given else f"given {len(given)} times, differently"
    return Reply(text=None, reason=f"the model's answer to question {number} was {what}")

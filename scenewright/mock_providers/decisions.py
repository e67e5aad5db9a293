"""Typed questions about an image, in any provider's format: read, judged, bent by a fault.

Typed questions as a map and their answers as one, as Gemini and System One write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fastapi import Request, Response

from scenewright.agents.judges.decisions.asking import STATEMENT_PROMPT, Question, restored
from scenewright.agents.judges.pictures import character_tokens
from scenewright.mock_providers import sheets
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.models import INSTANT, Judged, bare_name, is_script, judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import Finish, Visit, encoded, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.wire import Format, Spent, as_list, as_object, as_text
from scenewright.prompts import load_prompt

OUTSIDE = "maybe"
"""Option that no question offers."""
IMPROBABLE = 1.7
"""What stands where a probability should."""
_MOST_LETTERED = 26
_AROUND = 16


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request, whichever provider's format it came in."""

    model: str
    """The model's name as given."""
    questions: tuple[Question, ...]
    """The questions, in order; an empty name: it has none."""
    images: tuple[bytes, ...]
    """The files of all images; the last one is looked at."""
    image_param: str | None
    """Where in the request the last image stands."""
    characters: int
    """Length of all texts, by :func:`characters_of` for the questions."""
    low_detail: bool = False
    """Whether the images are wanted at the provider's low resolution."""


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """What a model says to one question."""

    question: Question
    """The question."""
    shares: tuple[float, ...] | None
    """Probability of each option, in the order offered; none: refused."""
    values: tuple[str, ...] = ()
    """The options that they belong to."""
    confidence: float | None = None
    """What a fault makes of the confidence; none: the provider's own measure."""

    @property
    def likeliest(self) -> int:
        """Place of the option with the highest probability."""
        shares = self.shares or (1.0,)
        return max(range(len(shares)), key=shares.__getitem__)

    @property
    def level(self) -> float:
        """Expected level of a score."""
        return math.fsum(at * share for at, share in enumerate(self.shares or ()))


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """All that a format puts into a reply."""

    asked: DecisionRequest
    """The request, with the name of the model that answers."""
    told: tuple[DecisionAnswer, ...]
    """The answers, in the order in which they are given."""
    spent: Spent
    """Its tokens."""
    id: str
    """24 hexadecimal digits."""
    blocked: bool = field(default=False)
    """The whole request is refused."""


class DecisionFormat(Format, Protocol):
    """One provider's format of typed questions about an image and their answers."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """Return the request; raises ``Problem`` for what cannot be read."""
        ...

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image of ``size``."""
        ...

    def reply(self, made: DecisionReply) -> Any:
        """Return the body of a response."""
        ...


async def decide(lab: MockProviders, request: Request, form: DecisionFormat) -> Response:
    """Return the answer of ``lab`` to a request with typed questions."""

    async def prepare(visit: Visit) -> Finish:
        asked = form.read(json_object(visit.body))
        asked, name = lab.swaps.answering(asked, bare_name(asked.model))
        if is_script(name):
            raise Problem.invalid(f"{asked.model} follows a script: it decides nothing", "model")
        looks = [await lab.pictures.look(data, asked.image_param) for data in asked.images]
        image_tokens = sum(form.image_tokens(look.size, asked.low_detail) for look in looks)
        spent = Spent(character_tokens(asked.characters) + image_tokens, image_tokens, 0)
        visit.charge(spent.tokens_in)
        if not looks:
            raise Problem.image("the request holds no image: the mock server's models look at one")

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            id = visit.chance.id
            if fault is Fault.REFUSAL:
                return form.reply(DecisionReply(asked, _refused(asked), spent, id, True)), 0
            told = bend_answers(
                await _judged(name, looks[-1], asked.questions), fault, visit.chance
            )
            content = form.reply(DecisionReply(asked, told, spent, id))
            return _broken(encoded(content), fault), 0

        return finish

    return await lab.serve(request, form, prepare)


def bend_answers(
    told: Sequence[DecisionAnswer], fault: Fault | None, chance: Chance
) -> tuple[DecisionAnswer, ...]:
    """``told`` as a ``fault`` of content leaves it; the others change nothing."""
    found = list(told)
    if fault is Fault.EMPTY:
        return ()
    if fault is Fault.PARTIAL_REFUSAL:
        # Never all: every second one, and of a single question none.
        return tuple(replace(one, shares=None) if at % 2 else one for at, one in enumerate(found))
    if fault is Fault.SHUFFLED:
        return tuple(found[::-1])
    if fault is Fault.NO_PROBABILITY:
        return tuple(replace(one, confidence=IMPROBABLE) for one in found)
    if fault is Fault.OUTSIDE_OPTIONS:
        return tuple(map(_outside, found))
    if fault is Fault.WRONG_NUMBER:
        if chance.number % 2:
            found.pop()
        else:
            extra = replace(found[-1].question, name=f"{found[-1].question.name}x")
            found.append(replace(found[-1], question=extra))
    return tuple(found)


def characters_of(questions: Sequence[Question]) -> int:
    """Characters of ``questions``.

    Their names, words and options, and for the type and what stands around as many as make four
    tokens. The providers do not tell what they count.
    """
    total = 0
    for question in questions:
        told = () if question.kind == "yes_no" else question.options
        words = (question.name, question.text, *(text for option in told for text in option))
        total += _AROUND + sum(map(len, words))
    return total


def question_of_statement(text: str) -> tuple[str, bool]:
    """Return the question in a statement like those of ``judge_statement``, and if it affirms it.

    Any other statement is its own question.
    """
    for answer, yes in (("Yes", True), ("No", False)):
        end = load_prompt(STATEMENT_PROMPT).render(question="", answer=answer)
        if text.endswith(end) and len(text) > len(end):
            return text[: -len(end)], yes
    return text, True


async def _judged(
    name: str, picture: Picture, questions: Sequence[Question]
) -> list[DecisionAnswer]:
    put = [_put(at, question) for at, question in enumerate(questions)]
    small = [one for one in put if len(one.options) <= _MOST_LETTERED]
    large = [one for one in put if len(one.options) > _MOST_LETTERED]
    judged = await judge(name, picture, small, every=True) if small else []
    # More options than letters: none of the judges takes them.
    judged += await judge(INSTANT, picture, large, every=True) if large else []
    by_number = {one.question.number: one for one in judged}
    return [
        DecisionAnswer(question, _shares(question, by_number[at + 1]), question.values)
        for at, question in enumerate(questions)
    ]


def _put(at: int, question: Question) -> sheets.Question:
    if question.kind == "choice":
        text = restored(question.text)
        return sheets.Question(at + 1, text, {value: value for value in question.values})
    text, _ = question_of_statement(question.text)
    return sheets.Question(at + 1, restored(text), sheets.YES_NO)


def _shares(question: Question, judged: Judged) -> tuple[float, ...]:
    chances = dict(judged.chances)
    if question.kind == "choice":
        return tuple(chances[value] for value in question.values)
    yes = chances["yes"]
    if question.kind == "yes_no":
        _, holds = question_of_statement(question.text)
        first = yes if holds == (question.values[0] == "yes") else 1.0 - yes
        return (first, 1.0 - first)
    # The binomial distribution whose expected level is the probability of a yes.
    steps = len(question.options) - 1
    return tuple(
        math.comb(steps, at) * yes**at * (1.0 - yes) ** (steps - at) for at in range(steps + 1)
    )


def _refused(asked: DecisionRequest) -> tuple[DecisionAnswer, ...]:
    return tuple(DecisionAnswer(question, None) for question in asked.questions)


def _outside(told: DecisionAnswer) -> DecisionAnswer:
    if told.question.kind == "yes_no":
        return replace(told, shares=(IMPROBABLE, 1.0 - IMPROBABLE))
    return replace(told, values=(OUTSIDE, *told.values[1:]))


def _broken(body: bytes, fault: Fault | None) -> bytes:
    if fault is Fault.TRUNCATED_JSON:
        return body[: len(body) // 2]
    return body.replace(b'":', b'" ', 1) if fault is Fault.INVALID_JSON else body


MOST_OPTIONS = 255
"""Options of a choice, and levels of a score."""


def questions_of(body: dict[str, Any], most: int, true: str) -> tuple[Question, ...]:
    """Return the questions of a request, at most ``most``.

    ``true``: the key of the criterion of a yes/no question that says what its "true" means. Raises
    ``Problem``.
    """
    asked = as_object(body.get("questions"), "questions")
    if not 1 <= len(asked) <= most:
        raise Problem.invalid(f"questions: give 1 to {most}", "questions")
    return tuple(_question(name, one, true) for name, one in asked.items())


def answers_of(
    told: Sequence[DecisionAnswer], digits: int, sure: Callable[[Sequence[float]], float]
) -> dict[str, dict[str, Any]]:
    """Return the answers by name, a refused one left out, with probabilities of so many ``digits``.

    ``sure``: the provider's measure of the confidence in a choice or a score.
    """
    return {
        one.question.name: _answer(one, one.shares, digits, sure)
        for one in told
        if one.shares is not None
    }


def _question(name: str, asked: object, true: str) -> Question:
    place = f"questions[{name}]"
    question = as_object(asked, place)
    text = as_text(question.get("instructions"), f"{place}.instructions")
    kind, criteria = question.get("type"), question.get("criteria")
    if kind == "noul":
        told = {} if criteria is None else as_object(criteria, f"{place}.criteria")
        order = ("no", "yes") if told.get(true) == "no" else ("yes", "no")
        return Question(name, "yes_no", text, tuple((value, "") for value in order))
    if kind == "choice":
        given = as_object(criteria, f"{place}.criteria")
        options = tuple((value, told or "") for value, told in given.items())
    elif kind == "score":
        levels = as_list(criteria, f"{place}.criteria")
        options = tuple((str(at), told) for at, told in enumerate(levels))
    else:
        raise Problem.invalid(f"{place}.type: use noul, choice or score", place)
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise Problem.invalid(f"{place}.criteria: give 2 to {MOST_OPTIONS}", place)
    return Question(name, kind, text, options)


def _answer(
    told: DecisionAnswer,
    shares: Sequence[float],
    digits: int,
    sure: Callable[[Sequence[float]], float],
) -> dict[str, Any]:
    kind = told.question.kind
    if kind == "yes_no":
        return {"type": "noul", "noul": round(shares[0], digits)}
    spread = {value: round(share, digits) for value, share in zip(told.values, shares, strict=True)}
    confidence = round(sure(shares), digits) if told.confidence is None else told.confidence
    ends = {"confidence": confidence, "probabilities": spread}
    if kind == "choice":
        return {"type": "choice", "choice": told.values[told.likeliest], **ends}
    legend = dict(told.question.options)
    return {"type": "score", "score": round(told.level, digits), "legend": legend, **ends}

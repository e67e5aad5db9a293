"""Typed questions about an image, in any provider's format: read, judged, bent by a fault.

OpenAI's decisions: ``POST /v1/decisions``. Gemini's: ``POST /v1beta/decisions``. System One: ``POST
/v1/systemone`` and the addresses at which hosts serve the same. OpenAI lists questions and answers,
the others send maps of them.

System One's picture may come among ``assets``, among ``images`` or as an ``image_url`` part of the
state, as the hosts of ``hosts.toml`` take it; Cloudflare's reply lies inside ``result``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request, Response

from scenewright.agents.judges.decisions.questions import STATEMENT_PROMPT, Question, restored
from scenewright.agents.judges.pictures import character_tokens
from scenewright.mock_providers import sheets
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.models import INSTANT, bare_name, is_script, judge
from scenewright.mock_providers.pictures import Picture, decode_base64, from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.refusals import check_form
from scenewright.mock_providers.request_input import Finish, Visit, encoded, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.wire import (
    Block,
    Format,
    Reading,
    TokenCounts,
    as_list,
    as_object,
    as_text,
    objects,
    text_part,
)
from scenewright.prompts import load_prompt

_OUTSIDE = "maybe"
_IMPROBABLE = 1.7
_MOST_LETTERED = 26
_AROUND = 16
_CLIP = 0.01
"""A ``noul`` of Gemini lies between this and 1 minus this."""
MOST_OPTIONS = 255
"""Options of a choice, and levels of a score."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request, whichever provider's format it came in."""

    model: str
    """The model's name as given."""
    questions: tuple[Question, ...]
    """The questions, in order; an empty name: it has none."""
    given: Reading
    """Texts and images beside them; the last image is judged."""

    @property
    def characters(self) -> int:
        """Length of all texts.

        Of a question the name, words and options, and for the type and what stands around as many
        as make four tokens. The providers do not tell what they count.
        """
        total = self.given.characters
        for question in self.questions:
            told = () if question.kind == "yes_no" else question.options
            words = (question.name, question.text, *(text for option in told for text in option))
            total += _AROUND + sum(map(len, words))
        return total


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """Answer of a model to one question."""

    question: Question
    """The question."""
    shares: tuple[float, ...] | None
    """Probability of each option, in the order offered; none: refused."""
    values: tuple[str, ...] = ()
    """The options that they belong to."""
    confidence: float | None = None
    """Confidence after a fault; none: the provider's own measure."""


class DecisionFormat(Format, ABC):
    """One provider's format of typed questions about an image and their answers.

    The tokens of an image are a guess: the rules are not published.
    """

    image_rule = "tiles-258"
    low_detail_tokens = 85
    digits: int
    """Digits of probabilities."""
    lists = False
    """Whether answers come in a list, refused ones included; else in a map without them."""

    @abstractmethod
    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """Return the request; raises ``Problem`` for what cannot be read."""

    @abstractmethod
    def confidence(self, shares: Sequence[float]) -> float:
        """Return the provider's measure of the confidence in a choice or a score."""

    def refused(self, asked: DecisionRequest, spent: TokenCounts) -> Any:
        """Return the body of a response that refuses the whole, or a ``Problem``."""
        refused = [DecisionAnswer(question, None) for question in asked.questions]
        return self.reply(asked, refused, spent)

    def reply(
        self, asked: DecisionRequest, answers: Sequence[DecisionAnswer], spent: TokenCounts
    ) -> Any:
        """Return the body of a response; ``asked``: with the name of the model that answers."""
        told: Any = [self._answer(one) for one in answers]
        if not self.lists:
            named = zip(answers, told, strict=True)
            told = {one.question.name: answer for one, answer in named if one.shares is not None}
        usage = self.shaped("usage", spent)
        return self.shaped("decisions", model=asked.model, answers=told, usage=usage)

    def _answer(self, told: DecisionAnswer) -> Any:
        question, shares, digits = told.question, told.shares, self.digits
        if shares is None:
            return self.shaped("refused_answer", name=question.name or None) if self.lists else None
        rounded = [round(share, digits) for share in shares]
        rows = [
            {"value": value, "probability": share}
            for value, share in zip(told.values, rounded, strict=True)
        ]
        if question.kind == "score":
            for row, (_, label) in zip(rows, question.options, strict=True):
                value = str(row["value"])
                row |= {"value": int(value) if value.isdecimal() else value, "label": label}
        clipped = shares[0]
        if 0.0 <= clipped <= 1.0:
            clipped = round(min(1.0 - _CLIP, max(_CLIP, clipped)), digits)
        sure = told.confidence
        if sure is None and question.kind == "yes_no":
            sure = max(clipped, 1.0 - clipped)
        elif sure is None:
            sure = round(self.confidence(shares), digits)
        return self.shaped(
            f"{question.kind}_answer",
            name=question.name or None,
            first=rounded[0],
            clipped=clipped,
            confidence=sure,
            choice=told.values[max(range(len(shares)), key=shares.__getitem__)],
            score=round(math.fsum(at * share for at, share in enumerate(shares)), digits),
            spread=dict(zip(told.values, rounded, strict=True)),
            legend=dict(question.options),
            rows=rows,
        )


async def decide(lab: MockProviders, request: Request, form: DecisionFormat) -> Response:
    """Return the answer of ``lab`` to a request with typed questions."""

    async def prepare(visit: Visit) -> Finish:
        body = json_object(visit.body)
        check_form(form.place, body)
        asked = form.read(body)
        asked, name = lab.swaps.answering(asked, bare_name(asked.model))
        if is_script(name):
            raise Problem.invalid(f"{asked.model} follows a script: it decides nothing", "model")
        pictures, spent = await lab.measure(form, asked.given, character_tokens(asked.characters))
        visit.charge(spent.tokens_in)
        if not pictures:
            raise Problem.image("the request holds no image: the mock server's models look at one")

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            if fault is Fault.REFUSAL:
                return form.refused(asked, spent), 0
            judged = await _judged(name, pictures[-1], asked.questions)
            body = encoded(form.reply(asked, bend_answers(judged, fault, visit.chance), spent))
            if fault is Fault.TRUNCATED_JSON:
                body = body[: len(body) // 2]
            elif fault is Fault.INVALID_JSON:
                body = body.replace(b'":', b'" ', 1)
            return body, 0

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
        return tuple(replace(one, confidence=_IMPROBABLE) for one in found)
    if fault is Fault.OUTSIDE_OPTIONS:
        return tuple(
            replace(one, shares=(_IMPROBABLE, 1.0 - _IMPROBABLE))
            if one.question.kind == "yes_no"
            else replace(one, values=(_OUTSIDE, *one.values[1:]))
            for one in found
        )
    if fault is Fault.WRONG_NUMBER:
        if chance.number % 2:
            found.pop()
        else:
            extra = replace(found[-1].question, name=f"{found[-1].question.name}x")
            found.append(replace(found[-1], question=extra))
    return tuple(found)


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
    put, holding = [], []
    for at, question in enumerate(questions, start=1):
        text, holds = question.text, True
        options: Mapping[str, str] = {value: value for value in question.values}
        if question.kind != "choice":
            (text, holds), options = question_of_statement(text), sheets.YES_NO
        put.append(sheets.Question(at, restored(text), options))
        holding.append(holds)
    small = [one for one in put if len(one.options) <= _MOST_LETTERED]
    large = [one for one in put if len(one.options) > _MOST_LETTERED]
    judged = await judge(name, picture, small) if small else []
    # More options than letters: none of the judges takes them.
    judged += await judge(INSTANT, picture, large) if large else []
    by_number = {one.question.number: dict(one.chances) for one in judged}
    found = []
    for at, (question, holds) in enumerate(zip(questions, holding, strict=True), start=1):
        chances = by_number[at]
        if question.kind == "choice":
            shares = [chances[value] for value in question.values]
        elif question.kind == "yes_no":
            yes = chances["yes"]
            first = yes if holds == (question.values[0] == "yes") else 1.0 - yes
            shares = [first, 1.0 - first]
        else:
            # The binomial distribution whose expected level is the probability of a yes.
            yes, steps = chances["yes"], len(question.options) - 1
            shares = [
                math.comb(steps, step) * yes**step * (1.0 - yes) ** (steps - step)
                for step in range(steps + 1)
            ]
        found.append(DecisionAnswer(question, tuple(shares), question.values))
    return found


def questions_of(body: dict[str, Any], most: int, true: str) -> tuple[Question, ...]:
    """Return the questions of a request, at most ``most``.

    ``true``: the key of the criterion of a yes/no question that says what its "true" means. Raises
    ``Problem``.
    """
    asked = as_object(body.get("questions"), "questions")
    if not 1 <= len(asked) <= most:
        raise Problem.invalid(f"questions: give 1 to {most}", "questions")
    return tuple(
        question_of(name, one, f"questions[{name}]", MOST_OPTIONS, true)
        for name, one in asked.items()
    )


def question_of(name: str, asked: object, place: str, most: int, true: str = "") -> Question:
    """Return a question of a map, with at most so many options; raises ``Problem``.

    ``true``: see :func:`questions_of`.
    """
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
        raise Problem.invalid(f"{place}.type: this format knows no {kind!r}", f"{place}.type")
    if not 2 <= len(options) <= most:
        raise Problem.invalid(f"{place}.criteria: give 2 to {most}", place)
    return Question(name, kind, text, options)


OPENAI_MOST_QUESTIONS = 400
_DETAILS = (None, "low", "high", "auto", "original")
_OPTION_LISTS = {"choice": ("choices", "value", 255), "score": ("levels", "label", 10)}
"""Field of the options of each kind of question, the key of an option's words, most options."""


class OpenAIDecisions(DecisionFormat):
    """Decisions, their questions in a list."""

    provider, place = "openai", "decisions"
    digits = 4
    lists = True

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        reading = Reading({"input_text": text_part, "input_image": _image})
        given = body.get("input")
        messages = [{"content": given}] if isinstance(given, str) else given
        for place, message in objects(messages, "input"):
            content = message.get("content")
            if not isinstance(content, str):
                content = as_list(content, f"{place}.content")
            reading.blocks(content, f"{place}.content")
        asked = list(objects(body.get("questions"), "questions"))
        if not 1 <= len(asked) <= OPENAI_MOST_QUESTIONS:
            raise Problem.invalid(f"questions: give 1 to {OPENAI_MOST_QUESTIONS}", "questions")
        questions = []
        for place, question in asked:
            # As it would be in a map of questions.
            name = as_text(question.get("name", ""), f"{place}.name")
            kind = str(question.get("type"))
            put = {**question, "type": {"predicate": "noul", "noul": "unknown"}.get(kind, kind)}
            field, key, most = _OPTION_LISTS.get(kind, ("", "", 0))
            if field:
                words = [
                    as_text(option.get(key), f"{where}.{key}")
                    for where, option in objects(question.get(field), f"{place}.{field}")
                ]
                put["criteria"] = words if kind == "score" else dict.fromkeys(words)
                if kind == "choice" and len(set(words)) < len(words):
                    raise Problem.invalid(f"{place}.{field}: give each once", f"{place}.{field}")
            questions.append(question_of(name, put, place, most))
        return DecisionRequest(as_text(body.get("model"), "model"), tuple(questions), reading)

    def confidence(self, shares: Sequence[float]) -> float:
        """Return the distance from an even spread: 1 minus the entropy's share of its most."""
        entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
        return 1.0 - entropy / math.log(len(shares))


def _image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    if part.get("detail") not in _DETAILS:
        raise Problem.invalid("detail: use low, high, auto or original", where)
    param = f"{where}.image_url"
    data = from_data_url(part.get("image_url"), param)
    return reading.picture(data, param, low_detail=part.get("detail") == "low")


GEMINI_MOST_QUESTIONS = 1000
_RESOLUTIONS = (None, "low", "medium", "high", "ultra_high")


class GeminiDecisions(DecisionFormat):
    """Decisions, their questions in a map.

    A reply names no model, and only the whole is refused: a question that is refused is left out.
    """

    provider, place = "gemini", "gemini decisions"
    digits = 2

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        reading, given = Reading({"text": text_part, "image": _gemini_image}), body.get("input")
        parts = [given] if isinstance(given, dict) else given
        reading.blocks(parts if isinstance(parts, str) else as_list(parts, "input"), "input")
        questions = questions_of(body, GEMINI_MOST_QUESTIONS, "true_description")
        for one in questions:
            place = f"questions[{one.name}]"
            if not one.name or one.name != one.name.strip() or not one.name.isprintable():
                raise Problem.invalid(
                    f"{place}: an identifier without outer spaces and controls", place
                )
            if one.kind == "score" and not all(level for _, level in one.options):
                raise Problem.invalid(f"{place}.criteria: describe every level", place)
        model = as_text(body.get("model"), "model").removeprefix("models/")
        return DecisionRequest(model, questions, reading)

    def confidence(self, shares: Sequence[float]) -> float:
        """Return the highest share."""
        return max(shares)

    def refused(self, asked: DecisionRequest, spent: TokenCounts) -> Any:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        return self.shaped("blocked_decisions", usage=self.shaped("usage", spent))


def _gemini_image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    if part.get("resolution") not in _RESOLUTIONS:
        raise Problem.invalid("resolution: use low, medium, high or ultra_high", "input")
    param = f"{where}.data"
    return reading.picture(decode_base64(part.get("data"), param), param)


SYSTEMONE_MOST_QUESTIONS = 128
_MOST_PICTURES = 4


class SystemOne(DecisionFormat):
    """System One, as its hosts serve it.

    A question that is refused is left out, and a refusal of the whole is an error.
    """

    place = "systemone"
    digits = 4

    def __init__(self, provider: str = "systemone") -> None:
        """``provider``: whose envelope lies around replies."""
        self.provider = provider

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        if "state" not in body:
            raise Problem.invalid("state: Field required", "state")
        questions = questions_of(body, SYSTEMONE_MOST_QUESTIONS, "true")
        reading, state = Reading({}), body["state"]
        texts = str(state) + str(body.get("questions"))
        for name, asset in as_object(body.get("assets") or {}, "assets").items():
            place = f"assets[{name}]"
            if name not in texts:
                raise Problem.invalid(f"{place}: no text names it", "assets")
            data = as_object(asset, place).get("data_base64")
            reading.picture(decode_base64(data, f"{place}.data_base64"), "images")
        shown = [
            (f"images[{at}]", image)
            for at, image in enumerate(as_list(body.get("images") or [], "images"))
        ]
        for at, part in enumerate(state if isinstance(state, list) else ()):
            if isinstance(part, dict) and part.get("type") == "image_url":
                place = f"state[{at}].image_url"
                shown.append((place, as_object(part.get("image_url"), place).get("url")))
        for place, given in shown:
            is_url = isinstance(given, str) and given.startswith("data:")
            reading.picture((from_data_url if is_url else decode_base64)(given, place), "images")
        if len(reading.images) > _MOST_PICTURES:
            raise Problem.invalid(f"give at most {_MOST_PICTURES} images", "images")
        return DecisionRequest(as_text(body.get("model"), "model"), questions, reading)

    def confidence(self, shares: Sequence[float]) -> float:
        """Return the share of the likeliest option above an even one."""
        even = 1.0 / len(shares)
        return max(0.0, (max(shares) - even) / (1.0 - even))

    def refused(self, asked: DecisionRequest, spent: TokenCounts) -> Any:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        return Problem.invalid("the content was refused by the safety filter", "state")

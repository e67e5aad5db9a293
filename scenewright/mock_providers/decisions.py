"""Typed questions about an image, in any provider's format: read, judged, bent by a fault.

OpenAI's decisions: ``POST /v1/decisions``. Gemini's: ``POST /v1beta/decisions``. System One: ``POST
/v1/systemone`` and the addresses at which hosts serve the same. OpenAI lists questions and answers,
the others send maps of them.

System One's picture may come among ``assets``, among ``images`` or as an ``image_url`` part of the
state, as the hosts of ``hosts.toml`` take it; Cloudflare's reply lies inside ``result``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request, Response

from scenewright.agents.judges.decisions.questions import STATEMENT_PROMPT, Question, restored
from scenewright.agents.judges.pictures import character_tokens, image_tokens
from scenewright.mock_providers import sheets
from scenewright.mock_providers.accounts import Left
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.gemini_content import GeminiFormat
from scenewright.mock_providers.models import INSTANT, bare_name, is_script, judge
from scenewright.mock_providers.openai_text import OpenAIFormat, usage
from scenewright.mock_providers.pictures import Picture, decode_base64, from_data_url
from scenewright.mock_providers.problems import Problem, whole_seconds
from scenewright.mock_providers.request_input import Finish, Visit, encoded, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.turns import Block, Reading, text_part
from scenewright.mock_providers.wire import (
    Format,
    TokenCounts,
    as_list,
    as_object,
    as_text,
    objects,
)
from scenewright.prompts import load_prompt

OUTSIDE = "maybe"
"""Option that no question offers."""
IMPROBABLE = 1.7
"""Number in place of a probability."""
_MOST_LETTERED = 26
_AROUND = 16


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
        """Length of all texts, by :func:`characters_of` for the questions."""
        return self.given.characters + characters_of(self.questions)


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
    answers: tuple[DecisionAnswer, ...]
    """The answers, in the order in which they are given."""
    spent: TokenCounts
    """Its tokens."""
    blocked: bool = False
    """The whole request is refused."""


class DecisionFormat(Format):
    """One provider's format of typed questions about an image and their answers."""

    @abstractmethod
    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """Return the request; raises ``Problem`` for what cannot be read."""

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image of ``size``: a guess, the rules are not published."""
        return 85 if low_detail else image_tokens("tiles-258", *size)

    @abstractmethod
    def reply(self, made: DecisionReply) -> Any:
        """Return the body of a response."""


async def decide(lab: MockProviders, request: Request, form: DecisionFormat) -> Response:
    """Return the answer of ``lab`` to a request with typed questions."""

    async def prepare(visit: Visit) -> Finish:
        asked = form.read(json_object(visit.body))
        asked, name = lab.swaps.answering(asked, bare_name(asked.model))
        if is_script(name):
            raise Problem.invalid(f"{asked.model} follows a script: it decides nothing", "model")
        given = asked.given
        looks = [await lab.pictures.look(data, given.image_param) for data in given.images]
        of_images = sum(form.image_tokens(look.size, given.low_detail) for look in looks)
        spent = TokenCounts(character_tokens(asked.characters) + of_images, of_images, 0)
        visit.charge(spent.tokens_in)
        if not looks:
            raise Problem.image("the request holds no image: the mock server's models look at one")

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            if fault is Fault.REFUSAL:
                refused = tuple(DecisionAnswer(question, None) for question in asked.questions)
                return form.reply(DecisionReply(asked, refused, spent, blocked=True)), 0
            told = bend_answers(
                await _judged(name, looks[-1], asked.questions), fault, visit.chance
            )
            body = encoded(form.reply(DecisionReply(asked, told, spent)))
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
        return tuple(replace(one, confidence=IMPROBABLE) for one in found)
    if fault is Fault.OUTSIDE_OPTIONS:
        return tuple(
            replace(one, shares=(IMPROBABLE, 1.0 - IMPROBABLE))
            if one.question.kind == "yes_no"
            else replace(one, values=(OUTSIDE, *one.values[1:]))
            for one in found
        )
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
    put = []
    for at, question in enumerate(questions, start=1):
        if question.kind == "choice":
            options = {value: value for value in question.values}
            put.append(sheets.Question(at, restored(question.text), options))
        else:
            text, _ = question_of_statement(question.text)
            put.append(sheets.Question(at, restored(text), sheets.YES_NO))
    small = [one for one in put if len(one.options) <= _MOST_LETTERED]
    large = [one for one in put if len(one.options) > _MOST_LETTERED]
    judged = await judge(name, picture, small) if small else []
    # More options than letters: none of the judges takes them.
    judged += await judge(INSTANT, picture, large) if large else []
    by_number = {one.question.number: one for one in judged}
    return [
        DecisionAnswer(question, _shares(question, by_number[at + 1]), question.values)
        for at, question in enumerate(questions)
    ]


def _shares(question: Question, judged: sheets.Judged) -> tuple[float, ...]:
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
    return tuple(
        question_of(name, one, f"questions[{name}]", MOST_OPTIONS, true)
        for name, one in asked.items()
    )


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


OPENAI_MOST_QUESTIONS = 400
MOST_CHOICES = 255
MOST_LEVELS = 10
DETAILS = (None, "low", "high", "auto", "original")
_OPENAI_DIGITS = 4


class OpenAIDecisions(DecisionFormat, OpenAIFormat):
    """Decisions, their questions in a list."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        known = {
            "model", "input", "questions", "prompt_cache_key", "prompt_cache_options",
            "safety_identifier",
        }  # fmt: skip
        for name in body:
            if name not in known:
                raise Problem.invalid(f"Unknown parameter: '{name}'.", name)
        reading, given = Reading(_OPENAI_PARTS), body.get("input")
        messages = [{"content": given}] if isinstance(given, str) else given
        for place, message in objects(messages, "input"):
            content = message.get("content")
            if not isinstance(content, str):
                content = as_list(content, f"{place}.content")
            reading.blocks(content, f"{place}.content")
        asked = list(objects(body.get("questions"), "questions"))
        if not 1 <= len(asked) <= OPENAI_MOST_QUESTIONS:
            raise Problem.invalid(f"questions: give 1 to {OPENAI_MOST_QUESTIONS}", "questions")
        questions = tuple(_openai_question(question, place) for place, question in asked)
        return DecisionRequest(as_text(body.get("model"), "model"), questions, reading)

    def reply(self, made: DecisionReply) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`.

        Refusals are answers here.
        """
        return {
            "model": made.asked.model,
            "answers": [_openai_answer(told) for told in made.answers],
            "usage": usage(made.spent),
        }


def _openai_image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    if part.get("detail") not in DETAILS:
        raise Problem.invalid("detail: use low, high, auto or original", where)
    param = f"{where}.image_url"
    data = from_data_url(part.get("image_url"), param)
    return reading.picture(data, param, low_detail=part.get("detail") == "low")


_OPENAI_PARTS = {"input_text": text_part, "input_image": _openai_image}
_OPTION_LISTS = {
    "choice": ("choices", "value", MOST_CHOICES),
    "score": ("levels", "label", MOST_LEVELS),
}
"""Field of the options of each kind of question, the key of an option's words, most options."""


def _openai_question(question: dict[str, Any], place: str) -> Question:
    """Return a question by what it is in a map of questions."""
    name, kind = as_text(question.get("name", ""), f"{place}.name"), str(question.get("type"))
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
    return question_of(name, put, place, most)


def _openai_answer(told: DecisionAnswer) -> dict[str, Any]:
    name = told.question.name or None
    shares = told.shares
    if shares is None:
        return {"type": "refusal", "name": name}
    if told.question.kind == "yes_no":
        return {"type": "predicate", "name": name, "probability": round(shares[0], _OPENAI_DIGITS)}
    confidence = told.confidence if told.confidence is not None else _peak(shares)
    common_part = {"type": told.question.kind, "name": name, "confidence": confidence}
    rows = [
        {"value": value, "probability": round(share, _OPENAI_DIGITS)}
        for value, share in zip(told.values, shares, strict=True)
    ]
    if told.question.kind == "choice":
        return {**common_part, "choice": told.values[told.likeliest], "probabilities": rows}
    for row, (_, label) in zip(rows, told.question.options, strict=True):
        value = str(row["value"])
        row |= {"value": int(value) if value.isdecimal() else value, "label": label}
    return {**common_part, "score": round(told.level, _OPENAI_DIGITS), "probabilities": rows}


def _peak(shares: tuple[float, ...]) -> float:
    """Return the distance from an even spread: 1 minus the entropy's share of its most."""
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
    return round(1.0 - entropy / math.log(len(shares)), _OPENAI_DIGITS)


GEMINI_MOST_QUESTIONS = 1000
CLIP = 0.01
"""A ``noul`` lies between this and 1 minus this."""
RESOLUTIONS = (None, "low", "medium", "high", "ultra_high")
_GEMINI_DIGITS = 2


class GeminiDecisions(DecisionFormat, GeminiFormat):
    """Decisions, their questions in a map."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        reading, given = Reading(_GEMINI_PARTS), body.get("input")
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

    def reply(self, made: DecisionReply) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`.

        Names no model, and knows only refusals of the whole: a question that is refused is left
        out.
        """
        spent = made.spent
        told_usage = {
            "total_input_tokens": spent.tokens_in,
            "input_tokens_by_modality": [
                {"modality": "text", "tokens": spent.tokens_in - spent.image_tokens},
                {"modality": "image", "tokens": spent.image_tokens},
            ],
            "total_output_tokens": spent.tokens_out,
            "total_tokens": spent.tokens_in + spent.tokens_out,
        }
        if made.blocked:
            return {"prompt_feedback": {"block_reason": "image_safety"}, "usage": told_usage}
        answers = answers_of(made.answers, _GEMINI_DIGITS, max)
        for told in made.answers:
            if told.question.kind == "yes_no" and told.shares is not None:
                noul = told.shares[0]
                if 0.0 <= noul <= 1.0:
                    noul = round(min(1.0 - CLIP, max(CLIP, noul)), _GEMINI_DIGITS)
                sure = max(noul, 1.0 - noul) if told.confidence is None else told.confidence
                answers[told.question.name] = {"type": "noul", "noul": noul, "confidence": sure}
        return {"answers": answers, "usage": told_usage}


def _gemini_image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    if part.get("resolution") not in RESOLUTIONS:
        raise Problem.invalid("resolution: use low, medium, high or ultra_high", "input")
    param = f"{where}.data"
    return reading.picture(decode_base64(part.get("data"), param), param)


_GEMINI_PARTS = {"text": text_part, "image": _gemini_image}


SYSTEMONE_MOST_QUESTIONS = 128
MOST_PICTURES = 4
_SYSTEMONE_DIGITS = 4


@dataclass(frozen=True, slots=True)
class SystemOne(DecisionFormat):
    """System One, as its hosts serve it."""

    wrapped: bool = False
    """Whether the reply lies inside ``result``, as Cloudflare's does."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        for name in body:
            if name not in {"model", "state", "questions", "assets", "images"}:
                raise Problem.invalid(f"{name}: Extra inputs are not permitted", name)
        if "state" not in body:
            raise Problem.invalid("state: Field required", "state")
        questions = questions_of(body, SYSTEMONE_MOST_QUESTIONS, "true")
        reading = Reading({})
        for data in (*_assets(body), *_images(body)):
            reading.picture(data, "images")
        if len(reading.images) > MOST_PICTURES:
            raise Problem.invalid(f"give at most {MOST_PICTURES} images", "images")
        return DecisionRequest(as_text(body.get("model"), "model"), questions, reading)

    def reply(self, made: DecisionReply) -> Any:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`.

        A question that is refused is left out, and a refusal of the whole is an error.
        """
        if made.blocked:
            return Problem.invalid("the content was refused by the safety filter", "state")
        answers = answers_of(made.answers, _SYSTEMONE_DIGITS, _margin)
        spent = {"input_tokens": made.spent.tokens_in, "output_tokens": 0}
        body = {"model": made.asked.model, "answers": answers, "usage": spent}
        if self.wrapped:
            return {"result": body, "success": True, "errors": [], "messages": []}
        return body

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the ``detail`` of the error, or Cloudflare's list of ``errors``."""
        if self.wrapped:
            errors = [{"code": 5000, "message": problem.message}]
            return {"result": None, "success": False, "errors": errors, "messages": []}
        return {"detail": problem.message}

    def headers(
        self, id: str, problem: Problem | None = None, limits: Sequence[Left] = ()
    ) -> dict[str, str]:
        """Return the request's id, and when to come again."""
        found = {"x-request-id": id, "cf-ray": id}
        if problem is not None and problem.retry_after is not None:
            found["retry-after"] = str(whole_seconds(problem.retry_after))
        return found


def _assets(body: dict[str, Any]) -> Iterator[bytes]:
    given = body.get("assets") or {}
    text = str(body["state"]) + str(body.get("questions"))
    for name, asset in as_object(given, "assets").items():
        if name not in text:
            raise Problem.invalid(f"assets[{name}]: no text names it", "assets")
        data = as_object(asset, f"assets[{name}]").get("data_base64")
        yield decode_base64(data, f"assets[{name}].data_base64")


def _images(body: dict[str, Any]) -> Iterator[bytes]:
    for at, image in enumerate(as_list(body.get("images") or [], "images")):
        yield _picture(image, f"images[{at}]")
    state = body["state"]
    for at, part in enumerate(state if isinstance(state, list) else ()):
        if isinstance(part, dict) and part.get("type") == "image_url":
            place = f"state[{at}].image_url"
            yield _picture(as_object(part.get("image_url"), place).get("url"), place)


def _picture(given: object, place: str) -> bytes:
    if isinstance(given, str) and given.startswith("data:"):
        return from_data_url(given, place)
    return decode_base64(given, place)


def _margin(shares: Sequence[float]) -> float:
    """Return the share of the likeliest option above an even one."""
    even = 1.0 / len(shares)
    return max(0.0, (max(shares) - even) / (1.0 - even))

"""OpenAI's decisions: ``POST /v1/decisions``.

Gemini's decisions: ``POST /v1beta/decisions``.

System One: ``POST /v1/systemone`` and the addresses at which hosts serve the same.

A picture may come among ``assets``, among ``images`` or as an ``image_url`` part of the state, as
the hosts of ``hosts.toml`` take it; Cloudflare's reply lies inside ``result``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.judges import pictures
from scenewright.agents.judges.decisions.asking import Question
from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers.decisions import (
    DecisionAnswer,
    DecisionReply,
    DecisionRequest,
    answers_of,
    characters_of,
    questions_of,
)
from scenewright.mock_providers.gemini_content import GeminiFormat
from scenewright.mock_providers.openai_text import OpenAIFormat, usage
from scenewright.mock_providers.pictures import decode_base64, from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import Limits, as_list, as_object, as_text, whole_seconds

OPENAI_MOST_QUESTIONS = 400
MOST_CHOICES = 255
MOST_LEVELS = 10
DETAILS = (None, "low", "high", "auto", "original")
_OPENAI_DIGITS = 4


class OpenAIDecisions(OpenAIFormat):
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        known = {
            "model", "input", "questions", "prompt_cache_key", "prompt_cache_options",
            "safety_identifier",
        }  # fmt: skip
        for name in body:
            if name not in known:
                raise Problem.invalid(f"Unknown parameter: '{name}'.", name)
        images: list[bytes] = []
        param, low, characters = None, False, 0
        given = body.get("input")
        messages = [{"content": given}] if isinstance(given, str) else as_list(given, "input")
        for at, entry in enumerate(messages):
            content = as_object(entry, f"input[{at}]").get("content")
            if isinstance(content, str):
                content = [{"type": "input_text", "text": content}]
            for n, piece in enumerate(as_list(content, f"input[{at}].content")):
                place = f"input[{at}].content[{n}]"
                part = as_object(piece, place)
                if part.get("type") == "input_image":
                    if part.get("detail") not in DETAILS:
                        raise Problem.invalid("detail: use low, high, auto or original", place)
                    param = f"{place}.image_url"
                    images.append(from_data_url(part.get("image_url"), param))
                    low = low or part.get("detail") == "low"
                elif part.get("type") == "input_text":
                    characters += len(as_text(part.get("text"), f"{place}.text"))
                else:
                    raise Problem.invalid(f"{place}: the mock server reads texts and images", place)
        asked = as_list(body.get("questions"), "questions")
        if not 1 <= len(asked) <= OPENAI_MOST_QUESTIONS:
            raise Problem.invalid(f"questions: give 1 to {OPENAI_MOST_QUESTIONS}", "questions")
        questions = tuple(_question(one, f"questions[{at}]") for at, one in enumerate(asked))
        return DecisionRequest(
            model=as_text(body.get("model"), "model"),
            questions=questions,
            images=tuple(images),
            image_param=param,
            characters=characters + characters_of(questions),
            low_detail=low,
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """As Gemini's, a guess: the rule of this model is not published."""
        return 85 if low_detail else pictures.image_tokens("tiles-258", *size)

    def reply(self, made: DecisionReply) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`.

        Refusals are answers here.
        """
        return {
            "model": made.asked.model,
            "answers": [_answer(told) for told in made.told],
            "usage": usage(made.spent).model_dump(mode="json", exclude_unset=True),
        }


def _question(given: object, place: str) -> Question:
    question = as_object(given, place)
    name = as_text(question.get("name", ""), f"{place}.name")
    text = as_text(question.get("instructions"), f"{place}.instructions")
    kind = question.get("type")
    if kind == "predicate":
        return Question(name, "yes_no", text, (("yes", ""), ("no", "")))
    if kind == "choice":
        values = []
        for at, one in enumerate(as_list(question.get("choices"), f"{place}.choices")):
            value = as_object(one, f"{place}.choices[{at}]").get("value")
            values.append(as_text(value, f"{place}.choices[{at}].value"))
        if not 2 <= len(values) <= MOST_CHOICES or len(set(values)) < len(values):
            raise Problem.invalid(
                f"{place}.choices: give 2 to {MOST_CHOICES}, each once", f"{place}.choices"
            )
        return Question(name, "choice", text, tuple((value, "") for value in values))
    if kind == "score":
        labels = []
        for at, one in enumerate(as_list(question.get("levels"), f"{place}.levels")):
            label = as_object(one, f"{place}.levels[{at}]").get("label")
            labels.append(as_text(label, f"{place}.levels[{at}].label"))
        if not 2 <= len(labels) <= MOST_LEVELS:
            raise Problem.invalid(f"{place}.levels: give 2 to {MOST_LEVELS}", f"{place}.levels")
        return Question(
            name, "score", text, tuple((str(at), label) for at, label in enumerate(labels))
        )
    raise Problem.invalid(f"{place}.type: use predicate, choice or score", f"{place}.type")


def _answer(told: DecisionAnswer) -> dict[str, Any]:
    name = told.question.name or None
    shares = told.shares
    if shares is None:
        return {"type": "refusal", "name": name}
    if told.question.kind == "yes_no":
        return {"type": "predicate", "name": name, "probability": round(shares[0], _OPENAI_DIGITS)}
    confidence = told.confidence if told.confidence is not None else _peak(shares)
    common_part = {"type": told.question.kind, "name": name, "confidence": confidence}
    if told.question.kind == "choice":
        return {
            **common_part,
            "choice": told.values[told.likeliest],
            "probabilities": [
                {"value": value, "probability": round(share, _OPENAI_DIGITS)}
                for value, share in zip(told.values, shares, strict=True)
            ],
        }
    return {
        **common_part,
        "score": round(told.level, _OPENAI_DIGITS),
        "probabilities": [
            {
                "value": int(value) if value.isdecimal() else value,
                "label": label,
                "probability": round(share, _OPENAI_DIGITS),
            }
            for value, (_, label), share in zip(
                told.values, told.question.options, shares, strict=True
            )
        ],
    }


def _peak(shares: tuple[float, ...]) -> float:
    """How far from evenly spread: 1 minus the entropy's share of its most."""
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
    return round(1.0 - entropy / math.log(len(shares)), _OPENAI_DIGITS)


GEMINI_MOST_QUESTIONS = 1000
CLIP = 0.01
"""A ``noul`` lies between this and 1 minus this."""
RESOLUTIONS = (None, "low", "medium", "high", "ultra_high")
_GEMINI_DIGITS = 2


class GeminiDecisions(GeminiFormat):
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        images: list[bytes] = []
        param, characters = None, 0
        given = body.get("input")
        parts = [{"type": "text", "text": given}] if isinstance(given, str) else given
        parts = [parts] if isinstance(parts, dict) else parts
        for at, piece in enumerate(as_list(parts, "input")):
            part = as_object(piece, f"input[{at}]")
            if part.get("type") == "image":
                if part.get("resolution") not in RESOLUTIONS:
                    raise Problem.invalid(
                        "resolution: use low, medium, high or ultra_high", "input"
                    )
                param = f"input[{at}].data"
                images.append(decode_base64(part.get("data"), param))
            elif part.get("type") == "text":
                characters += len(as_text(part.get("text"), f"input[{at}].text"))
            else:
                raise Problem.invalid(
                    f"input[{at}]: the mock server reads texts and images", "input"
                )
        questions = _checked(questions_of(body, GEMINI_MOST_QUESTIONS, "true_description"))
        return DecisionRequest(
            model=as_text(body.get("model"), "model").removeprefix("models/"),
            questions=questions,
            images=tuple(images),
            image_param=param,
            characters=characters + characters_of(questions),
        )

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
        answers = answers_of(made.told, _GEMINI_DIGITS, max)
        for told in made.told:
            if told.question.kind == "yes_no" and told.shares is not None:
                answers[told.question.name] = _noul(told)
        return {"answers": answers, "usage": told_usage}


def _checked(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    """``questions``, with names and levels that are within Gemini's own rules."""
    for one in questions:
        place = f"questions[{one.name}]"
        if not one.name or one.name != one.name.strip() or not one.name.isprintable():
            raise Problem.invalid(
                f"{place}: an identifier without outer spaces and controls", place
            )
        if one.kind == "score" and not all(level for _, level in one.options):
            raise Problem.invalid(f"{place}.criteria: describe every level", place)
    return questions


def _noul(told: DecisionAnswer) -> dict[str, Any]:
    """Return the answer to a yes/no question, clipped and with its confidence."""
    noul = (told.shares or (0.0,))[0]
    if 0.0 <= noul <= 1.0:
        noul = round(min(1.0 - CLIP, max(CLIP, noul)), _GEMINI_DIGITS)
    sure = max(noul, 1.0 - noul) if told.confidence is None else told.confidence
    return {"type": "noul", "noul": noul, "confidence": sure}


SYSTEMONE_MOST_QUESTIONS = 128
MOST_PICTURES = 4
_SYSTEMONE_DIGITS = 4


@dataclass(frozen=True, slots=True)
class SystemOne:
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

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
        images = [*_assets(body), *_images(body), *_parts(body["state"])]
        if len(images) > MOST_PICTURES:
            raise Problem.invalid(f"give at most {MOST_PICTURES} images", "images")
        return DecisionRequest(
            model=as_text(body.get("model"), "model"),
            questions=questions,
            images=tuple(images),
            image_param="images",
            characters=characters_of(questions),
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """As Gemini's, a guess: each host has its own rule."""
        return image_tokens("tiles-258", *size)

    def reply(self, made: DecisionReply) -> Any:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`.

        A question that is refused is left out, and a refusal of the whole is an error.
        """
        if made.blocked:
            return Problem.invalid("the content was refused by the safety filter", "state")
        answers = answers_of(made.told, _SYSTEMONE_DIGITS, _sure)
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

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
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


def _parts(state: object) -> Iterator[bytes]:
    for at, part in enumerate(state if isinstance(state, list) else ()):
        if isinstance(part, dict) and part.get("type") == "image_url":
            place = f"state[{at}].image_url"
            yield _picture(as_object(part.get("image_url"), place).get("url"), place)


def _picture(given: object, place: str) -> bytes:
    if isinstance(given, str) and given.startswith("data:"):
        return from_data_url(given, place)
    return decode_base64(given, place)


def _sure(shares: Sequence[float]) -> float:
    """How far the likeliest option is above an even share."""
    even = 1.0 / len(shares)
    return max(0.0, (max(shares) - even) / (1.0 - even))

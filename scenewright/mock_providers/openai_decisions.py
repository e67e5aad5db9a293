"""OpenAI's decisions: ``POST /v1/decisions``."""

from __future__ import annotations

import math
from typing import Any

from scenewright.agents.judges import tokens
from scenewright.agents.judges.decisions.asking import Question
from scenewright.mock_providers import openai_common as common
from scenewright.mock_providers.decisions import (
    DecisionAnswer,
    DecisionReply,
    DecisionRequest,
    characters_of,
)
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import Limits, as_list, as_object, as_text

MOST_QUESTIONS = 400
MOST_CHOICES = 255
MOST_LEVELS = 10
DETAILS = (None, "low", "high", "auto", "original")
_DIGITS = 4


class OpenAIDecisions:
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

    name = "openai"

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
                    raise Problem.invalid(f"{place}: the lab reads texts and images", place)
        asked = as_list(body.get("questions"), "questions")
        if not 1 <= len(asked) <= MOST_QUESTIONS:
            raise Problem.invalid(f"questions: give 1 to {MOST_QUESTIONS}", "questions")
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
        return 85 if low_detail else tokens.image_tokens("tiles-258", *size)

    def reply(self, made: DecisionReply) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`; refusals are answers
        here."""
        return {
            "model": made.asked.model,
            "answers": [_answer(told) for told in made.told],
            "usage": common.usage(made.spent),
        }

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Format`."""
        return common.error_body(problem)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Format`."""
        return common.headers(id, problem, account)


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
        return {"type": "predicate", "name": name, "probability": round(shares[0], _DIGITS)}
    confidence = told.confidence if told.confidence is not None else _peak(shares)
    common_part = {"type": told.question.kind, "name": name, "confidence": confidence}
    if told.question.kind == "choice":
        return {
            **common_part,
            "choice": told.values[told.likeliest],
            "probabilities": [
                {"value": value, "probability": round(share, _DIGITS)}
                for value, share in zip(told.values, shares, strict=True)
            ],
        }
    return {
        **common_part,
        "score": round(told.level, _DIGITS),
        "probabilities": [
            {
                "value": int(value) if value.isdecimal() else value,
                "label": label,
                "probability": round(share, _DIGITS),
            }
            for value, (_, label), share in zip(
                told.values, told.question.options, shares, strict=True
            )
        ],
    }


def _peak(shares: tuple[float, ...]) -> float:
    """How far from evenly spread: 1 minus the entropy's share of its most."""
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
    return round(1.0 - entropy / math.log(len(shares)), _DIGITS)

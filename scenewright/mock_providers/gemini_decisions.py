"""Gemini's decisions: ``POST /v1beta/decisions``."""

from __future__ import annotations

from typing import Any

from scenewright.agents.judges.decisions.asking import Question
from scenewright.mock_providers.decision_maps import answers_of, questions_of
from scenewright.mock_providers.decisions import (
    DecisionAnswer,
    DecisionReply,
    DecisionRequest,
    characters_of,
)
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import Limits, as_list, as_object, as_text

MOST_QUESTIONS = 1000
MOST_TOKENS = 262_144
CLIP = 0.01
"""A ``noul`` lies between this and 1 minus this."""
RESOLUTIONS = (None, "low", "medium", "high", "ultra_high")
_DIGITS = 2


class GeminiDecisions:
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

    name = "gemini"

    def __init__(self, content: GeminiContent) -> None:
        """``content``: the provider's format of content, whose errors and rule of images hold."""
        self._content = content

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
                raise Problem.invalid(f"input[{at}]: the lab reads texts and images", "input")
        questions = _checked(questions_of(body, MOST_QUESTIONS, "true_description"))
        return DecisionRequest(
            model=as_text(body.get("model"), "model").removeprefix("models/"),
            questions=questions,
            images=tuple(images),
            image_param=param,
            characters=characters + characters_of(questions),
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """As for content."""
        return self._content.image_tokens(size, low_detail)

    def reply(self, made: DecisionReply) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`; names no model, and
        knows only refusals of the whole: a question that is refused is left out."""
        spent = made.spent
        usage = {
            "total_input_tokens": spent.tokens_in,
            "input_tokens_by_modality": [
                {"modality": "text", "tokens": spent.tokens_in - spent.image_tokens},
                {"modality": "image", "tokens": spent.image_tokens},
            ],
            "total_output_tokens": spent.tokens_out,
            "total_tokens": spent.tokens_in + spent.tokens_out,
        }
        if made.blocked:
            return {"prompt_feedback": {"block_reason": "image_safety"}, "usage": usage}
        answers = answers_of(made.told, _DIGITS, max)
        for told in made.told:
            if told.question.kind == "yes_no" and told.shares is not None:
                answers[told.question.name] = _noul(told)
        return {"answers": answers, "usage": usage}

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """As for content."""
        return self._content.problem(problem, id)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """As for content."""
        return self._content.headers(id, problem, account)


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
    """The answer to a yes/no question, clipped and with its confidence."""
    noul = (told.shares or (0.0,))[0]
    if 0.0 <= noul <= 1.0:
        noul = round(min(1.0 - CLIP, max(CLIP, noul)), _DIGITS)
    sure = max(noul, 1.0 - noul) if told.confidence is None else told.confidence
    return {"type": "noul", "noul": noul, "confidence": sure}

"""Typed questions as a map and their answers as one, as Gemini and System One write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scenewright.agents.judges.decisions.asking import Question
from scenewright.mock_providers.decisions import DecisionAnswer
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import as_list, as_object, as_text

MOST_OPTIONS = 255
"""Options of a choice, and levels of a score."""


def questions_of(body: dict[str, Any], most: int, true: str) -> tuple[Question, ...]:
    """The questions of a request, at most ``most``.

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
    """The answers by name, a refused one left out, with probabilities of so many ``digits``.

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

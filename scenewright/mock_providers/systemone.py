"""System One: ``POST /v1/systemone`` and the addresses at which hosts serve the same.

A picture may come among ``assets``, among ``images`` or as an ``image_url`` part of the state, as
the hosts of ``hosts.toml`` take it; Cloudflare's reply lies inside ``result``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.judges.tokens import image_tokens
from scenewright.mock_providers.decision_maps import answers_of, questions_of
from scenewright.mock_providers.decisions import DecisionReply, DecisionRequest, characters_of
from scenewright.mock_providers.pictures import decode_base64, from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import Limits, as_list, as_object, as_text, whole_seconds

MOST_QUESTIONS = 128
MOST_PICTURES = 4
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class SystemOne:
    """Implements :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""

    wrapped: bool = False
    """Whether the reply lies inside ``result``, as Cloudflare's does."""
    name: str = "systemone"
    """See :class:`~scenewright.mock_providers.wire.Format`."""

    def read(self, body: dict[str, Any]) -> DecisionRequest:
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`."""
        for name in body:
            if name not in {"model", "state", "questions", "assets", "images"}:
                raise Problem.invalid(f"{name}: Extra inputs are not permitted", name)
        if "state" not in body:
            raise Problem.invalid("state: Field required", "state")
        questions = questions_of(body, MOST_QUESTIONS, "true")
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
        """See :class:`~scenewright.mock_providers.decisions.DecisionFormat`; a question that is
        refused is left out, and a refusal of the whole is an error."""
        if made.blocked:
            return Problem.invalid("the content was refused by the safety filter", "state")
        answers = answers_of(made.told, _DIGITS, _sure)
        usage = {"input_tokens": made.spent.tokens_in, "output_tokens": 0}
        body = {"model": made.asked.model, "answers": answers, "usage": usage}
        if self.wrapped:
            return {"result": body, "success": True, "errors": [], "messages": []}
        return body

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """The ``detail`` of the error, or Cloudflare's list of ``errors``."""
        if self.wrapped:
            errors = [{"code": 5000, "message": problem.message}]
            return {"result": None, "success": False, "errors": errors, "messages": []}
        return {"detail": problem.message}

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """The request's id, and when to come again."""
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

"""Decision models of OpenAI's ``/v1/decisions``, through the openai SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import openai

from scenewright.agents.judges.decisions.asking import Kind, Question
from scenewright.agents.judges.decisions.models import DecisionCaps
from scenewright.agents.judges.decisions.reading import (
    DecisionReading,
    RawAnswer,
    WireReply,
    of_type,
    parse_json,
    read_listed,
    tokens_in,
)
from scenewright.agents.judges.openai import OpenAIApi
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MalformedReply, shown
from scenewright.providers.sdk_clients import http_settings
from scenewright.providers.usage import Usage

_KINDS: Mapping[str, Kind] = {"predicate": "yes_no", "choice": "choice", "score": "score"}


class OpenAIDecisions(OpenAIApi[DecisionCaps, openai.AsyncOpenAI]):
    """Implements :class:`~scenewright.agents.judges.decisions.reading.DecisionWire`."""

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the arguments of ``client.decisions.create``: one user message with the image."""
        image = {
            "type": "input_image",
            "image_url": f"data:{picture.media_type};base64,{picture.base64}",
        }
        if self._caps.detail:
            image["detail"] = self._caps.detail
        return {
            "model": self.model,
            "input": [{"role": "user", "content": [image]}],
            "questions": [_put(question) for question in questions],
        }

    async def send(self, request: dict[str, Any]) -> WireReply:
        """Make one attempt."""
        # The raw reply: the SDK's types do not check what they hold.
        reply = await self._clients.get().decisions.with_raw_response.create(**request)
        return WireReply(reply.text, {name.lower(): one for name, one in reply.headers.items()})

    def read(self, response: object, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by position and name, and the usage."""
        if not isinstance(response, WireReply):
            raise MalformedReply(f"a {type(response).__name__} instead of a reply")
        body = parse_json(response.text)
        answers = body.get("answers") if isinstance(body, Mapping) else None
        if not isinstance(answers, list):
            raise MalformedReply(f"no list of answers: {shown(response.text)}")
        found = body.get("usage")
        usage = found if isinstance(found, Mapping) else {}
        served = body.get("model")
        return DecisionReading(
            answers=read_listed(questions, [_taken(one) for one in answers]),
            usage=Usage(
                tokens_in(usage, "input_tokens"),
                tokens_in(usage, "output_tokens"),
                tokens_in(usage, "input_tokens_details", "cached_tokens"),
                tokens_written=tokens_in(usage, "input_tokens_details", "cache_write_tokens"),
            ),
            model=served if isinstance(served, str) else "",
            request_id=response.headers.get("x-request-id", ""),
        )

    def _client(self) -> openai.AsyncOpenAI:
        return self._sdk(openai.DefaultAsyncHttpxClient(**http_settings()))

    @staticmethod
    async def _close(client: openai.AsyncOpenAI) -> None:
        await client.close()


def _put(question: Question) -> dict[str, Any]:
    if question.kind == "yes_no":
        # A predicate is a statement: its first option is its claim.
        return {"type": "predicate", "name": question.name, "instructions": question.statement}
    put: dict[str, Any] = {
        "type": question.kind,
        "name": question.name,
        "instructions": question.text,
    }
    if question.kind == "choice":
        put["choices"] = [
            {"value": value, **({"description": told} if told else {})}
            for value, told in question.options
        ]
    else:
        put["levels"] = [{"label": label} for _, label in question.options]
    return put


def _taken(answer: object) -> RawAnswer:
    if not isinstance(answer, Mapping):
        return RawAnswer(None, problem=f"answered {shown(answer)}")
    found = answer.get("name")
    name = found if isinstance(found, str) else None
    said = answer.get("type")
    kind, raw = of_type(name, said, _KINDS)
    if kind is None:
        return raw
    if kind == "yes_no":
        return replace(raw, shares=(("", answer.get("probability")),))
    given = answer.get("probabilities")
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        return replace(raw, problem=f"gave as probabilities {shown(given)}")
    if kind == "score":
        levels = tuple((_level(one.get("value")), one.get("probability")) for one in given)
        return replace(raw, shares=levels)
    shares = tuple((one.get("value"), one.get("probability")) for one in given)
    return replace(raw, shares=shares, choice=answer.get("choice"))


def _level(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else value

"""Decision models of Gemini's ``/v1beta/decisions``, through google-genai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenewright.agents.judges.decisions.asking import Question
from scenewright.agents.judges.decisions.models import DecisionCaps
from scenewright.agents.judges.decisions.reading import (
    DecisionReading,
    JsonObject,
    WireReply,
    parse_json,
    put,
    raws_of,
    read_named,
    tokens_in,
)
from scenewright.agents.judges.gemini import GeminiApi
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MalformedReply, shown
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

_TRUE, _FALSE = "true_description", "false_description"


class GeminiDecisions(GeminiApi[DecisionCaps]):
    """Implements :class:`~scenewright.agents.judges.decisions.reading.DecisionWire`."""

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the arguments of ``client.aio.decisions.create``: image and map of questions."""
        image = {"type": "image", "mime_type": picture.media_type, "data": picture.base64}
        if self._caps.detail:
            image["resolution"] = self._caps.detail
        return {
            "model": self.model,
            "input": [image],
            "questions": {
                question.name: put(question, true=_TRUE, false=_FALSE, blank="")
                for question in questions
            },
        }

    async def send(self, request: dict[str, Any]) -> WireReply:
        """Make one attempt."""
        # The raw reply: the SDK's types do not check what they hold.
        decisions = self._clients.get().aio.decisions
        reply = await decisions.with_raw_response.create(**request)
        raw = reply.http_response
        return WireReply(raw.text, {name.lower(): one for name, one in raw.headers.items()})

    def read(self, response: object, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by their names, and the usage; the wire names no served model."""
        if not isinstance(response, WireReply):
            raise MalformedReply(f"a {type(response).__name__} instead of a reply")
        body = parse_json(response.text)
        if not isinstance(body, Mapping):
            raise MalformedReply(f"no object: {shown(response.text)}")
        found = body.get("usage")
        told = found if isinstance(found, Mapping) else {}
        usage = Usage(
            tokens_in(told, "total_input_tokens"),
            tokens_in(told, "total_output_tokens") + tokens_in(told, "total_thought_tokens"),
            tokens_in(told, "total_cached_tokens"),
        )
        feedback = body.get("prompt_feedback")
        blocked = feedback.get("block_reason") if isinstance(feedback, Mapping) else None
        if blocked:
            raise UnusableReply(f"refused: {shown(blocked)}", usage, retry=False)
        answers = body.get("answers")
        if not isinstance(answers, JsonObject):
            raise MalformedReply(f"no answers: {shown(response.text)}")
        served = body.get("model")
        return DecisionReading(
            answers=read_named(questions, raws_of(answers)),
            usage=usage,
            model=served if isinstance(served, str) else "",
            request_id=response.headers.get("x-request-id", ""),
        )

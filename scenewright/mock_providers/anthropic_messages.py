"""Anthropic's messages: ``POST /v1/messages`` as of API version 2026-10-21."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolCall
from pydantic_core import from_json

from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers.accounts import Left
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem, language, whole_seconds
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.streams import Event, message_events, named_events
from scenewright.mock_providers.turns import Block, Reading, text_part, tool_schema
from scenewright.mock_providers.wire import (
    ModelReply,
    ModelRequest,
    TokenCounts,
    Wire,
    as_count,
    as_object,
    objects,
)
from scenewright.providers.clients.base import Tools


class AnthropicMessages(Wire):
    """Messages, and the count of their tokens."""

    place: Place = "messages"

    def __init__(self, *, counting: bool = False) -> None:
        """``counting``: for ``/v1/messages/count_tokens``, which takes no ``max_tokens``."""
        self._counting = counting

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        max_tokens = as_count(body.get("max_tokens"), "max_tokens", 1)
        if max_tokens is None and not self._counting:
            raise Problem.invalid("max_tokens: Field required", "max_tokens")
        reading = Reading(_PARTS, ".{}")
        if body.get("system"):
            reading.system(reading.blocks(body["system"], "system"))
        for place, message in objects(body.get("messages"), "messages", ".{}"):
            role = message.get("role")
            if role not in ("user", "assistant"):
                raise Problem.invalid(f"{place}.role: Input should be 'user' or 'assistant'", place)
            _message(reading, role, message.get("content"), f"{place}.content")
        config = as_object(body.get("output_config") or {}, "output_config")
        form = as_object(config.get("format") or {}, "output_config.format")
        return reading.request(
            body.get("model"),
            _tools(body),
            images_in="messages",
            as_json=form.get("type") == "json_schema",
            schema=form.get("schema"),
            counted=(body.get("tools"), config),
            max_tokens=max_tokens,
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image: its area / 750."""
        return image_tokens("area-750", *size)

    def reply(
        self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str
    ) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        calls = said.named_calls(id)
        content: list[dict[str, Any]] = []
        stop, details = "max_tokens" if said.finish == "length" else "end_turn", None
        if said.finish == "refusal":
            stop = "refusal"
            details = {"type": "refusal", "category": None, "explanation": said.text}
        else:
            if said.text:
                content.append({"type": "text", "text": said.text, "citations": None})
            content += [
                {
                    "type": "tool_use",
                    "id": f"toolu_{own_id}",
                    "name": call.name,
                    # Of a call that was cut off the objects that came whole.
                    "input": from_json(
                        call.text[: call.text.rfind("}") + 1] or "{}", allow_partial=True
                    )
                    if call.arguments is None
                    else dict(call.arguments),
                }
                for own_id, call in calls
            ]
            stop = "tool_use" if calls and stop == "end_turn" else stop
        return {
            "id": f"msg_{id}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": details,
            "usage": {
                "input_tokens": spent.tokens_in,
                "output_tokens": spent.tokens_out,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "service_tier": "standard",
            },
        }

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return named_events(message_events(reply))

    def error_event(self, problem: Problem, id: str) -> Event:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return "error", self.problem(problem, id)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        told = language("anthropic").tell(problem)
        message, param = told.message, problem.param or ""
        if problem.kind in ("invalid", "image") and not message.startswith(param):
            message = f"{param}: {message}"
        error = {"type": told.type, "message": message}
        return {"type": "error", "error": error, "request_id": f"req_{id}"}

    def headers(
        self, id: str, problem: Problem | None = None, limits: Sequence[Left] = ()
    ) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        found = {"request-id": f"req_{id}"}
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
        for name, limit, left in limits:
            found[f"anthropic-ratelimit-{name}-limit"] = str(limit)
            found[f"anthropic-ratelimit-{name}-remaining"] = str(left)
            found[f"anthropic-ratelimit-{name}-reset"] = later.strftime("%Y-%m-%dT%H:%M:%SZ")
        if problem is not None and problem.kind == "rate_limited":
            found["retry-after"] = str(whole_seconds(problem.retry_after))
        return found


def _image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    param = f"{where}.image.source"
    source = as_object(part.get("source"), param)
    if source.get("type") != "base64":
        raise Problem.image("the mock server fetches nothing: use type base64", param)
    return reading.picture(decode_base64(source.get("data"), f"{param}.base64"), param)


_PARTS = {"text": text_part, "image": _image}
_THOUGHTS = ("thinking", "redacted_thinking")


def _message(reading: Reading, role: str, content: object, place: str) -> None:
    """Read a message; answers of tools stand first in one of a user."""
    is_user = role == "user"
    if is_user and not content:
        raise Problem.invalid(f"{place}: user messages must have non-empty content", place)
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks, calls = list[Block](), list[ToolCall]()
    for where, part in objects(parts, place, ".{}"):
        kind = part.get("type")
        if kind == "tool_use" and not is_user:
            calls.append(reading.call(part.get("id"), part.get("name"), part.get("input"), where))
        elif kind == "tool_result" and is_user:
            if blocks:
                raise Problem.invalid(f"{where}: tool_result blocks come first in a message", where)
            result = f"{where}.tool_result"
            found = reading.blocks(part.get("content"), f"{result}.content")
            failed = part.get("is_error") is True
            reading.answer(part.get("tool_use_id"), found, f"{result}.tool_use_id", failed)
        elif is_user or kind not in _THOUGHTS:
            blocks.append(reading.part(part, where))
    if not is_user:
        reading.model(blocks, calls)
    elif blocks:
        reading.user(blocks)


def _tools(body: dict[str, Any]) -> Tools:
    schemas = []
    for where, tool in objects(body.get("tools") or [], "tools", ".{}"):
        schemas.append(tool_schema(tool, tool.get("input_schema"), where))
    choice = as_object(body.get("tool_choice") or {}, "tool_choice")
    kind = choice.get("type", "auto")
    if kind not in ("auto", "any", "none", "tool"):
        raise Problem.invalid("tool_choice.type: use auto, any, tool or none", "tool_choice")
    wanted = f"={choice.get('name')}" if kind == "tool" else kind
    single = choice.get("disable_parallel_tool_use")
    return Tools(tuple(schemas), wanted, not single if isinstance(single, bool) else None)

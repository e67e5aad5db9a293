"""Anthropic's messages: ``POST /v1/messages`` as of API version 2026-10-21."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolCall
from pydantic_core import from_json

from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.streams import Event, message_events, named_events
from scenewright.mock_providers.wire import (
    Block,
    ModelReply,
    ModelRequest,
    Reading,
    TokenCounts,
    Wire,
    as_count,
    as_object,
    objects,
    text_part,
    tool_schema,
)
from scenewright.providers.clients.base import Tools


class AnthropicMessages(Wire):
    """Messages, and the count of their tokens."""

    provider, place = "anthropic", "messages"
    image_rule = "area-750"
    error_name = "error"

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
            content, place = message.get("content"), f"{place}.content"
            is_user = role == "user"
            if is_user and not content:
                raise Problem.invalid(f"{place}: user messages must have non-empty content", place)
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            blocks, calls = list[Block](), list[ToolCall]()
            for where, part in objects(parts, place, ".{}"):
                kind, id = part.get("type"), part.get("id")
                if kind == "tool_use" and not is_user:
                    calls.append(reading.call(id, part.get("name"), part.get("input"), where))
                elif kind == "tool_result" and is_user:
                    if blocks:
                        told = f"{where}: tool_result blocks come first in a message"
                        raise Problem.invalid(told, where)
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
        schemas = [
            tool_schema(tool, tool.get("input_schema"), where)
            for where, tool in objects(body.get("tools") or [], "tools", ".{}")
        ]
        choice = as_object(body.get("tool_choice") or {}, "tool_choice")
        wanted = choice.get("type", "auto")
        if wanted not in ("auto", "any", "none", "tool"):
            raise Problem.invalid("tool_choice.type: use auto, any, tool or none", "tool_choice")
        wanted = f"={choice.get('name')}" if wanted == "tool" else wanted
        single = choice.get("disable_parallel_tool_use")
        tools = Tools(tuple(schemas), wanted, not single if isinstance(single, bool) else None)
        config = as_object(body.get("output_config") or {}, "output_config")
        form = as_object(config.get("format") or {}, "output_config.format")
        return reading.request(
            body.get("model"),
            tools,
            images_in="messages",
            as_json=form.get("type") == "json_schema",
            schema=form.get("schema"),
            counted=(body.get("tools"), config),
            max_tokens=max_tokens,
        )

    def reply(self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        calls = said.named_calls(id)
        content: list[dict[str, Any]] = []
        stop, details = "max_tokens" if said.finish == "length" else "end_turn", None
        if said.finish == "refusal":
            stop, details = "refusal", self.shaped("refusal", text=said.text)
        else:
            if said.text:
                content.append(self.shaped("text", text=said.text))
            for own_id, call in calls:
                # Of a call that was cut off the objects that came whole.
                whole = call.text[: call.text.rfind("}") + 1] or "{}"
                given = call.arguments or from_json(whole, allow_partial=True)
                content.append(self.shaped("call", id=own_id, name=call.name, input=given))
            stop = "tool_use" if calls and stop == "end_turn" else stop
        told = {"id": id, "model": asked.model, "content": content, "stop": stop}
        return self.shaped("reply", spent, **told, details=details)

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return named_events(message_events(reply))


def _image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    param = f"{where}.image.source"
    source = as_object(part.get("source"), param)
    if source.get("type") != "base64":
        raise Problem.image("the mock server fetches nothing: use type base64", param)
    return reading.picture(decode_base64(source.get("data"), f"{param}.base64"), param)


_PARTS = {"text": text_part, "image": _image}
_THOUGHTS = ("thinking", "redacted_thinking")

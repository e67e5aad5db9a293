"""Anthropic's messages: ``POST /v1/messages`` as of API version 2026-10-21."""

from __future__ import annotations

import datetime
from typing import Any

from anthropic.types import (
    ContentBlock,
    Message,
    RefusalStopDetails,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from langchain_core.messages import ToolCall

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Block, Reading, tool_schema
from scenewright.mock_providers.wire import (
    Limits,
    ModelReply,
    ModelRequest,
    Spent,
    ToolInvocation,
    as_count,
    as_list,
    as_object,
    call_id,
    no_streams,
    whole_seconds,
)

_THOUGHTS = ("thinking", "redacted_thinking")
_TYPES = {
    "unknown_model": "not_found_error",
    "no_route": "not_found_error",
    "rate_limited": "rate_limit_error",
    "server": "api_error",
    "overloaded": "overloaded_error",
    "too_large": "request_too_large",
}
_LIMIT_NAMES = {
    "requests": "requests per minute",
    "tokens": "tokens per minute",
    "concurrent": "concurrent requests",
}
_SAMPLING = ("temperature", "top_p", "top_k")


class AnthropicMessages:
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    def __init__(self, *, counting: bool = False) -> None:
        """``counting``: for ``/v1/messages/count_tokens``, which takes no ``max_tokens``."""
        self._counting = counting

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        no_streams(body)
        for name in _SAMPLING:
            if body.get(name) is not None:
                raise Problem.invalid(f"{name}: Extra inputs are not permitted", name)
        max_tokens = as_count(body.get("max_tokens"), "max_tokens", 1)
        if max_tokens is None and not self._counting:
            raise Problem.invalid("max_tokens: Field required", "max_tokens")
        reading = Reading()
        if body.get("system"):
            reading.system(_blocks(reading, body["system"], "system"))
        for at, entry in enumerate(as_list(body.get("messages"), "messages")):
            place = f"messages.{at}"
            message = as_object(entry, place)
            if message.get("role") == "assistant":
                _model(reading, message.get("content"), f"{place}.content")
            elif message.get("role") == "user":
                _user(reading, message.get("content"), f"{place}.content")
            else:
                raise Problem.invalid(f"{place}.role: Input should be 'user' or 'assistant'", place)
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

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> Message:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        calls, text = said.calls, said.text
        if calls is None and asked.form == "tool":
            calls, text = (ToolInvocation(asked.tool, said.arguments, said.text),), ""
        content: list[ContentBlock] = []
        stop: StopReason = "max_tokens" if said.finish == "length" else "end_turn"
        details = None
        if said.finish == "refusal":
            stop = "refusal"
            details = RefusalStopDetails(type="refusal", category=None, explanation=said.text)
        elif said.finish != "empty":
            if text or calls is None:
                content.append(TextBlock(type="text", text=text, citations=None))
            content += [
                ToolUseBlock(
                    type="tool_use",
                    id=f"toolu_{call_id(id, at)}",
                    name=call.name,
                    input=dict(call.arguments),
                )
                for at, call in enumerate(calls or ())
            ]
            stop = "tool_use" if calls and stop == "end_turn" else stop
        return Message(
            id=f"msg_{id}",
            type="message",
            role="assistant",
            model=asked.model,
            content=content,
            stop_reason=stop,
            stop_sequence=None,
            stop_details=details,
            usage=Usage(
                input_tokens=spent.tokens_in,
                output_tokens=spent.tokens_out,
                cache_creation_input_tokens=0,
                cache_read_input_tokens=0,
                service_tier="standard",
            ),
        )

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        message = problem.message
        if problem.kind == "unknown_model":
            message = f"model: {message}"
        elif problem.kind == "rate_limited":
            limit = f" of {problem.allowed}" if problem.allowed is not None else ""
            message = (
                f"This request would exceed your rate limit{limit} "
                f"{_LIMIT_NAMES[problem.limit]}. Please try again later."
            )
        elif problem.param and problem.kind in ("invalid", "image"):
            message = (
                message if message.startswith(problem.param) else f"{problem.param}: {message}"
            )
        return {
            "type": "error",
            "error": {
                "type": _TYPES.get(problem.kind, "invalid_request_error"),
                "message": message,
            },
            "request_id": f"req_{id}",
        }

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        found = {"request-id": f"req_{id}"}
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
        for name, limit, left in (
            ("requests", account.requests, account.requests_left),
            ("tokens", account.tokens, account.tokens_left),
        ):
            if limit is not None:
                found[f"anthropic-ratelimit-{name}-limit"] = str(limit)
                found[f"anthropic-ratelimit-{name}-remaining"] = str(left)
                found[f"anthropic-ratelimit-{name}-reset"] = later.strftime("%Y-%m-%dT%H:%M:%SZ")
        if problem is not None and problem.kind == "rate_limited":
            found["retry-after"] = str(whole_seconds(problem.retry_after))
        return found


def _model(reading: Reading, content: object, place: str) -> None:
    if isinstance(content, str):
        reading.model([reading.words(content, place)])
        return
    texts, calls = list[Block](), list[ToolCall]()
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") == "tool_use":
            calls.append(
                reading.call(block.get("id"), block.get("name"), block.get("input"), where)
            )
        elif block.get("type") not in _THOUGHTS:
            texts += _blocks(reading, [block], place)
    reading.model(texts, calls)


def _user(reading: Reading, content: object, place: str) -> None:
    """Read answers of tools, which stand first in a message, and what a person said."""
    blocks = content if isinstance(content, str) else as_list(content, place)
    if not blocks:
        raise Problem.invalid(f"{place}: user messages must have non-empty content", place)
    rest: list[Block] = []
    for at, entry in enumerate([] if isinstance(blocks, str) else blocks):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") != "tool_result":
            rest += _blocks(reading, [block], place)
        elif rest:
            raise Problem.invalid(f"{where}: tool_result blocks come first in a message", where)
        else:
            found = _blocks(reading, block.get("content") or [], f"{where}.tool_result.content")
            id, failed = block.get("tool_use_id"), block.get("is_error") is True
            reading.answer(id, found, f"{where}.tool_result.tool_use_id", failed)
    if isinstance(blocks, str):
        rest = [reading.words(blocks, place)]
    if rest:
        reading.user(rest)


def _blocks(reading: Reading, content: object, place: str) -> list[Block]:
    if isinstance(content, str):
        return [reading.words(content, place)]
    found = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") == "text":
            found.append(reading.words(block.get("text"), f"{where}.text.text"))
        elif block.get("type") == "image":
            param = f"{where}.image.source"
            source = as_object(block.get("source"), param)
            if source.get("type") != "base64":
                raise Problem.image("the mock server fetches nothing: use type base64", param)
            found.append(
                reading.picture(decode_base64(source.get("data"), f"{param}.base64"), param)
            )
        else:
            raise Problem.invalid(f"{where}: the mock server knows no {block.get('type')!r}", where)
    return found


def _tools(body: dict[str, Any]) -> Tools:
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        tool = as_object(entry, f"tools.{at}")
        schemas.append(tool_schema(tool, tool.get("input_schema"), f"tools.{at}"))
    choice = as_object(body.get("tool_choice") or {}, "tool_choice")
    kind = choice.get("type", "auto")
    if kind not in ("auto", "any", "none", "tool"):
        raise Problem.invalid("tool_choice.type: use auto, any, tool or none", "tool_choice")
    wanted = f"={choice.get('name')}" if kind == "tool" else kind
    single = choice.get("disable_parallel_tool_use")
    return Tools(tuple(schemas), wanted, not single if isinstance(single, bool) else None)

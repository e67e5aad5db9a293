"""Anthropic's messages: ``POST /v1/messages`` as of API version 2026-10-21.

Conversations in Anthropic's format.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers import turns
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns, turns_of
from scenewright.mock_providers.wire import (
    Form,
    Limits,
    ModelReply,
    ModelRequest,
    Spent,
    as_count,
    as_list,
    as_object,
    as_text,
    call_id,
    fields_of,
    length_of,
    no_streams,
    pick_tool,
    size_of,
    whole_seconds,
)

_THOUGHTS = ("thinking", "redacted_thinking")


def message_turns(body: dict[str, Any]) -> Turns:
    """Return the conversation of a message; raises ``Problem``."""
    said: list[BaseMessage] = []
    told = body.get("system")
    if told:
        said.append(turns.system(_text(_turn_blocks(told, "system"))))
    for at, given in enumerate(as_list(body.get("messages"), "messages")):
        place = f"messages.{at}"
        message = as_object(given, place)
        content = message.get("content")
        if message.get("role") == "assistant":
            said.append(_said(content, f"{place}.content"))
        elif message.get("role") == "user":
            said += _user(content, f"{place}.content")
        else:
            raise Problem.invalid(f"{place}.role: Input should be 'user' or 'assistant'", place)
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        tool = as_object(entry, f"tools.{at}")
        name = as_text(tool.get("name"), f"tools.{at}.name")
        schemas.append(turns.schema_of(name, tool.get("description"), tool.get("input_schema")))
    return turns_of(said, _tools(schemas, body.get("tool_choice")))


def _said(content: object, place: str) -> BaseMessage:
    if isinstance(content, str):
        return turns.model(content)
    texts, calls = [], []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") == "text":
            texts.append(as_text(block.get("text"), f"{where}.text"))
        elif block.get("type") == "tool_use":
            id = as_text(block.get("id"), f"{where}.tool_use.id")
            name = as_text(block.get("name"), f"{where}.tool_use.name")
            given = as_object(block.get("input"), f"{where}.tool_use.input")
            calls.append(turns.call(id, name, given, where))
        elif block.get("type") not in _THOUGHTS:
            raise Problem.invalid(f"{where}: the mock server knows no {block.get('type')!r}", where)
    return turns.model("\n".join(texts), calls)


def _user(content: object, place: str) -> list[BaseMessage]:
    """Answers of tools, which stand first in a message, and what a person said."""
    if isinstance(content, str):
        return [turns.user([turns.words(content)])]
    answers: list[BaseMessage] = []
    rest = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") != "tool_result":
            rest.append(block)
        elif rest:
            raise Problem.invalid(f"{where}: tool_result blocks come first in a message", where)
        else:
            id = as_text(block.get("tool_use_id"), f"{where}.tool_result.tool_use_id")
            found = _turn_blocks(block.get("content") or [], f"{where}.tool_result.content")
            answers.append(turns.answer(id, found, failed=block.get("is_error") is True))
    if rest:
        answers.append(turns.user(_turn_blocks(rest, place)))
    if not answers:
        raise Problem.invalid(f"{place}: user messages must have non-empty content", place)
    return answers


def _turn_blocks(content: object, place: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [turns.words(content)]
    found = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}.{at}"
        block = as_object(entry, where)
        if block.get("type") == "text":
            found.append(turns.words(as_text(block.get("text"), f"{where}.text.text")))
        elif block.get("type") == "image":
            source = as_object(block.get("source"), f"{where}.image.source")
            found.append(turns.picture(decode_base64(source.get("data"), where)))
        else:
            raise Problem.invalid(f"{where}: the mock server knows no {block.get('type')!r}", where)
    return found


def _tools(schemas: list[dict[str, Any]], choice: object) -> Tools:
    given = as_object(choice or {}, "tool_choice")
    kind = given.get("type", "auto")
    wanted = f"={as_text(given.get('name'), 'tool_choice.name')}" if kind == "tool" else kind
    if not isinstance(wanted, str) or kind not in ("auto", "any", "none", "tool"):
        raise Problem.invalid("tool_choice.type: use auto, any, tool or none", "tool_choice")
    single = given.get("disable_parallel_tool_use")
    return Tools(tuple(schemas), wanted, not single if isinstance(single, bool) else None)


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


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

    name = "anthropic"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return self._read(body, counting=False)

    def read_count(self, body: dict[str, Any]) -> ModelRequest:
        """Return the request of ``/v1/messages/count_tokens``, which takes no ``max_tokens``."""
        return self._read(body, counting=True)

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image: its area / 750."""
        return image_tokens("area-750", *size)

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        content: list[dict[str, Any]] = []
        stop = {"length": "max_tokens", "refusal": "refusal"}.get(said.finish, "end_turn")
        if said.finish in ("empty", "refusal"):
            pass
        elif said.calls is not None:
            content = [{"type": "text", "text": said.text, "citations": None}] if said.text else []
            content += [
                _call(call_id(id, at), call.name, call.arguments)
                for at, call in enumerate(said.calls)
            ]
            stop = "tool_use" if said.calls and stop == "end_turn" else stop
        elif asked.form == "tool":
            content = [_call(id, asked.tool, said.arguments)]
            stop = "max_tokens" if said.finish == "length" else "tool_use"
        else:
            content = [{"type": "text", "text": said.text, "citations": None}]
        details = None
        if said.finish == "refusal":
            details = {"type": "refusal", "category": None, "explanation": said.text}
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
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 0,
                    "ephemeral_1h_input_tokens": 0,
                },
                "output_tokens": spent.tokens_out,
                "service_tier": "standard",
            },
        }

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

    def _read(self, body: dict[str, Any], counting: bool) -> ModelRequest:
        no_streams(body)
        for name in _SAMPLING:
            if body.get(name) is not None:
                raise Problem.invalid(f"{name}: Extra inputs are not permitted", name)
        max_tokens = as_count(body.get("max_tokens"), "max_tokens", 1)
        if max_tokens is None and not counting:
            raise Problem.invalid("max_tokens: Field required", "max_tokens")
        text, characters = "", length_of(body.get("system"))
        images: list[bytes] = []
        param: str | None = None
        for at, given in enumerate(as_list(body.get("messages"), "messages")):
            message = as_object(given, f"messages.{at}")
            content = message.get("content")
            texts = [content] if isinstance(content, str) else []
            told = 0
            for place, block in _blocks(content, f"messages.{at}.content"):
                if block.get("type") == "tool_use":
                    told += size_of(block.get("input"))
                elif block.get("type") == "tool_result":
                    given = block.get("content")
                    told += len(given) if isinstance(given, str) else 0
                elif block.get("type") == "text":
                    texts.append(as_text(block.get("text"), f"{place}.text.text"))
                elif block.get("type") == "image":
                    param = f"{place}.image.source"
                    source = as_object(block.get("source"), param)
                    if source.get("type") != "base64":
                        raise Problem.image(
                            "the mock server fetches nothing: use type base64", param
                        )
                    images.append(decode_base64(source.get("data"), f"{param}.base64"))
            characters += sum(map(len, texts)) + told
            if message.get("role") == "user" and texts:
                text = "\n".join(texts)
        form, tool, forced, schema = self._form(body)
        return ModelRequest(
            model=as_text(body.get("model"), "model"),
            text=text,
            images=tuple(images),
            image_param=param or "messages",
            characters=characters + size_of(body.get("tools"), body.get("output_config")),
            form=form,
            tool=tool,
            forced=forced,
            fields=fields_of(schema),
            max_tokens=max_tokens,
            turns=partial(message_turns, body),
        )

    def _form(self, body: dict[str, Any]) -> tuple[Form, str, bool, object]:
        choice = body.get("tool_choice")
        kind = choice.get("type") if isinstance(choice, dict) else None
        if body.get("tools") and kind != "none":
            named = []
            for at, given in enumerate(as_list(body["tools"], "tools")):
                tool = as_object(given, f"tools.{at}")
                name = as_text(tool.get("name"), f"tools.{at}.name")
                named.append((name, tool.get("input_schema")))
            wanted = None
            if isinstance(choice, dict) and kind == "tool":
                wanted = as_text(choice.get("name"), "tool_choice.name")
            name, schema = pick_tool(named, wanted)
            return "tool", name, wanted is not None, schema
        config = body.get("output_config")
        wish = config.get("format") if isinstance(config, dict) else None
        if isinstance(wish, dict) and wish.get("type") == "json_schema":
            return "json", "", False, wish.get("schema")
        return "text", "", False, None


def _call(id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_{id}",
        "name": name,
        "input": arguments,
        "caller": {"type": "direct"},
    }


def _blocks(content: object, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the blocks of a message and of its tool results, each with its place."""
    for n, piece in enumerate(content if isinstance(content, list) else []):
        where = f"{place}.{n}"
        block = as_object(piece, where)
        yield where, block
        if block.get("type") == "tool_result":
            yield from _blocks(block.get("content"), f"{where}.content")

"""Conversations in Anthropic's format."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage

from scenewright.agents.chat.base import Tools
from scenewright.mock_providers import turns
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns, turns_of
from scenewright.mock_providers.wire import as_list, as_object, as_text

_THOUGHTS = ("thinking", "redacted_thinking")


def message_turns(body: dict[str, Any]) -> Turns:
    """The conversation of a message; raises ``Problem``."""
    said: list[BaseMessage] = []
    told = body.get("system")
    if told:
        said.append(turns.system(_text(_blocks(told, "system"))))
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
            raise Problem.invalid(f"{where}: the lab knows no {block.get('type')!r}", where)
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
            found = _blocks(block.get("content") or [], f"{where}.tool_result.content")
            answers.append(turns.answer(id, found, failed=block.get("is_error") is True))
    if rest:
        answers.append(turns.user(_blocks(rest, place)))
    if not answers:
        raise Problem.invalid(f"{place}: user messages must have non-empty content", place)
    return answers


def _blocks(content: object, place: str) -> list[dict[str, Any]]:
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
            raise Problem.invalid(f"{where}: the lab knows no {block.get('type')!r}", where)
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

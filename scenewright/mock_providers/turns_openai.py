"""Conversations in OpenAI's two formats."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, ToolCall

from scenewright.agents.chat.base import Tools
from scenewright.mock_providers import turns
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns, turns_of
from scenewright.mock_providers.wire import as_list, as_object, as_text

_SYSTEM = ("system", "developer")


def chat_turns(body: dict[str, Any]) -> Turns:
    """The conversation of a chat completion; raises ``Problem``."""
    said: list[BaseMessage] = []
    for at, given in enumerate(as_list(body.get("messages"), "messages")):
        place = f"messages[{at}]"
        message = as_object(given, place)
        blocks = _blocks(message.get("content"), f"{place}.content")
        role = message.get("role")
        if role in _SYSTEM:
            said.append(turns.system(_text(blocks)))
        elif role == "user":
            said.append(turns.user(blocks))
        elif role == "tool":
            id = as_text(message.get("tool_call_id"), f"{place}.tool_call_id")
            if any(block["type"] != "text" for block in blocks):
                raise Problem.invalid("tools answer in text only", f"{place}.content")
            said.append(turns.answer(id, blocks))
        elif role == "assistant":
            calls = []
            for n, entry in enumerate(as_list(message.get("tool_calls") or [], place)):
                where = f"{place}.tool_calls[{n}]"
                calls.append(_called(as_object(entry, where), where))
            said.append(turns.model(_text(blocks), calls))
        else:
            raise Problem.invalid(f"{place}.role: unknown role {role!r}", f"{place}.role")
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        where = f"tools[{at}].function"
        function = as_object(as_object(entry, where).get("function"), where)
        schemas.append(_schema(function, where))
    wish = body.get("response_format")
    wanted = wish.get("json_schema") if isinstance(wish, dict) else None
    if not schemas and isinstance(wanted, dict):
        name = as_text(wanted.get("name"), "response_format.json_schema.name")
        schema = turns.schema_of(name, wanted.get("description"), wanted.get("schema"))
        return turns_of(said, Tools((schema,), f"={name}"), as_text=True)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = as_object(choice.get("function"), "tool_choice.function")
    return turns_of(said, _tools(body, schemas, choice))


def responses_turns(body: dict[str, Any]) -> Turns:
    """The conversation of a response; raises ``Problem``."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said: list[BaseMessage] = []
    if isinstance(body.get("instructions"), str):
        said.append(turns.system(body["instructions"]))
    text, calls = "", list[ToolCall]()

    def close() -> None:
        nonlocal text
        if text or calls:
            said.append(turns.model(text, calls))
            text = ""
            calls.clear()

    for at, entry in enumerate(as_list(items, "input")):
        place = f"input[{at}]"
        item = as_object(entry, place)
        if item.get("type") == "function_call":
            id = as_text(item.get("call_id"), f"{place}.call_id")
            name = as_text(item.get("name"), f"{place}.name")
            calls.append(turns.call(id, name, item.get("arguments"), f"{place}.arguments"))
            continue
        role = item.get("role")
        if role == "assistant":
            if calls:
                close()
            told = _text(_blocks(item.get("content"), f"{place}.content"))
            text = f"{text}\n{told}" if text else told
            continue
        close()
        if item.get("type") == "function_call_output":
            id = as_text(item.get("call_id"), f"{place}.call_id")
            said.append(turns.answer(id, _blocks(item.get("output"), f"{place}.output")))
        elif role in _SYSTEM:
            said.append(turns.system(_text(_blocks(item.get("content"), place))))
        elif role == "user":
            said.append(turns.user(_blocks(item.get("content"), f"{place}.content")))
        elif item.get("type") != "reasoning":
            raise Problem.invalid(f"{place}: the lab knows no such item", place)
    close()
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        schemas.append(_schema(as_object(entry, f"tools[{at}]"), f"tools[{at}]"))
    return turns_of(said, _tools(body, schemas, body.get("tool_choice")))


def _called(entry: dict[str, Any], place: str) -> ToolCall:
    function = as_object(entry.get("function"), f"{place}.function")
    id = as_text(entry.get("id"), f"{place}.id")
    name = as_text(function.get("name"), f"{place}.function.name")
    return turns.call(id, name, function.get("arguments"), f"{place}.function.arguments")


def _schema(function: dict[str, Any], place: str) -> dict[str, Any]:
    name = as_text(function.get("name"), f"{place}.name")
    return turns.schema_of(name, function.get("description"), function.get("parameters"))


def _tools(body: dict[str, Any], schemas: list[dict[str, Any]], choice: object) -> Tools:
    parallel = body.get("parallel_tool_calls")
    wanted = "auto"
    if isinstance(choice, dict):
        wanted = f"={as_text(choice.get('name'), 'tool_choice')}"
    elif choice == "required":
        wanted = "any"
    elif choice == "none":
        wanted = "none"
    return Tools(tuple(schemas), wanted, parallel if isinstance(parallel, bool) else None)


def _blocks(content: object, place: str) -> list[dict[str, Any]]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [turns.words(content)]
    found = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}[{at}]"
        part = as_object(entry, where)
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                found.append(turns.words(as_text(part.get("text"), f"{where}.text")))
            case "refusal":
                found.append(turns.words(as_text(part.get("refusal"), f"{where}.refusal")))
            case "image_url" | "input_image":
                image = part.get("image_url")
                url = image.get("url") if isinstance(image, dict) else image
                found.append(turns.picture(from_data_url(url, f"{where}.image_url")))
            case kind:
                raise Problem.invalid(f"{where}.type: the lab knows no {kind!r}", where)
    return found


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")

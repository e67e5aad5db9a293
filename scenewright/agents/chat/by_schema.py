"""Tools for servers on which only a JSON schema binds: told in words, called by an object.

A tool that must be called is asked for as the object of its arguments; of several the object names
one: ``{"tool": NAME, "arguments": {...}}``. Earlier calls and their answers become words.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.utils.json_schema import dereference_refs

from scenewright.agents.chat.base import Tools
from scenewright.agents.chat.language_replies import as_data, json_object
from scenewright.prompts import load_prompt

NAME = "call"
"""What the schema of a choice among several tools is called."""
_TOOL, _ARGUMENTS = "tool", "arguments"


def wanted_form(tools: Tools) -> tuple[str, dict[str, Any]]:
    """Return name and schema of the object that calls one of ``tools``."""
    functions = _offered(tools)
    if len(functions) == 1:
        return str(functions[0]["name"]), _parameters(functions[0])
    every = [
        {
            "type": "object",
            "properties": {
                _TOOL: {"type": "string", "enum": [function["name"]]},
                _ARGUMENTS: _parameters(function),
            },
            "required": [_TOOL, _ARGUMENTS],
            "additionalProperties": False,
        }
        for function in functions
    ]
    return NAME, {
        "type": "object",
        "properties": {NAME: {"anyOf": every}},
        "required": [NAME],
        "additionalProperties": False,
    }


def in_words(messages: Sequence[BaseMessage], tools: Tools) -> list[BaseMessage]:
    """Return ``messages`` with the tools told beside the system's words, and without calls."""
    told = load_prompt("chat_by_schema").render(tools=as_data(_offered(tools)))
    first, *rest = messages
    if isinstance(first, SystemMessage):
        found: list[BaseMessage] = [SystemMessage(f"{first.text}\n\n{told}")]
    else:
        found, rest = [SystemMessage(told)], list(messages)
    for message in rest:
        match message:
            case ToolMessage():
                name = message.name or "called"
                found.append(HumanMessage(f"The tool {name} answered: {message.text}"))
            case AIMessage() if message.tool_calls:
                calls = [{_TOOL: c["name"], _ARGUMENTS: c["args"]} for c in message.tool_calls]
                words = [str(message.text), *(json.dumps(c, ensure_ascii=False) for c in calls)]
                found.append(AIMessage("\n".join(filter(None, words))))
            case _:
                found.append(message)
    return found


def call_in(text: str, tools: Tools) -> ToolCall | None:
    """Return the call that the object in ``text`` makes; None if it makes none."""
    given = json_object(text)
    if given is None:
        return None
    functions = {str(function["name"]): function for function in _offered(tools)}
    if len(functions) == 1:
        ((name, function),) = functions.items()
        return _call(name, given) if _fits(given, function) else None
    inner = given.get(NAME, given)
    if not isinstance(inner, Mapping):
        return None
    chosen, arguments = str(inner.get(_TOOL)), inner.get(_ARGUMENTS)
    if chosen not in functions or not isinstance(arguments, dict):
        return None
    return _call(chosen, arguments) if _fits(arguments, functions[chosen]) else None


def _call(name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(name=name, args=arguments, id=f"call_{uuid.uuid4().hex}", type="tool_call")


def _fits(given: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Whether every argument that the tool demands is there."""
    required = _parameters(function).get("required")
    return all(key in given for key in required if isinstance(required, list)) if required else True


def _offered(tools: Tools) -> list[dict[str, Any]]:
    named = tools.named
    return [f for f in tools.functions if named is None or f["name"] == named]


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, in which nothing refers to a place elsewhere."""
    given = function.get("parameters") or {"type": "object", "properties": {}}
    found: dict[str, Any] = dereference_refs(dict(given))
    return {key: value for key, value in found.items() if key != "$defs"}

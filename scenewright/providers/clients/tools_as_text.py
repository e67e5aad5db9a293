"""Tool calls as JSON text, for servers on which a JSON schema binds a reply and tools do not.

A tool that must be called is described in words and requested as the JSON object of its arguments;
with several tools the object names one: ``{"call": {"tool": NAME, "arguments": {...}}}``. Earlier
calls and their answers become text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.utils.json_schema import dereference_refs

from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import Message, ToolCall, Tools
from scenewright.providers.replies import best_object

NAME = "call"
"""Name of the schema of a choice among several tools."""
_TOOL, _ARGUMENTS = "tool", "arguments"


def call_schema(tools: Tools) -> tuple[str, dict[str, Any]]:
    """Return name and schema of an object that calls one of ``tools``."""
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


def tools_as_text(messages: Sequence[Message], tools: Tools) -> list[Message]:
    """Return ``messages`` as text: tools described in the system message, calls as text."""
    # JSON that cannot close its block of the prompt.
    offered = json.dumps(_offered(tools), ensure_ascii=False, indent=1).replace("`", "\\u0060")
    told = load_prompt("chat_by_schema").render(tools=offered)
    first, *rest = messages
    if first.role == "system":
        found = [Message("system", (f"{first.text}\n\n{told}",))]
    else:
        found, rest = [Message("system", (told,))], list(messages)
    for message in rest:
        if message.role == "tool":
            text = f"The tool {message.name or 'called'} answered: {message.text}"
            found.append(Message("user", (text,)))
        elif message.calls:
            calls = [{_TOOL: call.name, _ARGUMENTS: call.arguments} for call in message.calls]
            words = [message.text, *(json.dumps(call, ensure_ascii=False) for call in calls)]
            found.append(replace(message, parts=("\n".join(filter(None, words)),), calls=()))
        else:
            found.append(message)
    return found


def parse_tool_call(text: str, tools: Tools) -> ToolCall | None:
    """Return the call in a JSON object of ``text``; None if there is none."""
    _, schema = call_schema(tools)
    given = best_object(text, schema)
    if given is None:
        return None
    functions = {str(function["name"]): function for function in _offered(tools)}
    if len(functions) == 1:
        ((name, function),) = functions.items()
        return _call(name, given) if _has_required(given, function) else None
    inner = given.get(NAME, given)
    if not isinstance(inner, Mapping):
        return None
    chosen, arguments = str(inner.get(_TOOL)), inner.get(_ARGUMENTS)
    if chosen not in functions or not isinstance(arguments, dict):
        return None
    return _call(chosen, arguments) if _has_required(arguments, functions[chosen]) else None


def _call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(f"call_{uuid.uuid4().hex}", name, dict(arguments))


def _has_required(given: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Return whether all required arguments are given."""
    required = _parameters(function).get("required")
    return all(key in given for key in required) if isinstance(required, list) else True


def _offered(tools: Tools) -> list[dict[str, Any]]:
    named = tools.named
    return [f for f in tools.functions if named is None or f["name"] == named]


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, without references."""
    given = function.get("parameters") or {"type": "object", "properties": {}}
    found: dict[str, Any] = dereference_refs(dict(given))
    return {key: value for key, value in found.items() if key != "$defs"}

"""Conversations in Gemini's format."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, ToolCall

from scenewright.agents.chat.base import Tools
from scenewright.mock_providers import turns
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns, turns_of
from scenewright.mock_providers.wire import as_list, as_object, as_text

_SIGNED = b"lab:"
_MODES = {"AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "auto"}


def signature(id: str) -> str:
    """The thought signature of the first call of a reply, base64."""
    return base64.b64encode(_SIGNED + id.encode()).decode()


def field(entry: Mapping[str, Any], name: str) -> Any:
    """A field by its JSON name, ``inlineData``, or by its proto name, ``inline_data``."""
    if name in entry:
        return entry[name]
    return entry.get("".join(f"_{c.lower()}" if c.isupper() else c for c in name))


def content_turns(body: dict[str, Any]) -> Turns:
    """The conversation of a content; raises ``Problem``.

    As Gemini 3 does, it wants back the signature of the first call of each turn of the model.
    """
    said: list[BaseMessage] = []
    told = field(body, "systemInstruction")
    if told:
        said.append(turns.system(_text(_parts(told, "systemInstruction"))))
    given = body.get("contents")
    # Gemini names calls where it gives no ids: answers go to calls of their name, in order.
    waiting: list[ToolCall] = []
    for at, entry in enumerate(as_list([given] if isinstance(given, dict) else given, "contents")):
        place = f"contents[{at}]"
        content = as_object(entry, place)
        parts = _parts(content, place)
        if content.get("role", "user") == "model":
            waiting = _calls(parts, place)
            said.append(turns.model(_text(parts), list(waiting)))
            continue
        rest = []
        for n, part in enumerate(parts):
            where = f"{place}.parts[{n}]"
            answered = field(part, "functionResponse")
            if answered is not None:
                said.append(_answer(as_object(answered, where), waiting, where))
            elif field(part, "inlineData") is not None:
                blob = as_object(field(part, "inlineData"), where)
                rest.append(turns.picture(decode_base64(blob.get("data"), where)))
            else:
                rest.append(turns.words(as_text(part.get("text"), f"{where}.text")))
        if rest:
            said.append(turns.user(rest))
    return turns_of(said, _tools(body))


def _parts(content: object, place: str) -> list[dict[str, Any]]:
    parts = as_object(content, place).get("parts")
    listed = [parts] if isinstance(parts, dict) else parts
    return [
        as_object(part, f"{place}.parts[{n}]")
        for n, part in enumerate(as_list(listed, f"{place}.parts"))
    ]


def _calls(parts: list[dict[str, Any]], place: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for n, part in enumerate(parts):
        found = field(part, "functionCall")
        if found is None:
            continue
        where = f"{place}.parts[{n}].function_call"
        function = as_object(found, where)
        name = as_text(function.get("name"), f"{where}.name")
        id = str(function.get("id") or f"{place}:{n}")
        if not calls and not _signed(field(part, "thoughtSignature")):
            raise Problem.invalid(
                f"Function call is missing a thought_signature in functionCall parts: `{name}`, "
                f"position {n + 1} of {place}. Send back the signature that came with it.",
                where,
            )
        calls.append(turns.call(id, name, function.get("args") or {}, where))
    return calls


def _signed(given: object) -> bool:
    try:
        plain = str(given or "").replace("-", "+").replace("_", "/")
        return base64.b64decode(plain, validate=True).startswith(_SIGNED)
    except (binascii.Error, ValueError):
        return False


def _answer(answered: dict[str, Any], waiting: list[ToolCall], place: str) -> BaseMessage:
    name = as_text(answered.get("name"), f"{place}.function_response.name")
    id = answered.get("id")
    fits = [call for call in waiting if call["name"] == name and id in (None, call["id"])]
    if not fits:
        raise Problem.invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            f"function call parts of the function call turn: nobody called {name!r}",
            place,
        )
    waiting.remove(fits[0])
    response = as_object(answered.get("response") or {}, f"{place}.response")
    failed = "error" in response
    told = response.get("error", response.get("output", response))
    text = told if isinstance(told, str) else str(told)
    return turns.answer(str(fits[0]["id"]), [turns.words(text)], failed, name)


def _tools(body: dict[str, Any]) -> Tools:
    schemas = []
    for at, given in enumerate(as_list(body.get("tools") or [], "tools")):
        declared = field(as_object(given, f"tools[{at}]"), "functionDeclarations") or []
        for entry in as_list(declared, f"tools[{at}].function_declarations"):
            function = as_object(entry, "function_declarations")
            schema = field(function, "parametersJsonSchema") or function.get("parameters")
            name = as_text(function.get("name"), "function_declarations.name")
            schemas.append(turns.schema_of(name, function.get("description"), schema))
    config = as_object(field(body, "toolConfig") or {}, "toolConfig")
    calling = as_object(field(config, "functionCallingConfig") or {}, "functionCallingConfig")
    choice = _MODES.get(str(calling.get("mode", "AUTO")).upper(), "auto")
    allowed = field(calling, "allowedFunctionNames")
    if choice == "any" and isinstance(allowed, list) and len(allowed) == 1:
        choice = f"={allowed[0]}"
    return Tools(tuple(schemas), choice)


def _text(parts: list[dict[str, Any]]) -> str:
    return "".join(str(part["text"]) for part in parts if part.get("text"))

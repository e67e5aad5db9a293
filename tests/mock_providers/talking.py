"""Conversations with tools in the providers' formats, and what comes back, in one form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Turn = dict[str, Any]
LOOK = {
    "name": "look",
    "description": "Look at a place.",
    "parameters": {
        "type": "object",
        "properties": {"where": {"type": "string"}, "times": {"type": "integer", "minimum": 2}},
        "required": ["where", "times"],
    },
}
COUNT = {"name": "count", "description": "Count.", "parameters": {"type": "object"}}


def user(text: str) -> Turn:
    return {"role": "user", "text": text}


def result(call: Turn, text: str) -> Turn:
    return {"role": "tool", "call": call, "text": text}


def request(
    route: str,
    turns: Sequence[Turn],
    tools: Sequence[dict[str, Any]] = (LOOK, COUNT),
    model: str = "script:once",
    choice: str = "auto",
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """A request; a turn of the model is :func:`heard`'s dictionary."""
    build = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}
    made = build[route](turns, tools, choice, max_tokens)
    return made if route == "gemini" else {"model": model, **made}


def heard(route: str, data: Any) -> Turn:
    """``text``, ``calls`` (``id``, ``name``, ``args``, ``text`` and, of Gemini, ``signature``)
    and why it ended."""
    found: Turn = {"role": "model", "text": "", "calls": []}
    if route == "chat":
        message, found["end"] = data["choices"][0]["message"], data["choices"][0]["finish_reason"]
        found["text"] = message["content"] or message["refusal"] or ""
        for call in message.get("tool_calls") or []:
            text = call["function"]["arguments"]
            found["calls"].append(
                {"id": call["id"], "name": call["function"]["name"], "json": text}
            )
    elif route == "responses":
        found["end"] = (data["incomplete_details"] or {}).get("reason", data["status"])
        for item in data["output"]:
            if item["type"] == "function_call":
                call = {"id": item["call_id"], "name": item["name"], "json": item["arguments"]}
                found["calls"].append(call)
            else:
                piece = item["content"][0]
                found["text"] += piece.get("text") or piece.get("refusal")
    elif route == "messages":
        found["end"] = data["stop_reason"]
        for block in data["content"]:
            if block["type"] == "tool_use":
                call = {"id": block["id"], "name": block["name"], "args": block["input"]}
                found["calls"].append(call)
            else:
                found["text"] += block["text"]
    else:
        candidate = (data.get("candidates") or [{}])[0]
        found["end"] = candidate.get("finishReason") or data["promptFeedback"]["blockReason"]
        for part in candidate.get("content", {}).get("parts", []):
            called = part.get("functionCall")
            if called is None:
                found["text"] += part["text"]
                continue
            call = {"id": called["id"], "name": called["name"], "args": called["args"]}
            found["calls"].append({**call, "signature": part.get("thoughtSignature")})
    for call in found["calls"]:
        if "args" not in call:
            try:
                call["args"] = json.loads(call["json"])
            except ValueError:
                call["args"] = None
    return found


def tokens(route: str, data: Any) -> tuple[int, int]:
    """Input and output tokens of a response."""
    usage = data["usageMetadata" if route == "gemini" else "usage"]
    names = {
        "chat": ("prompt_tokens", "completion_tokens"),
        "gemini": ("promptTokenCount", "candidatesTokenCount"),
    }.get(route, ("input_tokens", "output_tokens"))
    return usage[names[0]], usage[names[1]]


def _chat(turns: Any, tools: Any, choice: str, max_tokens: int | None) -> dict[str, Any]:
    messages: list[Any] = []
    for turn in turns:
        if turn["role"] == "tool":
            id = turn["call"]["id"]
            messages.append({"role": "tool", "tool_call_id": id, "content": turn["text"]})
        elif turn["role"] == "model":
            calls = [
                {"id": c["id"], "type": "function",
                 "function": {"name": c["name"], "arguments": json.dumps(c["args"])}}
                for c in turn["calls"]
            ]  # fmt: skip
            message = {"role": "assistant", "content": turn["text"] or None}
            messages.append({**message, "tool_calls": calls} if calls else message)
        else:
            messages.append({"role": "user", "content": turn["text"]})
    made: dict[str, Any] = {"messages": messages}
    if tools:
        made["tools"] = [{"type": "function", "function": tool} for tool in tools]
        named = {"type": "function", "function": {"name": choice}}
        made["tool_choice"] = {"any": "required"}.get(choice) or (
            choice if choice in ("auto", "none") else named
        )
    if max_tokens:
        made["max_completion_tokens"] = max_tokens
    return made


def _responses(turns: Any, tools: Any, choice: str, max_tokens: int | None) -> dict[str, Any]:
    items: list[Any] = []
    for turn in turns:
        if turn["role"] == "tool":
            call = turn["call"]["id"]
            items.append({"type": "function_call_output", "call_id": call, "output": turn["text"]})
        elif turn["role"] == "model":
            if turn["text"]:
                part = {"type": "output_text", "text": turn["text"], "annotations": []}
                items.append({"type": "message", "role": "assistant", "content": [part]})
            items += [
                {"type": "function_call", "call_id": c["id"], "name": c["name"],
                 "arguments": json.dumps(c["args"])}
                for c in turn["calls"]
            ]  # fmt: skip
        else:
            items.append({"role": "user", "content": turn["text"]})
    made: dict[str, Any] = {"input": items}
    if tools:
        made["tools"] = [{"type": "function", **tool} for tool in tools]
        named = {"type": "function", "name": choice}
        made["tool_choice"] = {"any": "required"}.get(choice) or (
            choice if choice in ("auto", "none") else named
        )
    if max_tokens:
        made["max_output_tokens"] = max_tokens
    return made


def _messages(turns: Any, tools: Any, choice: str, max_tokens: int | None) -> dict[str, Any]:
    messages: list[Any] = []
    for turn in turns:
        if turn["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": turn["call"]["id"]}
            block["content"] = turn["text"]
            if messages[-1]["role"] == "user":
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "user", "content": [block]})
        elif turn["role"] == "model":
            blocks: list[Any] = [{"type": "text", "text": turn["text"]}] if turn["text"] else []
            blocks += [
                {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]}
                for c in turn["calls"]
            ]
            messages.append({"role": "assistant", "content": blocks})
        else:
            messages.append({"role": "user", "content": turn["text"]})
    made: dict[str, Any] = {"messages": messages, "max_tokens": max_tokens or 4096}
    if tools:
        made["tools"] = [
            {"name": t["name"], "description": t["description"], "input_schema": t["parameters"]}
            for t in tools
        ]
        kinds = {"auto", "any", "none"}
        made["tool_choice"] = (
            {"type": choice} if choice in kinds else {"type": "tool", "name": choice}
        )
    return made


def _gemini(turns: Any, tools: Any, choice: str, max_tokens: int | None) -> dict[str, Any]:
    contents: list[Any] = []
    for turn in turns:
        if turn["role"] == "tool":
            call = turn["call"]
            answer = {"id": call["id"], "name": call["name"], "response": {"output": turn["text"]}}
            if contents[-1]["role"] != "user":
                contents.append({"role": "user", "parts": []})
            contents[-1]["parts"].append({"functionResponse": answer})
        elif turn["role"] == "model":
            parts: list[Any] = [{"text": turn["text"]}] if turn["text"] else []
            for c in turn["calls"]:
                part = {"functionCall": {"id": c["id"], "name": c["name"], "args": c["args"]}}
                signed = {"thoughtSignature": c["signature"]} if c.get("signature") else {}
                parts.append({**part, **signed})
            contents.append({"role": "model", "parts": parts})
        else:
            contents.append({"role": "user", "parts": [{"text": turn["text"]}]})
    made: dict[str, Any] = {"contents": contents}
    if tools:
        declared = [
            {"name": t["name"], "description": t["description"],
             "parametersJsonSchema": t["parameters"]}
            for t in tools
        ]  # fmt: skip
        made["tools"] = [{"functionDeclarations": declared}]
        mode = {"auto": "AUTO", "none": "NONE"}.get(choice, "ANY")
        calling: dict[str, Any] = {"mode": mode}
        if choice not in ("auto", "none", "any"):
            calling["allowedFunctionNames"] = [choice]
        made["toolConfig"] = {"functionCallingConfig": calling}
    if max_tokens:
        made["generationConfig"] = {"maxOutputTokens": max_tokens}
    return made

"""Replies as server-sent events: the pieces in which each provider's stream brings one.

Every function takes the JSON of a whole reply and returns type and data of the events that bring
the same; an empty type is an event without a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Event = tuple[str, Any]
DONE = b"[DONE]"
"""Data of the last event of a chat completion."""
REASONING = ("reasoning_content", "reasoning")
"""Fields in which servers put a model's thoughts."""
_PIECE = re.compile(r"\d{1,3}|[^\W\d_]+|_+|\s+|[^\w\s]+|.", re.DOTALL)


def pieces(text: str) -> list[str]:
    """Return ``text`` cut into words, numbers of up to three digits, spaces and signs.

    Joined they are the text again.
    """
    return _PIECE.findall(text)


def chat_events(reply: Mapping[str, Any], *, usage: bool) -> tuple[Event, ...]:
    """Return the chunks of a chat completion; ``usage``: the last of them tells the tokens."""
    about = {key: value for key, value in reply.items() if key not in ("choices", "usage")}
    about["object"] = "chat.completion.chunk"
    ends = {"usage": None} if usage else {}
    chunks: list[dict[str, Any]] = []
    for choice in reply.get("choices") or ():
        rest = {key: choice[key] for key in choice.keys() - {"message", "logprobs"}}
        deltas = [*_deltas(choice.get("message") or {}, choice.get("logprobs")), ({}, None)]
        for at, (delta, logprobs) in enumerate(deltas):
            last = at == len(deltas) - 1
            told = {**rest, "finish_reason": rest.get("finish_reason") if last else None}
            entry = {**told, "delta": delta, "logprobs": logprobs}
            chunks.append(about | {"choices": [entry]} | ends)
    if usage:
        chunks.append(about | {"choices": [], "usage": reply.get("usage")})
    return (*(("", chunk) for chunk in chunks), ("", DONE))


def _deltas(message: Mapping[str, Any], logprobs: Any) -> Iterable[tuple[dict[str, Any], Any]]:
    """Yield what each chunk adds to the message, and the log-probabilities of that."""
    yield {"role": "assistant", "content": "" if message.get("content") is not None else None}, None
    for field in (*REASONING, "refusal"):
        if isinstance(message.get(field), str):
            for piece in pieces(message[field]):
                yield {field: piece}, None
    content, tokens = message.get("content"), (logprobs or {}).get("content") or ()
    if isinstance(content, str) and "".join(token["token"] for token in tokens) == content:
        for token in tokens:
            yield {"content": token["token"]}, {"content": [token], "refusal": None}
    elif isinstance(content, str):
        for piece in pieces(content):
            yield {"content": piece}, None
    elif content is not None:
        yield {"content": content}, None
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = function["arguments"]
        whole = not isinstance(arguments, str)
        first = {**call, "index": index}
        first["function"] = {**function, "arguments": arguments if whole else ""}
        yield {"tool_calls": [first]}, None
        for piece in () if whole else pieces(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None


def named_events(events: Iterable[dict[str, Any]]) -> tuple[Event, ...]:
    """Return ``events``, each under the type that it holds."""
    return tuple((event["type"], event) for event in events)


def response_events(reply: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the events of a response."""
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(reply["output"]):
        is_call = item["type"] == "function_call"
        opened = {**item, "status": "in_progress"}
        opened["arguments" if is_call else "content"] = "" if is_call else []
        added = {"output_index": index, "item": opened}
        yield {"type": "response.output_item.added", **added}
        place = {"output_index": index, "item_id": item["id"]}
        if is_call:
            kind, arguments = "response.function_call_arguments", item["arguments"]
            for piece in pieces(arguments):
                yield {"type": f"{kind}.delta", **place, "delta": piece}
            yield {"type": f"{kind}.done", **place, "name": item["name"], "arguments": arguments}
        for number, part in enumerate(item.get("content") or ()):
            yield from _part({**place, "content_index": number}, part)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{reply['status']}", "response": reply}


def _part(place: dict[str, Any], part: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the events of one part of a message: its words, or a refusal."""
    refused = part["type"] == "refusal"
    field, kind = "text", "response.output_text"
    if refused:
        field, kind = "refusal", "response.refusal"
    tokens = list(part.get("logprobs") or ())
    yield {"type": "response.content_part.added", **place, "part": {**part, field: ""}}
    split = [(token["token"], [token]) for token in tokens]
    for piece, listed in split or [(piece, []) for piece in pieces(part[field])]:
        extra = {} if refused else {"logprobs": listed}
        yield {"type": f"{kind}.delta", **place, "delta": piece, **extra}
    extra = {} if refused else {"logprobs": tokens}
    yield {"type": f"{kind}.done", **place, field: part[field], **extra}
    yield {"type": "response.content_part.done", **place, "part": part}


def message_events(reply: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the events of one of Anthropic's messages."""
    spent = reply["usage"]
    begun: dict[str, Any] = {"content": [], "stop_reason": None, "stop_details": None}
    begun["usage"] = {**spent, "output_tokens": 1}
    yield {"type": "message_start", "message": {**reply, **begun}}
    for index, block in enumerate(reply["content"]):
        empty: dict[str, Any] = {"text": ""}
        field, kind, text = "text", "text_delta", block.get("text", "")
        if block["type"] == "tool_use":
            empty = {"input": {}}
            field, kind = "partial_json", "input_json_delta"
            text = json.dumps(block["input"], separators=(",", ":"), ensure_ascii=False)
        place = {"index": index}
        yield {"type": "content_block_start", **place, "content_block": {**block, **empty}}
        yield {"type": "ping"}
        for piece in pieces(text):
            yield {"type": "content_block_delta", **place, "delta": {"type": kind, field: piece}}
        yield {"type": "content_block_stop", **place}
    ends = {key: reply.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    usage = {"output_tokens": spent["output_tokens"]}
    yield {"type": "message_delta", "delta": ends, "usage": usage}
    yield {"type": "message_stop"}


def content_events(reply: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the chunks of Gemini's content: the last one has the reason and the tokens."""
    candidates = reply.get("candidates") or ()
    if not candidates:
        return (("", reply),)
    (candidate,) = candidates
    about = {key: reply[key] for key in ("modelVersion", "responseId") if key in reply}
    chunks: list[dict[str, Any]] = []
    for part in (candidate.get("content") or {}).get("parts", ()):
        split = [{"text": piece} for piece in pieces(part["text"])] if "text" in part else [part]
        for one in split:
            content = {"role": "model", "parts": [one]}
            chunks.append(about | {"candidates": [{"index": 0, "content": content}]})
    last = {key: value for key, value in candidate.items() if key != "content"}
    last["content"] = {"role": "model", "parts": [{"text": ""}]}
    chunks.append({**reply, "candidates": [last]})
    return tuple(("", chunk) for chunk in chunks)

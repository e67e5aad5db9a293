"""Faults of content and quirks: how they change a request and bend a model's reply."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from scenewright.agents.judges.pictures import CHARACTERS_A_TOKEN, character_tokens
from scenewright.mock_providers.faults import Fault, Quirk
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import (
    REFUSAL,
    ModelReply,
    ModelRequest,
    ScriptedReply,
    Token,
    ToolInvocation,
)
from scenewright.providers.clients.base import Tools

_ELSEWHERE = "tool_of_another_request"
_ROUND = "I'm so glad you're here. "
_MOST_TOKENS = 4096
_NO_PICTURES = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)


def apply_request_quirks(asked: ModelRequest, quirks: frozenset[Quirk]) -> ModelRequest:
    """Return the request as a server with these quirks understands it; raises ``Problem``."""
    if Quirk.NO_PICTURES in quirks and asked.images:
        raise Problem.server(_NO_PICTURES)
    if Quirk.REFUSED_LOGPROBS in quirks and asked.alternatives is not None:
        # In the words of OpenAI; Gemini's are "Logprobs is not enabled for models/...".
        raise Problem.invalid(f"logprobs are not supported with {asked.model}.", "logprobs")
    if Quirk.NO_LOGPROBS in quirks:
        asked = replace(asked, alternatives=None)
    if Quirk.STRING_CHOICE in quirks and asked.forced:
        raise Problem.invalid("tool_choice: expected a string", "tool_choice")
    tools = asked.turns.tools
    if Quirk.NO_TOOLS in quirks and asked.form == "tool":
        tools = Tools()
    elif Quirk.LOOSE_CHOICE in quirks and asked.forced:
        tools = replace(tools, choice="auto")
    else:
        return asked
    turns = replace(asked.turns, tools=tools)
    return replace(asked, form="text", tool="", forced=False, plain=True, turns=turns)


def apply_reply_quirks(
    said: ModelReply, asked: ModelRequest, quirks: frozenset[Quirk]
) -> ModelReply:
    """Return what a server with these quirks makes of an answer."""
    if Quirk.ENDLESS in quirks:
        length = (asked.max_tokens or _MOST_TOKENS) * CHARACTERS_A_TOKEN
        return ModelReply((_ROUND * length)[:length], "length")
    if Quirk.FENCED_TOKENS in quirks and said.tokens is not None:
        before, after = (
            tuple(Token(text, ((text, 1.0),)) for text in fence)
            for fence in (("\n", "```", "json", "\n"), ("\n", "```"))
        )
        return replace(said, tokens=(*before, *said.tokens, *after))
    return said


def apply_content_fault(
    line: ScriptedReply, asked: ModelRequest, fault: Fault | None
) -> ModelReply:
    """``line`` within the request's limit, bent by ``fault`` if it is one of content.

    A call that is broken or cut off takes its words' place.
    """
    if fault is Fault.EMPTY:
        return ModelReply("", "empty")
    if fault is Fault.REFUSAL or line.refused:
        words = REFUSAL if fault is Fault.REFUSAL else line.text or REFUSAL
        return ModelReply(words, "refusal")
    calls = tuple(ToolInvocation(name, as_json(given), given) for name, given in line.calls)
    said = ModelReply(line.text, "stop" if line.text or calls else "empty", calls=calls)
    if fault is Fault.OUTSIDE_OPTIONS:
        return replace(said, calls=tuple(replace(call, name=_ELSEWHERE) for call in calls))
    if fault is Fault.WRONG_NUMBER:
        return replace(said, calls=calls + calls[:1])
    if fault is Fault.INVALID_JSON and calls:
        name, given = line.calls[0]
        # Where a format carries an object it cannot be broken: a list in it comes as a string that
        # is, which Claude is known to do, or what was said is lost.
        key = next((key for key, value in given.items() if isinstance(value, list)), "arguments")
        call = ToolInvocation(name, _broken(given), {key: _broken(given.get(key, given))})
        return ModelReply(line.text, "malformed", calls=(call,))
    if fault is Fault.INVALID_JSON:
        return ModelReply(line.text.replace('":', '" ', 1), "malformed")
    most = asked.max_tokens
    if fault is Fault.TRUNCATED_JSON:
        return _cut(said, written_characters(said) // 2)
    if most is not None and character_tokens(written_characters(said)) > most:
        return _cut(said, most * CHARACTERS_A_TOKEN)
    return said


def written_characters(said: ModelReply) -> int:
    """Characters that a model wrote, its calls' names and arguments included."""
    return len(said.text) + sum(len(c.name) + len(c.text) for c in said.calls)


def as_json(value: Any) -> str:
    """Return ``value`` as models write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _broken(value: Any) -> str:
    text = as_json(value)
    return text.replace('":', '" ', 1) if '":' in text else f"{text[:-1]}, "


def _cut(said: ModelReply, at: int) -> ModelReply:
    """Return the first ``at`` characters."""
    left = at - len(said.text)
    if left <= 0:
        return ModelReply(said.text[:at], "length")
    kept: list[ToolInvocation] = []
    for call in said.calls:
        length = len(call.name) + len(call.text)
        if length <= left:
            kept.append(call)
        elif left > len(call.name):
            kept.append(ToolInvocation(call.name, call.text[: left - len(call.name)]))
        left -= length
        if left <= 0:
            break
    return ModelReply(said.text, "length", calls=tuple(kept))

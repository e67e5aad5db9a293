"""A script's answer to a conversation, and how a fault bends it."""

from __future__ import annotations

import json
from typing import Any

from scenewright.agents.judges.tokens import CHARACTERS_A_TOKEN, text_tokens
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.scripts import ScriptedReply, next_line
from scenewright.mock_providers.turns import Turns
from scenewright.mock_providers.wire import REFUSAL, ModelReply, ModelRequest, ToolInvocation

_ELSEWHERE = "tool_of_another_request"


DIRECTOR = "script:director"


def is_directing(asked: ModelRequest) -> bool:
    """Whether a request carries the director's tools, which no judge can use."""
    if asked.turns is None:
        return False
    names = {str(function["name"]) for function in asked.turns().tools.functions}
    return {"generate_image", "accept"} <= names


async def talk(model: str, turns: Turns, asked: ModelRequest, fault: Fault | None) -> ModelReply:
    """What the script ``model`` says to ``turns``, bent by ``fault`` if it is one of content."""
    if fault in (Fault.REFUSAL, Fault.EMPTY):
        return bent(ScriptedReply(), asked, fault)
    line = await next_line(model, turns)
    return bent(written(line) if turns.as_text else line, asked, fault)


def written(line: ScriptedReply) -> ScriptedReply:
    """``line`` with the arguments of its call as its words."""
    return ScriptedReply(_json(line.calls[0][1])) if line.calls else line


def bent(line: ScriptedReply, asked: ModelRequest, fault: Fault | None) -> ModelReply:
    """``line`` within the request's limit, bent by ``fault`` if it is one of content.

    A call that is broken or cut off takes its words' place.
    """
    if fault is Fault.REFUSAL:
        return ModelReply(REFUSAL, {}, "refusal", calls=())
    if fault is Fault.EMPTY:
        return ModelReply("", {}, "empty", calls=())
    if line.refused:
        return ModelReply(line.text or REFUSAL, {}, "refusal", calls=())
    said = _said(line)
    calls = said.calls or ()
    if fault is Fault.OUTSIDE_OPTIONS:
        calls = tuple(ToolInvocation(_ELSEWHERE, call.arguments, call.text) for call in calls)
        return ModelReply(said.text, {}, calls=calls)
    if fault is Fault.WRONG_NUMBER:
        return ModelReply(said.text, {}, calls=calls + calls[:1])
    if fault is Fault.INVALID_JSON and calls:
        broken = calls[0].text.replace('":', '" ', 1)
        broken = broken if broken != calls[0].text else f"{broken[:-1]}, "
        # Where a format carries an object it cannot be broken: what was said is lost in it.
        call = ToolInvocation(calls[0].name, {"arguments": broken}, broken)
        return ModelReply(said.text or broken, {}, "malformed", calls=(call,))
    most = asked.max_tokens
    if fault is Fault.TRUNCATED_JSON:
        return _cut(said, spoken(said) // 2)
    if most is not None and text_tokens(" " * spoken(said)) > most:
        return _cut(said, most * CHARACTERS_A_TOKEN)
    return said


def spoken(said: ModelReply) -> int:
    """Characters that a model wrote, its calls' names and arguments included."""
    return len(said.text) + sum(len(c.name) + len(c.text) for c in said.calls or ())


def _said(line: ScriptedReply) -> ModelReply:
    return ModelReply(
        line.text, {}, "stop" if line.text or line.calls else "empty", calls=_calls(line)
    )


def _calls(line: ScriptedReply) -> tuple[ToolInvocation, ...]:
    return tuple(ToolInvocation(name, given, _json(given)) for name, given in line.calls)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _cut(said: ModelReply, at: int) -> ModelReply:
    """The first ``at`` characters; a call in which they end has the arguments that came whole."""
    left = at - len(said.text)
    if left <= 0:
        return ModelReply(said.text[:at], {}, "length", calls=())
    kept: list[ToolInvocation] = []
    for call in said.calls or ():
        length = len(call.name) + len(call.text)
        if length <= left:
            kept.append(call)
        elif left > len(call.name):
            kept.append(ToolInvocation(call.name, {}, call.text[: left - len(call.name)]))
        left -= length
        if left <= 0:
            break
    return ModelReply(said.text, {}, "length", calls=tuple(kept))

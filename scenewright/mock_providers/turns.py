"""A conversation with tools, whichever provider's format it came in, as LangChain's messages.

What was put into a prompt: its variables, read back from the text of a request.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from scenewright.agents.chat.model import Tools
from scenewright.mock_providers.problems import Problem
from scenewright.prompts import load_prompt

NO_ANSWER = "every call of a tool must be answered, at once, by a message with the call's id"


@dataclass(frozen=True, slots=True)
class Turns:
    """What was said so far, and the tools that may be called next."""

    messages: tuple[BaseMessage, ...]
    """In order."""
    tools: Tools
    """The tools and how they must be used."""
    as_text: bool = False
    """Whether the arguments of the one tool are wanted as JSON text: the request has a schema and
    no tools."""

    @property
    def last_text(self) -> str:
        """Text of the last user message; empty if there is none."""
        for message in reversed(self.messages):
            if isinstance(message, HumanMessage) and message.text:
                return str(message.text)
        return ""

    @property
    def answers(self) -> list[ToolMessage]:
        """What tools answered to the calls that the model made last."""
        found: list[ToolMessage] = []
        for message in reversed(self.messages):
            if isinstance(message, ToolMessage):
                found.insert(0, message)
            elif isinstance(message, AIMessage):
                break
        return found


def turns_of(messages: Iterable[BaseMessage], tools: Tools, as_text: bool = False) -> Turns:
    """Return a sound conversation; raises ``Problem`` for calls without answers and the reverse."""
    said = tuple(messages)
    names = [str(function["name"]) for function in tools.functions]
    if tools.named is not None and tools.named not in names:
        raise Problem.invalid(
            f"no tool {tools.named!r} among the tools of the request", "tool_choice"
        )
    waiting: set[str] = set()
    for at, message in enumerate(said):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                raise Problem.invalid(
                    f"message {at} answers {message.tool_call_id!r}, which nobody called"
                )
            waiting.discard(message.tool_call_id)
        elif waiting:
            break
        if isinstance(message, AIMessage):
            waiting = {str(call["id"]) for call in message.tool_calls}
    if waiting:
        raise Problem.invalid(f"{NO_ANSWER}: missing {', '.join(sorted(waiting))}")
    return Turns(said, tools, as_text)


def schema_of(name: str, description: object, parameters: object) -> dict[str, Any]:
    """Return a tool in the form of :attr:`~scenewright.agents.chat.model.Tools.schemas`."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description if isinstance(description, str) else "",
            "parameters": parameters if isinstance(parameters, dict) else {"type": "object"},
        },
    }


def picture(data: bytes) -> dict[str, Any]:
    """Return an image as LangChain's standard block."""
    return {
        "type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"
    }  # fmt: skip


def words(text: str) -> dict[str, Any]:
    """Return a text as LangChain's standard block."""
    return {"type": "text", "text": text}


def user(blocks: Sequence[Mapping[str, Any]]) -> HumanMessage:
    """Add a user message with its pictures."""
    return HumanMessage(content=_content(blocks))


def system(text: str) -> SystemMessage:
    """Add a system message."""
    return SystemMessage(content=text)


def model(text: str, calls: Sequence[ToolCall] = ()) -> AIMessage:
    """Add a reply of the model and its calls."""
    return AIMessage(content=text, tool_calls=list(calls))


def call(id: str, name: str, arguments: object, param: str) -> ToolCall:
    """Return a call of a tool; ``arguments``: an object, or the JSON text of one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Problem.invalid(f"{param}: the arguments are not valid JSON", param) from None
    if not isinstance(arguments, dict):
        raise Problem.invalid(f"{param}: the arguments are no object", param)
    return ToolCall(name=name, args=arguments, id=id, type="tool_call")


def answer(
    id: str, blocks: Sequence[Mapping[str, Any]], failed: bool = False, name: str = ""
) -> ToolMessage:
    """Add a tool's result for the call ``id``."""
    return ToolMessage(
        content=_content(blocks),
        tool_call_id=id,
        status="error" if failed else "success",
        name=name or None,
    )


def _content(blocks: Sequence[Mapping[str, Any]]) -> Any:
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(str(block["text"]) for block in blocks)
    return [dict(block) for block in blocks]


_STRING = r'"(?:[^"\\]|\\.)*"'
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def variables_of(prompt_id: str, turns: Turns, *, last: bool = False) -> dict[str, str]:
    """Return the values of the variables in the first user message that is ``prompt_id``.

    In the ``last`` one where earlier ones are examples. Later messages may say what was wrong with
    a reply. Raises ``Problem`` if no message is that prompt, word for word.
    """
    form = _form(prompt_id)
    for message in reversed(turns.messages) if last else turns.messages:
        if isinstance(message, HumanMessage) and (found := form.search(str(message.text))):
            return {name: text.strip() for name, text in found.groupdict().items()}
    raise Problem.invalid(
        f"no user message is the prompt {prompt_id}: only its exact words are understood"
    )


@lru_cache(maxsize=16)
def _form(prompt_id: str) -> re.Pattern[str]:
    """Return the prompt's text, each variable a named group."""
    pieces = _VARIABLE.split(load_prompt(prompt_id).text)
    seen: set[str] = set()
    made = ""
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            # Providers' formats and callers may break lines elsewhere.
            made += r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece))
        else:
            # A JSON string is one value, whatever spaces and words are in it.
            made += rf"(?P={piece})" if piece in seen else rf"(?P<{piece}>{_STRING}|.*?)"
            seen.add(piece)
    return re.compile(made + r"\s*\Z", re.DOTALL)


def listed(text: str) -> list[str]:
    """Return the words of a list in a prompt: JSON, or divided by commas."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        parts = text.strip("[](){} ").split(",")
        return [word for part in parts if (word := part.strip().strip("\"'`"))]
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def entries(text: str) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON list; raises ``Problem`` if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise Problem.invalid("the numbered list of the prompt is not valid JSON list")
    return [entry for entry in found if isinstance(entry, dict)]

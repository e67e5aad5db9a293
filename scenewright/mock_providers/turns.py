"""A conversation with tools, whichever provider's format it came in, as LangChain's messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from scenewright.agents.chat.base import Tools
from scenewright.mock_providers.problems import Problem

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
    """A sound conversation; raises ``Problem`` for calls without answers and the reverse."""
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
    """A tool in the form of :attr:`~scenewright.agents.chat.base.Tools.schemas`."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description if isinstance(description, str) else "",
            "parameters": parameters if isinstance(parameters, dict) else {"type": "object"},
        },
    }


def picture(data: bytes) -> dict[str, Any]:
    """An image as LangChain's standard block."""
    return {
        "type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"
    }  # fmt: skip


def words(text: str) -> dict[str, Any]:
    """A text as LangChain's standard block."""
    return {"type": "text", "text": text}


def user(blocks: Sequence[Mapping[str, Any]]) -> HumanMessage:
    """What a person said and showed."""
    return HumanMessage(content=_content(blocks))


def system(text: str) -> SystemMessage:
    """What the model was told to be."""
    return SystemMessage(content=text)


def model(text: str, calls: Sequence[ToolCall] = ()) -> AIMessage:
    """What the model said and called."""
    return AIMessage(content=text, tool_calls=list(calls))


def call(id: str, name: str, arguments: object, param: str) -> ToolCall:
    """A call of a tool; ``arguments``: an object, or the JSON text of one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Problem.invalid(f"{param}: the arguments are no JSON", param) from None
    if not isinstance(arguments, dict):
        raise Problem.invalid(f"{param}: the arguments are no object", param)
    return ToolCall(name=name, args=arguments, id=id, type="tool_call")


def answer(
    id: str, blocks: Sequence[Mapping[str, Any]], failed: bool = False, name: str = ""
) -> ToolMessage:
    """What a tool answered to the call ``id``."""
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

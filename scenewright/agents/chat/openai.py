"""Chat models of OpenAI and of servers with its protocol, through langchain-openai.

Some servers obey only a JSON schema, no forced tool. There a tool that must be called is described
in words and requested as the JSON object of its arguments; with several tools the object names one:
``{"tool": NAME, "arguments": {...}}``. Earlier calls and their answers become text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import openai
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.utils.json_schema import dereference_refs
from langchain_openai import ChatOpenAI

from scenewright.agents.chat.language_replies import as_data, json_object
from scenewright.agents.chat.model import ChatError, ChatReply, Tools, pictures_apart
from scenewright.agents.judges.models import REFUSED_WAY, Way
from scenewright.agents.judges.openai import OpenAIChatApi, refusal_of
from scenewright.agents.judges.reading import MalformedReply
from scenewright.prompts import load_prompt
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage, usage_of

NAME = "call"
"""Name of the schema of a choice among several tools."""
_TOOL, _ARGUMENTS = "tool", "arguments"


def wanted_form(tools: Tools) -> tuple[str, dict[str, Any]]:
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


def in_words(messages: Sequence[BaseMessage], tools: Tools) -> list[BaseMessage]:
    """Return ``messages`` as text: tools described in the system message, calls as text."""
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
    """Return the call in a JSON object of ``text``; None if there is none."""
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
    """Return whether all required arguments are given."""
    required = _parameters(function).get("required")
    return all(key in given for key in required if isinstance(required, list)) if required else True


def _offered(tools: Tools) -> list[dict[str, Any]]:
    named = tools.named
    return [f for f in tools.functions if named is None or f["name"] == named]


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, without references."""
    given = function.get("parameters") or {"type": "object", "properties": {}}
    found: dict[str, Any] = dereference_refs(dict(given))
    return {key: value for key, value in found.items() if key != "$defs"}


WireRequest = tuple[list[BaseMessage], dict[str, Any], Tools, Way | None]
"""Messages, settings, tools, and the way of forcing one (None: none is forced)."""


class OpenAIChatWire(OpenAIChatApi):
    """Implements :class:`~.base.ChatWire`."""

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> WireRequest:
        """Return messages and settings of LangChain's model, including the forced tool."""
        responses = self._caps.api == "responses"
        if responses and stop:
            raise ChatError(f"{self.model} takes no stop words: leave stop out")
        settings: dict[str, Any] = {"stop": list(stop)} if stop else {}
        forced = bool(tools.schemas) and tools.choice not in ("auto", "none")
        way = self._forcing.way if forced else None
        # Tools answer in text alone in chat completions.
        said = list(messages) if responses else pictures_apart(messages)
        if way == "schema":
            return in_words(said, tools), settings | self._schema(tools), tools, way
        if tools.schemas:
            named = tools.named
            alone = [s for s in tools.schemas if way == "required" and _name(s) == named]
            choice = None if tools.choice == "auto" else named or tools.choice
            bound: Any = self._plain.bind_tools(
                alone or list(tools.schemas),
                tool_choice="required" if alone else choice,
                parallel_tool_calls=tools.parallel,
            )
            settings |= bound.kwargs
        return said, settings, tools, way

    async def send(self, request: WireRequest) -> ChatReply:
        """Make one attempt.

        Raises ``UnusableReply`` where a tool was not forced and another way to force it is left.
        """
        messages, settings, tools, way = request
        try:
            result = await self._clients.get()._agenerate(messages, **settings)
        except openai.APIStatusError as error:
            if way is not None and self._forcing.refused(way, error.status_code, str(error)):
                raise UnusableReply(REFUSED_WAY, Usage()) from None
            raise
        if not result.generations:
            raise MalformedReply("a completion without a choice")
        first = result.generations[0]
        message = first.message
        if not isinstance(message, AIMessage):
            raise MalformedReply(f"a message of the type {message.type} instead of an answer")
        info: Mapping[str, Any] = {
            **(result.llm_output or {}), **(first.generation_info or {}),
            **message.response_metadata,
        }  # fmt: skip
        details = info.get("incomplete_details") or {}
        ended = str(info.get("finish_reason") or details.get("reason") or info.get("status") or "")
        refusal = message.additional_kwargs.get("refusal") or refusal_of(message.content)
        if not refusal and ended == "content_filter":
            refusal = "declined by the provider's content filter"
        self._note_version(info)
        headers: Mapping[str, str] = info.get("headers") or {}
        kept = AIMessage(
            # The Responses API's blocks name items that it does not keep for us.
            content=str(message.text),
            tool_calls=message.tool_calls,
            invalid_tool_calls=message.invalid_tool_calls,
            usage_metadata=message.usage_metadata,
            response_metadata={"model_provider": "openai"},
        )
        if way is not None and not refusal:
            self._fill_in(kept, tools, way)
        return ChatReply(
            kept,
            ended,
            cut=ended in ("length", "max_output_tokens"),
            refusal=str(refusal) if refusal else None,
            request_id=str(headers.get("x-request-id") or info.get("id") or ""),
            metadata={"model_name": str(info.get("model_name") or info.get("model") or "")},
        )

    def _fill_in(self, message: AIMessage, tools: Tools, way: Way) -> None:
        """Turn an object into a tool call, and note whether ``way`` worked."""
        if message.tool_calls or message.invalid_tool_calls:
            self._forcing.bound(way)
            return
        text = str(message.text)
        if not text:
            # An empty reply does not show whether the way works.
            return
        call = call_in(text, tools)
        if call is not None:
            message.tool_calls, message.content = [call], ""
            if way == "schema":
                self._forcing.bound(way)
            else:
                self._forcing.missed(way)
        elif self._forcing.missed(way):
            raise UnusableReply(f"the tool was not called: {text[:80]!r}", usage_of(message))

    def _schema(self, tools: Tools) -> dict[str, Any]:
        """Return the settings that request the object of a tool call."""
        name, schema = wanted_form(tools)
        if self._caps.api == "responses":
            form = {"type": "json_schema", "name": name, "schema": schema, "strict": False}
            return {"text": {"format": form}}
        named = {"name": name, "schema": schema, "strict": self._caps.strict}
        form = {"type": "json_schema", "json_schema": named}
        # Given as response_format, a reply cut short would raise and lose its usage.
        return {"extra_body": {"response_format": form, **(self._plain.extra_body or {})}}

    @cached_property
    def _plain(self) -> ChatOpenAI:
        """LangChain's model, used only to convert tools; sends nothing."""
        return self._model(None)


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["function"]["name"])

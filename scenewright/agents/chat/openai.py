"""Chat models of OpenAI, and of every server that speaks its protocol, through langchain-openai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import openai
from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai import ChatOpenAI

from scenewright.agents.chat.base import ChatError, ChatReply, Tools
from scenewright.agents.chat.by_schema import call_in, in_words, wanted_form
from scenewright.agents.chat.contents import pictures_apart
from scenewright.agents.judges.forcing import REFUSED_WAY, Way
from scenewright.agents.judges.openai import OpenAIChatApi, refusal_of
from scenewright.agents.judges.reading import MalformedReply
from scenewright.providers.decisions import UnusableReply
from scenewright.providers.usage import Usage, usage_of

WireRequest = tuple[list[BaseMessage], dict[str, Any], Tools, Way | None]
"""Messages, settings, the tools, and the way in which one is forced; None: none is."""


class OpenAIChatWire(OpenAIChatApi):
    """Implements :class:`~.base.ChatWire`."""

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> WireRequest:
        """The messages and the settings of LangChain's model, in the way that forces a tool."""
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
        """One attempt. Raises ``UnusableReply`` where a tool was not forced and another way to
        force it is left."""
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
        """Make a call of an object in words, and note whether ``way`` bound the reply."""
        if message.tool_calls or message.invalid_tool_calls:
            self._forcing.bound(way)
            return
        text = str(message.text)
        if not text:
            # An empty reply says nothing of the way.
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
        """The settings that ask for the object that calls a tool."""
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
        """For the form of tools; sends nothing."""
        return self._model(None)


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["function"]["name"])

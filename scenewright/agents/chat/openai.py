"""Chat models of OpenAI, and of every server that speaks its protocol, through langchain-openai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import openai
from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai import ChatOpenAI

from scenewright.agents.chat.base import ChatError, Heard, Tools
from scenewright.agents.chat.contents import pictures_apart
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.openai import BASE_URL, chat_openai, decision_of, refusal_of
from scenewright.agents.judges.reading import MalformedReply
from scenewright.calls.decisions import Decision
from scenewright.calls.sdk_wire import SdkWire, http_settings

Asked = tuple[list[BaseMessage], dict[str, Any]]


class OpenAIChatWire(SdkWire[ModelCaps, ChatOpenAI]):
    """Implements :class:`~.base.ChatWire`."""

    provider = "openai"
    default_url = BASE_URL

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> Asked:
        """The messages and the settings of LangChain's model."""
        responses = self._caps.api == "responses"
        if responses and stop:
            raise ChatError(f"{self.model} takes no stop words: leave stop out")
        settings: dict[str, Any] = {"stop": list(stop)} if stop else {}
        if tools.schemas:
            bound: Any = self._plain.bind_tools(
                list(tools.schemas),
                tool_choice=tools.named or (None if tools.choice == "auto" else tools.choice),
                parallel_tool_calls=tools.parallel,
            )
            settings |= bound.kwargs
        # Tools answer in text alone in chat completions.
        said = list(messages) if responses else pictures_apart(messages)
        return said, settings

    async def send(self, request: Asked) -> Heard:
        """One attempt."""
        messages, settings = request
        result = await self._clients.get()._agenerate(messages, **settings)
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
        headers: Mapping[str, str] = info.get("headers") or {}
        kept = AIMessage(
            # The Responses API's blocks name items that it does not keep for us.
            content=str(message.text),
            tool_calls=message.tool_calls,
            invalid_tool_calls=message.invalid_tool_calls,
            usage_metadata=message.usage_metadata,
            response_metadata={"model_provider": "openai"},
        )
        return Heard(
            kept,
            ended,
            cut=ended in ("length", "max_output_tokens"),
            refusal=str(refusal) if refusal else None,
            request_id=str(headers.get("x-request-id") or info.get("id") or ""),
            metadata={"model_name": str(info.get("model_name") or info.get("model") or "")},
        )

    def classify(self, error: Exception) -> Decision:
        """See :func:`~scenewright.agents.judges.openai.decision_of`."""
        return decision_of(error, self._key.get_secret_value())

    @cached_property
    def _plain(self) -> ChatOpenAI:
        """For the form of tools; sends nothing."""
        return self._model(None)

    def _client(self) -> ChatOpenAI:
        # LangChain shares one HTTP client among all event loops unless it is given one.
        return self._model(openai.DefaultAsyncHttpxClient(**http_settings()))

    def _model(self, http: Any) -> ChatOpenAI:
        key = self._key.get_secret_value()
        return chat_openai(self.model, self._caps, key, self.base_url, http)

    @staticmethod
    async def _close(client: ChatOpenAI) -> None:
        await client.root_async_client.close()

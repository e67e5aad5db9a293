"""Claude as a chat model, through langchain-anthropic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import SecretStr

from scenewright.agents.chat.model import ChatError, ChatReply, Tools
from scenewright.agents.judges.anthropic import BASE_URL, DEFAULT_OUTPUT_TOKENS, decision_of
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.reading import MalformedReply
from scenewright.providers.retry import Decision
from scenewright.providers.sdk_clients import SdkWire, http_settings

WireRequest = tuple[list[BaseMessage], dict[str, Any]]
_CUT = ("max_tokens", "model_context_window_exceeded")


class _Messages(ChatAnthropic):
    """LangChain's model with connections of its own.

    The library shares one HTTP client among all event loops.
    """

    @cached_property
    def _async_client(self) -> anthropic.AsyncAnthropic:
        http = anthropic.DefaultAsyncHttpxClient(**http_settings())
        return anthropic.AsyncAnthropic(**self._client_params, http_client=http)


class AnthropicChatWire(SdkWire[ModelCaps, _Messages]):
    """Implements :class:`~.base.ChatWire`."""

    provider = "anthropic"
    default_url = BASE_URL

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> WireRequest:
        """Return the messages and the settings of LangChain's model."""
        model = self._plain
        settings: dict[str, Any] = {"stop": list(stop)} if stop else {}
        if tools.schemas and tools.choice == "none":
            bound: Any = model.bind_tools(list(tools.schemas), tool_choice={"type": "none"})
            settings |= bound.kwargs
        elif tools.schemas:
            choice = tools.named or tools.choice
            # Models that are asked for schemas by a text format answer an error to a forced tool.
            forced = choice != "auto" and self._caps.structured == "tool"
            bound = model.bind_tools(
                list(tools.schemas),
                tool_choice=choice if forced else None,
                parallel_tool_calls=tools.parallel,
            )
            settings |= bound.kwargs
        if self._caps.sampling:
            # The library names none of them any more; other servers may still take them.
            settings["extra_body"] = self._caps.sent_sampling()
        try:
            model._get_request_payload(list(messages), **settings)
        except (ValueError, TypeError, KeyError) as error:
            raise ChatError(f"the messages cannot be sent to Claude: {error}") from error
        return list(messages), settings

    async def send(self, request: WireRequest) -> ChatReply:
        """Make one attempt."""
        messages, settings = request
        result = await self._clients.get()._agenerate(messages, **settings)
        message = result.generations[0].message
        info = result.llm_output or {}
        if not isinstance(message, AIMessage):
            raise MalformedReply(f"a message of the type {message.type} instead of an answer")
        ended = str(info.get("stop_reason") or "")
        refusal = None
        if ended == "refusal":
            refusal = str((info.get("stop_details") or {}).get("explanation") or "")
        if not isinstance(info.get("id"), str):
            raise MalformedReply("a message without an id")
        broken = next(
            (f"{call['name']}({call['args']})" for call in message.tool_calls
             if not isinstance(call["args"], dict)),
            "",
        )  # fmt: skip
        return ChatReply(
            message,
            ended,
            cut=ended in _CUT,
            refusal=refusal,
            broken=broken,
            request_id=info["id"],
            metadata={"model_name": str(info.get("model") or "")},
        )

    def classify(self, error: Exception) -> Decision:
        """Return :func:`~scenewright.agents.judges.anthropic.decision_of` of the error."""
        return decision_of(error, self._key.get_secret_value(), self.base_url)

    @cached_property
    def _plain(self) -> _Messages:
        """LangChain's model, used only to convert messages and tools; sends nothing."""
        return self._client()

    def _client(self) -> _Messages:
        return _Messages(
            model=self.model,
            api_key=SecretStr(self._key.get_secret_value()),
            base_url=self.base_url,
            max_tokens=self._caps.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            timeout=None,
            max_retries=0,
            cache=False,
        )

    @staticmethod
    async def _close(client: _Messages) -> None:
        await client._async_client.close()

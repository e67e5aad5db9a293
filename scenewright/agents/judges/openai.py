"""OpenAI, and every server that speaks its protocol, through langchain-openai."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import openai
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI

from scenewright.agents.chat.base import usage_of
from scenewright.agents.judges.faults import of_connection, of_other, of_status
from scenewright.agents.judges.logprobs import Token
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MalformedReply, Reading
from scenewright.agents.judges.sheet import TOOL, TOOL_DESCRIPTION, Sheet, sheet_schema
from scenewright.calls.decisions import Decision, Never, UnusableReply
from scenewright.calls.sdk_wire import SdkWire, http_settings

BASE_URL = "https://api.openai.com/v1"
"""Up to and with the version."""
TOP_LOGPROBS = 20
"""Likeliest tokens asked for at each place: the most that OpenAI and vLLM give."""

Asked = tuple[Runnable[Any, BaseMessage], openai.AsyncOpenAI]


def chat_openai(
    model: str, caps: ModelCaps, key: str, base_url: str, http: Any, **settings: Any
) -> ChatOpenAI:
    """LangChain's model over the client ``http``: its own retries are off, nothing is cached or
    kept by the provider, and it samples as ``caps`` say; ``settings`` are sent beside."""

    async def give_key() -> str:
        return key

    sampling = caps.sent_sampling()
    if "top_k" in sampling:
        # Not of OpenAI's own API; servers that speak it take it in the body.
        settings["extra_body"] = {"top_k": sampling.pop("top_k")}
    settings |= sampling
    if caps.max_output_tokens:
        settings["max_tokens"] = caps.max_output_tokens
    if caps.api == "responses":
        settings["store"] = False
    return ChatOpenAI(
        model=model,
        # A key that is given by a function makes no second, synchronous client.
        api_key=give_key,
        base_url=base_url,
        timeout=None,
        max_retries=0,
        http_async_client=http,
        use_responses_api=caps.api == "responses",
        include_response_headers=True,
        cache=False,
        **settings,
    )


class OpenAIWire(SdkWire[ModelCaps, Asked]):
    """Implements :class:`~scenewright.agents.judges.remote.Wire`."""

    provider = "openai"
    default_url = BASE_URL

    def build(self, picture: PreparedImage, sheet: Sheet) -> list[BaseMessage]:
        """One user message: the image, then the sheet, as LangChain's standard blocks."""
        return [HumanMessage(content=[picture.block, {"type": "text", "text": sheet.text}])]

    async def send(self, request: list[BaseMessage]) -> BaseMessage:
        """One attempt."""
        runnable, _ = self._clients.get()
        return await runnable.ainvoke(request)

    def read(self, response: object) -> Reading:
        """The message's tool call or text, its tokens and usage."""
        if not isinstance(response, AIMessage):
            raise MalformedReply(f"a {type(response).__name__} instead of a message")
        meta = response.response_metadata
        usage = usage_of(response)
        refusal = response.additional_kwargs.get("refusal") or refusal_of(response.content)
        if refusal:
            raise UnusableReply(f"refused: {str(refusal)[:200]}", usage, retry=False)
        details = meta.get("incomplete_details") or {}
        stop = meta.get("finish_reason") or details.get("reason") or ""
        if stop == "content_filter":
            raise UnusableReply("refused by the provider's content filter", usage, retry=False)
        content = self._content(response)
        if not content:
            raise UnusableReply(f"empty reply (it ended by {stop or 'nothing'})", usage)
        headers: Mapping[str, str] = meta.get("headers") or {}
        return Reading(
            content=content,
            usage=usage,
            model=str(meta.get("model_name") or meta.get("model") or ""),
            request_id=str(headers.get("x-request-id") or meta.get("id") or ""),
            tokens=_tokens(meta.get("logprobs")) if self._caps.logprobs else (),
            cut=stop in ("length", "max_output_tokens"),
        )

    def classify(self, error: Exception) -> Decision:
        """See :func:`decision_of`."""
        return decision_of(error, self._key.get_secret_value())

    def _content(self, message: AIMessage) -> Mapping[str, Any] | str:
        if self._caps.structured == "schema":
            return str(message.text)
        calls = [call["args"] for call in message.tool_calls if call["name"] == TOOL]
        if calls:
            return calls[0]
        broken = [call["args"] for call in message.invalid_tool_calls if call["name"] == TOOL]
        # A server that cannot force a tool lets the model write the same as text.
        return broken[0] or "" if broken else str(message.text)

    def _client(self) -> Asked:
        caps = self._caps
        # LangChain shares one HTTP client among all event loops unless it is given one.
        http = openai.DefaultAsyncHttpxClient(**http_settings())
        logprobs = {"logprobs": True, "top_logprobs": TOP_LOGPROBS} if caps.logprobs else {}
        key = self._key.get_secret_value()
        model = chat_openai(self.model, caps, key, self.base_url, http, **logprobs)
        schema = dict(sheet_schema())
        if caps.structured == "tool":
            function: dict[str, Any] = {
                "name": TOOL,
                "description": TOOL_DESCRIPTION,
                "parameters": schema,
            }
            if caps.strict:
                # A tool in OpenAI's own form is passed on as it is, whatever strict says beside it.
                function["strict"] = True
            bound: Any = model.bind_tools(
                [{"type": "function", "function": function}], tool_choice=TOOL
            )
        elif caps.api == "responses":
            form = {"type": "json_schema", "name": TOOL, "schema": schema, "strict": caps.strict}
            bound = model.bind(text={"format": form})
        else:
            named = {"name": TOOL, "schema": schema, "strict": caps.strict}
            form = {"type": "json_schema", "json_schema": named}
            # Given as response_format, a reply cut short would raise and lose its usage.
            bound = model.bind(extra_body={"response_format": form, **(model.extra_body or {})})
        return bound, model.root_async_client

    @staticmethod
    async def _close(client: Asked) -> None:
        await client[1].close()


def decision_of(error: Exception, key: str) -> Decision:
    """What an error of OpenAI's library means; ``key`` is kept out of the reason.

    By HTTP status; an account without credit is not worth another try.
    """
    if isinstance(error, openai.APIStatusError):
        body = error.body if isinstance(error.body, Mapping) else {}
        message = str(body.get("message") or error.message)
        decision = of_status(error.status_code, error.response.headers, message, key)
        if "insufficient_quota" in (body.get("code"), body.get("type")):
            return Never(f"{decision.reason} (check the account's balance)")
        return decision
    if isinstance(error, openai.APIConnectionError):
        return of_connection(error, key)
    return of_other(error, key)


def refusal_of(content: object) -> str:
    """The refusal among the blocks of a message of the Responses API."""
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") in ("refusal", "non_standard"):
            value = block.get("value", block)
            if isinstance(value, Mapping) and value.get("refusal"):
                return str(value["refusal"])
    return ""


def _tokens(logprobs: object) -> tuple[Token, ...]:
    found = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    tokens = []
    for one in found if isinstance(found, list) else ():
        top = tuple(_chance(other) for other in one.get("top_logprobs") or ())
        tokens.append(Token(*_chance(one), top))
    return tuple(tokens)


def _chance(one: Mapping[str, Any]) -> tuple[bytes, float]:
    given = one.get("bytes")
    data = bytes(given) if given is not None else str(one["token"]).encode()
    logprob = one.get("logprob")
    return data, float(logprob) if logprob is not None else -math.inf

"""Judges over OpenAI's API and servers with its protocol, through langchain-openai."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import openai
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI

from scenewright.agents.judges.calling import place_of
from scenewright.agents.judges.models import (
    REFUSED_LOGPROBS,
    REFUSED_WAY,
    Logprobs,
    ModelCaps,
    ToolForcing,
    Way,
)
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import (
    MalformedReply,
    Reading,
    Token,
    of_connection,
    of_other,
    of_status,
)
from scenewright.agents.judges.sheet import TOOL, Sheet, sheet_schema
from scenewright.providers.known_models import KnownServer
from scenewright.providers.retry import Decision, PermanentError, UnusableReply, with_hint
from scenewright.providers.sdk_clients import C, CapsT, SdkWire, http_settings
from scenewright.providers.usage import Usage, usage_of
from scenewright.providers.versions import reply_version

BASE_URL = "https://api.openai.com/v1"
"""Base URL with the version."""
TOP_LOGPROBS = 20
"""Top tokens requested per position: the most that OpenAI and vLLM return."""

Request = tuple[list[BaseMessage], dict[str, Any]]
"""Messages and further settings."""


def chat_openai(
    model: str, caps: ModelCaps, key: str, base_url: str, http: Any, **settings: Any
) -> ChatOpenAI:
    """Return LangChain's model over the client ``http``.

    Its own retries are off, nothing is cached or kept by the provider, and it samples as ``caps``
    say; ``settings`` are sent in addition.
    """

    async def give_key() -> str:
        return key

    sampling = caps.sent_sampling()
    if "top_k" in sampling:
        # Not in OpenAI's own API; compatible servers accept it in the body.
        settings["extra_body"] = {"top_k": sampling.pop("top_k")}
    settings |= sampling
    if caps.max_output_tokens:
        settings["max_tokens"] = caps.max_output_tokens
    if caps.api == "responses":
        settings["store"] = False
    if caps.reasoning_effort:
        settings["reasoning_effort"] = caps.reasoning_effort
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


class OpenAIApi(SdkWire[CapsT, C]):
    """OpenAI's API, for judges, chat models and images."""

    provider = "openai"
    default_url = BASE_URL

    def classify(self, error: Exception) -> Decision:
        """Return :func:`decision_of` of the error."""
        return decision_of(error, self._key.get_secret_value(), self.base_url)

    def _sdk(self, http: Any) -> openai.AsyncOpenAI:
        """Return the SDK's client over ``http``; its own retries are off."""
        return openai.AsyncOpenAI(
            api_key=self._key.get_secret_value(),
            base_url=self.base_url,
            timeout=None,
            max_retries=0,
            http_client=http,
        )


class OpenAIChatApi(OpenAIApi[ModelCaps, ChatOpenAI]):
    """OpenAI's chat models through LangChain, with the way in which their server forces a tool."""

    def __init__(
        self, model: str, caps: ModelCaps, *, api_key: str, base_url: str | None = None
    ) -> None:
        """Initialise as :class:`SdkWire`."""
        super().__init__(model, caps, api_key=api_key, base_url=base_url)
        self._server = KnownServer(place_of(self.base_url), api_key, model, caps.reasoning_effort)
        self._forcing = ToolForcing(caps.tool_choice, model, self._server)

    def _note_version(self, info: Mapping[str, Any]) -> bool:
        """Note the served model of a reply.

        Returns whether it differs from the model whose ways were found, so that they are found
        again.
        """
        name = str(info.get("model_name") or info.get("model") or "")
        changed = self._server.served(reply_version(name))
        if changed:
            self._forcing.begin_anew()
        return changed

    def _client(self) -> ChatOpenAI:
        # LangChain shares one HTTP client among all event loops unless it is given one.
        return self._model(openai.DefaultAsyncHttpxClient(**http_settings()))

    def _model(self, http: Any, **settings: Any) -> ChatOpenAI:
        """Return LangChain's model over ``http``; ``settings`` are sent in addition."""
        key = self._key.get_secret_value()
        return chat_openai(self.model, self._caps, key, self.base_url, http, **settings)

    @staticmethod
    async def _close(client: ChatOpenAI) -> None:
        await client.root_async_client.close()


class OpenAIWire(OpenAIChatApi):
    """Implements :class:`~scenewright.agents.judges.remote.Wire`."""

    def __init__(
        self, model: str, caps: ModelCaps, *, api_key: str, base_url: str | None = None
    ) -> None:
        """Initialise as :class:`SdkWire`."""
        super().__init__(model, caps, api_key=api_key, base_url=base_url)
        self._logprobs = Logprobs(caps.logprobs, model, self._server)

    def build(
        self, picture: PreparedImage, sheet: Sheet, second: PreparedImage | None = None
    ) -> Request:
        """Return instructions, images and questions as LangChain's standard blocks."""
        images = [picture.block, *([second.block] if second else [])]
        asked: list[str | dict[str, Any]] = [*images, {"type": "text", "text": sheet.text}]
        messages: list[BaseMessage] = [
            SystemMessage(sheet.instructions),
            HumanMessage(content=asked),
        ]
        # Further questions about one picture should meet the server that has read it.
        beside = {"prompt_cache_key": picture.key} if self._caps.prompt_cache else {}
        return messages, beside

    async def send(self, request: Request) -> BaseMessage:
        """Make one attempt.

        Raises ``UnusableReply`` where the tool was not forced and another way to force it is left,
        or where the server returns no log-probabilities.
        """
        model = self._clients.get()
        messages, beside = request
        if self._caps.structured == "schema":
            return await self._send_form(model, messages, beside)
        way = self._forcing.way
        try:
            reply = await self._formed(model, way).ainvoke(messages, **beside)
        except openai.APIStatusError as error:
            if self._forcing.refused(way, error.status_code, str(error)):
                raise UnusableReply(REFUSED_WAY, Usage()) from None
            raise
        self._note_version(reply.response_metadata)
        self._check_filled_in(reply, way)
        return reply

    async def _send_form(
        self, model: ChatOpenAI, messages: list[BaseMessage], beside: dict[str, Any]
    ) -> BaseMessage:
        """Ask for a JSON text, with log-probabilities where the server returns them."""
        asked = self._logprobs.asked
        if asked:
            beside = beside | {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        try:
            reply = await self._formed(model, "schema").ainvoke(messages, **beside)
        except openai.APIStatusError as error:
            if self._logprobs.refused(asked, error.status_code, str(error)):
                raise UnusableReply(REFUSED_LOGPROBS, Usage()) from None
            raise
        if self._note_version(reply.response_metadata):
            self._logprobs.begin_anew()
        elif str(reply.text):
            self._logprobs.came(asked, bool(reply.response_metadata.get("logprobs")))
        return reply

    def _check_filled_in(self, reply: BaseMessage, way: Way) -> None:
        if not isinstance(reply, AIMessage):
            return
        if reply.additional_kwargs.get("refusal") or refusal_of(reply.content):
            return
        calls = [*reply.tool_calls, *reply.invalid_tool_calls]
        text = str(reply.text)
        if not calls and not text:
            # An empty or filtered reply does not show whether the way works.
            return
        if any(call["name"] == TOOL for call in calls) or (way == "schema" and "{" in text):
            self._forcing.bound(way)
        elif self._forcing.missed(way) and "{" not in text:
            raise UnusableReply(f"the tool was not called: {text[:80]!r}", usage_of(reply))

    def read(self, response: object) -> Reading:
        """Return the message's tool call or text, its tokens and usage."""
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
            weighed=self._caps.logprobs,
            cut=stop in ("length", "max_output_tokens"),
        )

    def _content(self, message: AIMessage) -> Mapping[str, Any] | str:
        if self._caps.structured == "schema":
            return str(message.text)
        calls = [call["args"] for call in message.tool_calls if call["name"] == TOOL]
        if calls:
            return calls[0]
        broken = [call["args"] for call in message.invalid_tool_calls if call["name"] == TOOL]
        # A server that cannot force a tool lets the model write the same as text.
        return broken[0] or "" if broken else str(message.text)

    def _formed(self, model: ChatOpenAI, way: Way) -> Runnable[Any, BaseMessage]:
        """Return ``model``, forced to fill in the schema of the answers."""
        caps = self._caps
        schema = dict(sheet_schema(caps.reasons))
        if way != "schema":
            function: dict[str, Any] = {"name": TOOL, "parameters": schema}
            if caps.strict:
                # A tool in OpenAI's own form is passed on unchanged, whatever strict is.
                function["strict"] = True
            bound: Any = model.bind_tools(
                [{"type": "function", "function": function}],
                tool_choice=TOOL if way == "named" else "required",
            )
        elif caps.api == "responses":
            form = {"type": "json_schema", "name": TOOL, "schema": schema, "strict": caps.strict}
            bound = model.bind(text={"format": form})
        else:
            named = {"name": TOOL, "schema": schema, "strict": caps.strict}
            form = {"type": "json_schema", "json_schema": named}
            # Given as response_format, a reply cut short would raise and lose its usage.
            bound = model.bind(extra_body={"response_format": form, **(model.extra_body or {})})
        formed: Runnable[Any, BaseMessage] = bound
        return formed


def decision_of(error: Exception, key: str, place: str = "") -> Decision:
    """Return the decision for an error of OpenAI's library, by HTTP status.

    ``key`` is kept out of the reason, ``place`` is the address that was asked. An account without
    credit is a final error.
    """
    if isinstance(error, openai.APIStatusError):
        body = error.body if isinstance(error.body, Mapping) else {}
        message = str(body.get("message") or error.message)
        decision = of_status(error.status_code, error.response.headers, message, key)
        if "insufficient_quota" in (body.get("code"), body.get("type")):
            return PermanentError(with_hint(402, decision.reason))
        return decision
    if isinstance(error, openai.APIConnectionError):
        return of_connection(error, key, place)
    return of_other(error, key, place)


def refusal_of(content: object) -> str:
    """Return the refusal among the blocks of a message of the Responses API."""
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

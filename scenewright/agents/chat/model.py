"""LangChain chat model of an account, over a client of :mod:`scenewright.providers.clients`.

LangChain's messages are put into the form of the clients, and a completion into LangChain's
message, which says why it ended. Every request goes through the account's
:class:`~scenewright.providers.caller.Caller`.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages import ToolCall as LangChainCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from PIL import Image
from pydantic import BaseModel, Field, ValidationError

from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import character_tokens, image_tokens
from scenewright.config.accounts import missing_key
from scenewright.config.profiles import OF_THE_MODEL, Role, SettingsError, output_limit
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    Message,
    Part,
    Picture,
    RequestError,
    Stop,
    ToolCall,
    Tools,
)
from scenewright.providers.clients.client import ModelClient, attempts, make_client
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

SIGNATURES = "gemini_signatures"
"""Key of a message's ``additional_kwargs``: tool call's id → thought signature (base64), ``""`` →
the text's. Gemini requires them back with what they belong to.
"""
EXPECTED_OUTPUT = 400
"""Expected output tokens of a reply, for the limit of tokens per minute."""
_DATA_URL = re.compile(r"data:([^,]*);base64,(.*)", re.DOTALL)


def conversation(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Return ``messages`` in the form of the clients.

    The system's messages come first and joined. Raises ``RequestError`` for what no provider
    accepts: no message besides the system's, a block that is neither text nor picture, a message
    of an unknown kind.
    """
    system = [str(one.text) for one in messages if isinstance(one, SystemMessage)]
    rest = tuple(_message(one) for one in messages if not isinstance(one, SystemMessage))
    if not rest:
        raise RequestError("there is nothing to answer: send at least one human message")
    told = "\n\n".join(filter(None, system))
    return (Message("system", (told,)), *rest) if told else rest


def _message(message: BaseMessage) -> Message:
    match message:
        case AIMessage():
            signatures = message.additional_kwargs.get(SIGNATURES) or {}
            calls = []
            for call in message.tool_calls:
                signature = signatures.get(call["id"] or "", "")
                calls.append(ToolCall(str(call["id"] or ""), call["name"], call["args"], signature))
            texts = (str(message.text),) if message.text else ()
            return Message("assistant", texts, tuple(calls), signature=signatures.get("", ""))
        case ToolMessage():
            return Message(
                "tool",
                tuple(_parts(message)),
                call_id=message.tool_call_id,
                name=message.name or "",
                failed=message.status == "error",
            )
        case HumanMessage():
            parts = tuple(_parts(message))
            if not parts:
                raise RequestError("a human message without content cannot be sent")
            return Message("user", parts)
    raise RequestError(
        f"a message of the type {message.type!r} cannot be sent: use system, human, ai and tool "
        "messages"
    )


def estimate(messages: Sequence[Message], tools: Tools, rule: str) -> int:
    """Return the input and expected output tokens of a request; ``rule`` counts pictures."""
    characters = sum(len(json.dumps(schema)) for schema in tools.schemas)
    pictures = 0
    for message in messages:
        characters += len(message.text)
        characters += sum(len(json.dumps(call.arguments)) for call in message.calls)
        for one in message.pictures:
            try:
                with Image.open(io.BytesIO(one.data)) as image:
                    pictures += image_tokens(rule, *image.size)
            except Exception as error:
                # Pillow's decoders raise whatever a broken file makes them stumble over.
                reason = type(error).__name__
                raise RequestError(f"a picture that cannot be read ({reason})") from None
    return character_tokens(characters) + pictures + EXPECTED_OUTPUT


def _parts(message: BaseMessage) -> Iterator[Part]:
    """Yield the texts and pictures of a message."""
    content = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        if isinstance(block, str):
            if block:
                yield block
        elif block.get("type") in ("text", "output_text"):
            yield str(block.get("text", ""))
        elif block.get("type") in ("image", "image_url"):
            yield _picture(block)
        else:
            raise RequestError(
                f"a content block of type {block.get('type')!r} cannot be sent: use text and image"
            )


def _picture(block: dict[str, Any]) -> Picture:
    data, media_type = block.get("base64"), block.get("mime_type")
    given = block.get("image_url", block)
    inline = _DATA_URL.fullmatch(str(given.get("url") if isinstance(given, dict) else given))
    if inline is not None:
        media_type, data = inline.groups()
    if not data:
        raise RequestError(
            "a picture without its data: give it as "
            '{"type": "image", "base64": …, "mime_type": "image/png"}, addresses are not fetched'
        )
    try:
        file = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise RequestError(f"a picture that is not valid base64: {error}") from None
    return Picture(file, str(media_type or "image/png"))


STOP = "stop"
"""Key of a message's ``response_metadata`` that holds its :data:`Stop`."""
LIMIT = "output_limit"
"""Key of a cut-off text's ``response_metadata`` that names the limit to raise."""
DECLINED = "The model declined to answer."
"""Text of a refusal without words."""


def message_from(completion: Completion, provider: str, limit: str = OF_THE_MODEL) -> AIMessage:
    """Return a completion as a message that says why it ended.

    ``limit``: the setting of the most output tokens. A refusal is a message with stop ``refusal``,
    no calls and the words of the refusal; a cut-off text has stop ``length``. Raises
    ``UnusableReply`` for tool calls that were cut off.
    """
    usage, stop, text = completion.usage, completion.stop, completion.text
    if stop == "refusal":
        text = text or DECLINED
    elif stop == "length" and (completion.calls or not text.strip()):
        raise UnusableReply(
            f"the reply was cut off after {usage.tokens_out} tokens: allow the model more output "
            f"tokens ({limit})",
            usage,
            retry=False,
        )
    signatures = {call.id: call.signature for call in completion.calls if call.signature}
    if completion.signature:
        signatures[""] = completion.signature
    told = {
        "model_provider": provider,
        "model_name": completion.model,
        "ended": completion.ended,
        STOP: stop,
    }
    return AIMessage(
        text,
        tool_calls=[
            LangChainCall(name=call.name, args=call.arguments, id=call.id, type="tool_call")
            for call in completion.calls
        ],
        usage_metadata=UsageMetadata(
            input_tokens=usage.tokens_in,
            output_tokens=usage.tokens_out,
            total_tokens=usage.tokens_in + usage.tokens_out,
            input_token_details={
                "cache_read": usage.tokens_cached,
                "cache_creation": usage.tokens_written,
            },
        ),
        additional_kwargs={SIGNATURES: signatures} if signatures else {},
        response_metadata=told | ({LIMIT: limit} if stop == "length" else {}),
    )


def stop_of(message: AIMessage) -> Stop | None:
    """Return why ``message`` ended; None if it is not from an account's model."""
    found: Stop | None = message.response_metadata.get(STOP)
    return found


_CHOICES: dict[object, str] = {
    None: "auto", False: "auto", "auto": "auto", "none": "none",
    True: "any", "any": "any", "required": "any",
}  # fmt: skip


class AccountChat(BaseChatModel):
    """Implements LangChain's ``BaseChatModel`` over a chat model's client.

    Limits, timeout, retries, prices and the log are the caller's. A message says in
    ``response_metadata["stop"]`` why it ended (:data:`Stop`): a refusal is a message with
    stop ``refusal``, a text that was cut off one with stop ``length``. Raises ``CallError`` for a
    call that is lost, ``RequestError`` for messages that cannot be sent. Only for ``ainvoke`` and
    the other asynchronous methods.
    """

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    model: str
    """The model, as the provider names it."""
    account: str
    """Its name."""
    client: ModelClient[Any] = Field(exclude=True, repr=False)
    """Closed with the model."""
    caller: Caller = Field(exclude=True, repr=False)
    """Shared with other models, and not closed."""
    caps: ModelCaps = Field(exclude=True, repr=False)
    priced_as: str = Field(exclude=True, repr=False)
    """Prefix of the model in the table of prices."""
    limit: str = Field(default=OF_THE_MODEL, exclude=True, repr=False)
    """Setting of the most output tokens, for messages."""

    @property
    def id(self) -> str:
        """``account:model``."""
        return f"{self.account}:{self.model}"

    def price(self, usage: Usage) -> float | None:
        """Return the dollars of such a call; None if the price is unknown."""
        return self.caller.price_of(self.priced_as, self.model, usage)

    @property
    def pictures(self) -> bool:
        """Whether it accepts pictures."""
        return self.caps.pictures

    @property
    def _llm_type(self) -> str:
        return f"scenewright-{self.provider}"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "model": self.model,
            "place": self.client.place,
            "api": self.caps.api,
            "sampling": dict(self.caps.sampling),
            "max_output_tokens": self.caps.max_output_tokens,
        }

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with ``tools``.

        ``tool_choice``: ``auto``, ``none``, ``any`` (also ``required`` and True), a tool's name or
        a provider's object that holds one. Raises ``RequestError`` for a name that is not a tool's.
        """
        schemas = tuple(convert_to_openai_tool(tool, strict=strict) for tool in tools)
        wanted = Tools(schemas, _choice(schemas, tool_choice), parallel_tool_calls, strict)
        return self.bind(tools=wanted, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return a runnable that gives an object of ``schema``: the arguments of a forced tool.

        Raises ``RequestError`` where the model refuses or answers otherwise, an
        ``OutputParserException`` where its arguments do not match. ``include_raw`` returns the
        message, the object and such an error together. ``method`` and ``strict`` exist for
        LangChain's interface; the tool is always used.
        """
        kwargs.pop("method", None)
        strict = kwargs.pop("strict", None)
        if kwargs:
            raise RequestError(f"unknown settings of a structured output: {', '.join(kwargs)}")
        name = str(convert_to_openai_tool(schema)["function"]["name"])
        asked = self.bind_tools(
            [schema],
            tool_choice=name,
            strict=strict,
            parallel_tool_calls=False,
            ls_structured_output_format={
                "kwargs": {"method": "function_calling"},
                "schema": schema,
            },
        )

        def read(message: AIMessage) -> Any:
            call = next((call for call in message.tool_calls if call["name"] == name), None)
            if call is None:
                refused = stop_of(message) == "refusal"
                told = "refused" if refused else f"did not fill in {name} and said instead"
                raise RequestError(f"{self.id} {told}: {str(message.text)[:200] or 'nothing'}")
            if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
                return call["args"]
            try:
                return schema.model_validate(call["args"])
            except ValidationError as error:
                raise OutputParserException(
                    f"{self.id} filled in {name} wrongly: {error}"
                ) from error

        def read_raw(message: AIMessage) -> dict[str, Any]:
            try:
                return {"raw": message, "parsed": read(message), "parsing_error": None}
            except (RequestError, OutputParserException) as error:
                return {"raw": message, "parsed": None, "parsing_error": error}

        return asked | RunnableLambda(read_raw if include_raw else read)

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        await self.client.aclose()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> NoReturn:
        raise RequestError(
            f"{self.id} keeps its account's limits in an event loop: await ainvoke() instead of "
            "calling invoke()"
        )

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        *,
        tools: Tools | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if kwargs:
            raise RequestError(
                f"{self.id} takes no {', '.join(kwargs)} with a request: what is sent beside the "
                "messages is set for the model in its account"
            )
        wanted = tools or Tools()
        request = CompletionRequest(conversation(messages), wanted, tuple(stop or ()))
        if not self.pictures and any(message.pictures for message in request.messages):
            raise RequestError(
                f"{self.id} sees no pictures (pictures = false in its account): name another model"
            )
        # Raise for invalid messages before a call begins.
        self.client.check(request)

        async def build() -> CompletionRequest:
            return request

        done = await self.caller.call(
            attempts(
                self.client, build, lambda reply: message_from(reply, self.provider, self.limit)
            ),
            classify=self.client.classify,
            provider=self.priced_as,
            model=self.model,
            tokens=estimate(request.messages, wanted, self.caps.image_tokens),
            label=f"{self.id} chat",
        )
        return ChatResult(generations=[ChatGeneration(message=done.value)])


def _choice(schemas: Sequence[dict[str, Any]], given: dict[str, Any] | str | bool | None) -> str:
    names = [str(schema["function"]["name"]) for schema in schemas]
    if isinstance(given, dict):
        inner = given.get("function")
        found = inner.get("name") if isinstance(inner, dict) else given.get("name")
        given = found if found is not None else given.get("type")
    if given in names:
        return f"={given}"
    if given in _CHOICES:
        return _CHOICES[given]
    raise RequestError(f"no tool {given!r} to choose: there are {', '.join(names) or 'none'}")


def account_chat(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
    role: Role | None = None,
    output_tokens: Mapping[Role, int] | None = None,
) -> AccountChat:
    """Return the chat model ``provider:model``, of ``openai``, ``gemini`` or ``anthropic``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    ``name``: the account, in place of the provider in the model's id. ``overrides``: keys of
    :class:`~scenewright.agents.judges.models.ModelCaps`, in place of what the table of facts says:
    ``api``, ``sampling``, ``max_output_tokens``, ``image_tokens``, and ``structured = "schema"``
    for a Claude that answers an error to a forced tool. ``role``: what it is for, which bounds its
    output; ``output_tokens``: the bounds that settings give to roles. The provider's library is
    imported here. Raises ``SettingsError`` for a missing key, an unknown provider or a setting that
    cannot be.
    """
    try:
        caps = caps_of(provider, model, overrides, chats=True)
    except JudgeError as error:
        raise SettingsError(str(error)) from error
    limit = output_limit(
        role,
        caps.max_output_tokens,
        declared="max_output_tokens" in (overrides or {}),
        thinks=caps.thinks or caps.thinks_by_setting,
        given=output_tokens,
    )
    caps = caps.model_copy(update={"max_output_tokens": limit.tokens})
    key = (api_key or "").strip()
    if not key:
        raise SettingsError(missing_key(provider, name))
    client = make_client(provider, model, caps, api_key=key, base_url=base_url)
    account = name or provider
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else account
    return AccountChat(
        provider=client.provider,
        model=client.model,
        account=account,
        client=client,
        caller=caller,
        caps=caps,
        priced_as=priced_as,
        limit=limit.set_by,
    )

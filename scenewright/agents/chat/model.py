"""LangChain chat model of an account, and what the models of all providers share.

Every request goes through the account's :class:`~scenewright.providers.caller.Caller`. Message
contents are brought into one form of texts and pictures; a reply tells why it ended.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NoReturn, Protocol

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from PIL import Image
from pydantic import BaseModel, PrivateAttr

from scenewright.agents.judges.calling import place_of
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.pictures import character_tokens, image_tokens
from scenewright.agents.judges.reading import MalformedReply
from scenewright.config.profiles import OF_THE_MODEL
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Decision, PermanentError, UnusableReply
from scenewright.providers.usage import Reply, Usage, usage_of

Stop = Literal["end", "tools", "length", "refusal"]
"""Why a reply ended: complete, tool calls, cut off at the output limit, or refused by the provider
or the model.
"""
STOP = "stop"
"""Key of a message's ``response_metadata`` that holds its :data:`Stop`."""
LIMIT = "output_limit"
"""Key of a cut-off text's ``response_metadata`` that names the limit to raise."""
DECLINED = "The model declined to answer."
"""Text of a refusal without words."""
_SHOWN = 200


class ChatError(RuntimeError):
    """Wrong use of a chat model; says how to use it."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    schemas: tuple[dict[str, Any], ...] = ()
    """Each in OpenAI's form: ``{"type": "function", "function": {name, description,
    parameters}}``."""
    choice: Literal["auto", "none", "any"] | str = "auto"
    """Whether one may, may not or must be called; ``=look`` must be the tool ``look``."""
    parallel: bool | None = None
    """Whether several may be called at once; None: the provider's default."""
    strict: bool | None = None
    """Whether arguments must match the schema exactly; None: the provider's default."""

    @property
    def named(self) -> str | None:
        """Name of the one tool that must be called."""
        return self.choice[1:] if self.choice.startswith("=") else None

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Name, description and parameters of each tool."""
        return [schema["function"] for schema in self.schemas]


@dataclass(slots=True)
class ChatReply:
    """A provider's reply, out of its wire format."""

    message: AIMessage
    """Text and tool calls, with ``usage_metadata``."""
    ended: str
    """The provider's name for why it ended."""
    cut: bool = False
    """Whether it ended at the limit of output tokens."""
    refusal: str | None = None
    """Reason of a refusal; empty where none is given; None: no refusal."""
    broken: str = ""
    """Problem of an unreadable tool call."""
    request_id: str = ""
    """The provider's id of the request."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Further ``response_metadata`` of the message."""


class ChatWire(Protocol):
    """Wire format of one provider's chat models."""

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    model: str
    """The model, as the provider names it."""
    base_url: str
    """Base URL."""

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> Any:
        """Build the request as data.

        Pure. Raises ``ChatError`` for messages that cannot be sent.
        """
        ...

    async def send(self, request: Any) -> ChatReply:
        """Make one attempt.

        Raises what the provider's library raises.
        """
        ...

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an error of :meth:`send`, without secrets."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


def reply_of(heard: ChatReply, limit: str = OF_THE_MODEL) -> Reply[AIMessage]:
    """Return the message of a reply, with why it ended.

    ``limit``: the setting of the most output tokens. A refusal is a message with stop ``refusal``,
    no calls and the words of the refusal; a cut-off text has stop ``length``. Raises
    ``UnusableReply`` for an empty reply or a tool call that cannot be read or was cut off.
    """
    message, usage = heard.message, usage_of(heard.message)
    text = str(message.text).strip()
    stop: Stop
    if heard.refusal is not None:
        stop = "refusal"
        message.content = heard.refusal.strip() or text or DECLINED
        message.tool_calls = []
        message.invalid_tool_calls = []
    else:
        broken = heard.broken or _broken(message)
        if heard.cut and (broken or message.tool_calls or not text):
            raise UnusableReply(
                f"the reply was cut off after {usage.tokens_out} tokens: allow the model more "
                f"output tokens ({limit})",
                usage,
                retry=False,
            )
        if broken:
            raise UnusableReply(f"a tool call that cannot be read: {broken[:_SHOWN]}", usage)
        if not text and not message.tool_calls:
            ended = heard.ended or "nothing"
            raise UnusableReply(f"empty reply (it ended by {ended})", usage)
        stop = "length" if heard.cut else "tools" if message.tool_calls else "end"
    message.response_metadata = {
        **message.response_metadata, **heard.metadata, "ended": heard.ended, STOP: stop
    }  # fmt: skip
    if stop == "length":
        message.response_metadata[LIMIT] = limit
    return Reply(message, usage, heard.request_id)


def stop_of(message: AIMessage) -> Stop | None:
    """Return why ``message`` ended; None if it is not from an account's model."""
    found: Stop | None = message.response_metadata.get(STOP)
    return found


def _broken(message: AIMessage) -> str:
    if message.invalid_tool_calls:
        broken = message.invalid_tool_calls[0]
        return f"{broken['name']}({broken['args']})"
    for call in message.tool_calls:
        if not call["name"]:
            raise MalformedReply("a tool call without a name")
    return ""


EXPECTED_OUTPUT = 400
"""Expected output tokens of a reply, for the limit of tokens per minute."""
_TEXTS = ("text", "output_text")
_TAKEN = ("text", "image")
_BESIDE = "The picture follows."


def conversation(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return ``messages`` in one form.

    The system's messages come first and joined, pictures as standard blocks. Raises ``ChatError``
    for what no provider accepts: no message besides the system's, a block that is neither text nor
    picture, a message of an unknown kind.
    """
    system: list[str] = []
    rest: list[BaseMessage] = []
    for message in messages:
        match message:
            case SystemMessage():
                system.append(str(message.text))
            case AIMessage():
                rest.append(message)
            case HumanMessage() | ToolMessage():
                rest.append(_plain(message))
            case _:
                raise ChatError(
                    f"a message of the type {message.type!r} cannot be sent: use system, human, "
                    "ai and tool messages"
                )
    if not rest:
        raise ChatError("there is nothing to answer: send at least one human message")
    told = "\n\n".join(text for text in system if text)
    return [SystemMessage(told), *rest] if told else rest


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Return the content of a message as a list of blocks."""
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for block in message.content
    ]


def pictures_apart(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Move pictures in tool answers to a human message after them.

    For interfaces whose tools answer only in text.
    """
    found: list[BaseMessage] = []
    waiting: list[dict[str, Any]] = []

    def show() -> None:
        if waiting:
            found.append(HumanMessage(content=list(waiting)))
            waiting.clear()

    for message in messages:
        if not isinstance(message, ToolMessage):
            show()
            found.append(message)
            continue
        blocks = blocks_of(message)
        pictures = [block for block in blocks if block["type"] == "image"]
        if pictures:
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            answer = "\n".join([*texts, _BESIDE])
            message = message.model_copy(update={"content": answer})
            told = f"Shown by the tool {message.name or 'called'} ({message.tool_call_id}):"
            waiting += [{"type": "text", "text": told}, *pictures]
        found.append(message)
    show()
    return found


def picture_of(block: dict[str, Any]) -> tuple[bytes, str]:
    """Return file and media type of a picture block.

    Raises ``ChatError`` if it holds none.
    """
    data = block.get("base64")
    if not data:
        raise ChatError(
            "a picture without its data: give it as "
            '{"type": "image", "base64": …, "mime_type": "image/png"}, addresses are not fetched'
        )
    try:
        return base64.b64decode(data, validate=True), str(block.get("mime_type") or "image/png")
    except (binascii.Error, ValueError, TypeError) as error:
        raise ChatError(f"a picture that is not valid base64: {error}") from None


def estimate(messages: Sequence[BaseMessage], tools: Tools, rule: str) -> int:
    """Return the input and expected output tokens of a request; ``rule`` counts pictures."""
    characters = sum(len(json.dumps(schema)) for schema in tools.schemas)
    pictures = 0
    for message in messages:
        if isinstance(message, AIMessage):
            characters += sum(len(json.dumps(call["args"])) for call in message.tool_calls)
        for block in blocks_of(message):
            if block.get("type") in _TEXTS:
                characters += len(str(block.get("text", "")))
            elif block.get("type") == "image" and block.get("base64"):
                pictures += image_tokens(rule, *_size(block))
    return character_tokens(characters) + pictures + EXPECTED_OUTPUT


def _size(block: dict[str, Any]) -> tuple[int, int]:
    data, _ = picture_of(block)
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.size
    except Exception as error:
        # Pillow's decoders raise whatever a broken file makes them stumble over.
        raise ChatError(f"a picture that cannot be read ({type(error).__name__})") from None


def _plain(message: BaseMessage) -> BaseMessage:
    if not message.content and isinstance(message, HumanMessage):
        raise ChatError("a human message without content cannot be sent")
    if isinstance(message.content, str):
        return message
    blocks = list(_plain_blocks(blocks_of(message)))
    return message.model_copy(update={"content": blocks or ""})


def _plain_blocks(blocks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        kind = block.get("type")
        if kind == "image_url":
            given = block.get("image_url")
            url = given.get("url") if isinstance(given, dict) else given
            block = _of_url(str(url))
        elif kind == "image" and str(block.get("url") or "").startswith("data:"):
            block = _of_url(block["url"])
        elif kind not in _TAKEN:
            raise ChatError(f"a content block of type {kind!r} cannot be sent: use text and image")
        yield block


def _of_url(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma or not head.endswith(";base64"):
        return {"type": "image", "url": url}
    media = head.removeprefix("data:").removesuffix(";base64")
    return {"type": "image", "base64": data, "mime_type": media}


_ANY = ("any", "required", True)


class AccountChat(BaseChatModel):
    """Implements LangChain's ``BaseChatModel`` over a :class:`~.base.ChatWire`.

    Limits, timeout, retries, prices and the log are the caller's. A message says in
    ``response_metadata["stop"]`` why it ended (:data:`~.base.Stop`): a refusal is a message with
    stop ``refusal``, a text that was cut off one with stop ``length``. Raises ``CallError`` for a
    call that is lost, ``ChatError`` for messages that cannot be sent. Only for ``ainvoke`` and
    the other asynchronous methods.
    """

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    model: str
    """The model, as the provider names it."""
    account: str
    _wire: ChatWire = PrivateAttr()
    _caller: Caller = PrivateAttr()
    _caps: ModelCaps = PrivateAttr()
    _priced_as: str = PrivateAttr()

    _limit: str = PrivateAttr()

    def __init__(
        self,
        wire: ChatWire,
        caller: Caller,
        caps: ModelCaps,
        *,
        account: str,
        priced_as: str,
        limit: str = OF_THE_MODEL,
    ) -> None:
        """``account``: its name; ``priced_as``: prefix of the model in the table of prices.

        ``limit``: the setting of the most output tokens, for messages. The model closes its wire,
        but not the ``caller``, which others share.
        """
        super().__init__(provider=wire.provider, model=wire.model, account=account)
        self._wire = wire
        self._caller = caller
        self._caps = caps
        self._priced_as = priced_as
        self._limit = limit

    @property
    def id(self) -> str:
        """``account:model``."""
        return f"{self.account}:{self.model}"

    def price(self, usage: Usage) -> float | None:
        """Return the dollars of such a call; None if the price is unknown."""
        return self._caller.price_of(self._priced_as, self.model, usage)

    @property
    def pictures(self) -> bool:
        """Whether it accepts pictures."""
        return self._caps.pictures

    @property
    def _llm_type(self) -> str:
        return f"scenewright-{self.provider}"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "model": self.model,
            "place": place_of(self._wire.base_url),
            "api": self._caps.api,
            "sampling": dict(self._caps.sampling),
            "max_output_tokens": self._caps.max_output_tokens,
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
        a provider's object that holds one. Raises ``ChatError`` for a name that is not a tool's.
        """
        schemas = tuple(convert_to_openai_tool(tool, strict=strict) for tool in tools)
        wanted = Tools(schemas, _choice(schemas, tool_choice), parallel_tool_calls, strict)
        return self.bind(tools=wanted, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return a runnable that gives an object of ``schema``: the arguments of a forced tool.

        Raises ``ChatError`` where the model refuses or answers otherwise, an
        ``OutputParserException`` where its arguments do not match. ``include_raw`` returns the
        message, the object and such an error together. ``method`` and ``strict`` exist for
        LangChain's interface; the tool is always used.
        """
        kwargs.pop("method", None)
        strict = kwargs.pop("strict", None)
        if kwargs:
            raise ChatError(f"unknown settings of a structured output: {', '.join(kwargs)}")
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
        parser: Runnable[Any, Any]
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            parser = PydanticToolsParser(tools=[schema], first_tool_only=True)
        else:
            parser = JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        read = RunnableLambda(_called(name, self.id)) | parser
        if not include_raw:
            return asked | read
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | read, parsing_error=lambda _: None
        )
        lost = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=asked) | parsed.with_fallbacks([lost], exception_key="parsing_error")

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        await self._wire.aclose()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> NoReturn:
        raise ChatError(
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
            raise ChatError(
                f"{self.id} takes no {', '.join(kwargs)} with a request: what is sent beside the "
                "messages is set for the model in its account"
            )
        wanted = tools or Tools()
        said = conversation(messages)
        if not self.pictures and any(
            block.get("type") == "image" for message in said for block in blocks_of(message)
        ):
            raise ChatError(
                f"{self.id} sees no pictures (pictures = false in its account): name another model"
            )
        # Raise for invalid messages before a call begins.
        self._wire.build(said, wanted, stop)

        async def attempt() -> Reply[AIMessage]:
            # What an attempt found out about the server may change the next one's form.
            request = self._wire.build(said, wanted, stop)
            return reply_of(await self._wire.send(request), self._limit)

        done = await self._caller.call(
            attempt,
            classify=self._decision,
            provider=self._priced_as,
            model=self.model,
            tokens=estimate(said, wanted, self._caps.image_tokens),
            label=f"{self.id} chat",
        )
        return ChatResult(generations=[ChatGeneration(message=done.value)])

    def _decision(self, error: Exception) -> Decision:
        return (
            PermanentError(str(error))
            if isinstance(error, ChatError)
            else self._wire.classify(error)
        )


def _choice(schemas: Sequence[dict[str, Any]], given: dict[str, Any] | str | bool | None) -> str:
    names = [str(schema["function"]["name"]) for schema in schemas]
    if isinstance(given, dict):
        inner = given.get("function")
        found = inner.get("name") if isinstance(inner, dict) else given.get("name")
        given = found if found is not None else given.get("type")
    if given in names:
        return f"={given}"
    if given is None or given is False or given == "auto":
        return "auto"
    if given == "none":
        return "none"
    if given in _ANY:
        return "any"
    raise ChatError(f"no tool {given!r} to choose: there are {', '.join(names) or 'none'}")


def _called(name: str, model: str) -> Callable[[AIMessage], AIMessage]:
    """Return a check that ``message`` calls the tool ``name``."""

    def check(message: AIMessage) -> AIMessage:
        if any(call["name"] == name for call in message.tool_calls):
            return message
        text = str(message.text)[:200]
        if stop_of(message) == "refusal":
            raise ChatError(f"{model} refused: {text}")
        raise ChatError(f"{model} did not fill in {name} and said instead: {text or 'nothing'}")

    return check

"""A LangChain chat model whose every request goes through the caller of its account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NoReturn

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers.openai_tools import (
    JsonOutputKeyToolsParser,
    PydanticToolsParser,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, PrivateAttr

from scenewright.agents.chat.base import ChatError, ChatWire, Tools, reply_of, stop_of
from scenewright.agents.chat.contents import blocks_of, conversation, estimate
from scenewright.agents.judges.calling import place_of
from scenewright.agents.judges.models import ModelCaps
from scenewright.config.output_limits import OF_THE_MODEL
from scenewright.providers.caller import Caller
from scenewright.providers.decisions import Decision, PermanentError
from scenewright.providers.usage import Reply, Usage

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
    """The account that pays."""
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
        """``account``: its name; ``priced_as``: what precedes the model in the table of prices.
        ``limit``: what sets the most output tokens of a reply, for messages.

        The model closes its wire, not the ``caller``, which others share.
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
        """Dollars of such a call; None where the price is not known."""
        return self._caller.price_of(self._priced_as, self.model, usage)

    @property
    def pictures(self) -> bool:
        """Whether it sees pictures."""
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
        """The model with ``tools``.

        ``tool_choice``: ``auto``, ``none``, ``any`` (also ``required`` and True), a tool's name or
        a provider's object that holds one. Raises ``ChatError`` for a name that is no tool's.
        """
        schemas = tuple(convert_to_openai_tool(tool, strict=strict) for tool in tools)
        wanted = Tools(schemas, _choice(schemas, tool_choice), parallel_tool_calls, strict)
        return self.bind(tools=wanted, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """An object of ``schema``, as the arguments of a tool that must be called.

        Raises ``ChatError`` where the model refuses or says something else, an
        ``OutputParserException`` where its arguments do not fit. ``include_raw`` gives the message,
        the object and such an error side by side. ``method`` and ``strict`` are taken for
        LangChain's sake; the way is always the tool.
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
        # What cannot be sent is told before a call begins.
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
    """A check that ``message`` calls the tool ``name``."""

    def check(message: AIMessage) -> AIMessage:
        if any(call["name"] == name for call in message.tool_calls):
            return message
        text = str(message.text)[:200]
        if stop_of(message) == "refusal":
            raise ChatError(f"{model} refused: {text}")
        raise ChatError(f"{model} did not fill in {name} and said instead: {text or 'nothing'}")

    return check

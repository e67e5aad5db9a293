"""What the chat models of all providers have in common: how one is asked, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage

from scenewright.agents.judges.reading import MalformedReply
from scenewright.config.output_limits import OF_THE_MODEL
from scenewright.providers.decisions import Decision, UnusableReply
from scenewright.providers.usage import Reply, usage_of

Stop = Literal["end", "tools", "length", "refusal"]
"""Why a reply ended: it was said, it calls tools, it reached the limit of output tokens and is
cut off, or the provider or the model declined."""
STOP = "stop"
"""Key of a message's ``response_metadata`` that holds its :data:`Stop`."""
LIMIT = "output_limit"
"""Key of the ``response_metadata`` of a text that was cut off: where to raise the limit."""
DECLINED = "The model declined to answer."
"""Said for a provider that declines without a word."""
_SHOWN = 200


class ChatError(RuntimeError):
    """A chat model that was used in a way it cannot be; says how to use it."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    schemas: tuple[dict[str, Any], ...] = ()
    """Each in OpenAI's form: ``{"type": "function", "function": {name, description,
    parameters}}``."""
    choice: Literal["auto", "none", "any"] | str = "auto"
    """Whether one may, may not or must be called. A name stands after ``=``: ``=look``."""
    parallel: bool | None = None
    """Whether several may be called at once; None: as the provider likes it."""
    strict: bool | None = None
    """Whether arguments shall fit the schema exactly; None: as the provider likes it."""

    @property
    def named(self) -> str | None:
        """The one tool that must be called."""
        return self.choice[1:] if self.choice.startswith("=") else None

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Name, description and parameters of each tool."""
        return [schema["function"] for schema in self.schemas]


@dataclass(slots=True)
class ChatReply:
    """A provider's reply, out of its wire format."""

    message: AIMessage
    """What it says and calls, with its ``usage_metadata``."""
    ended: str
    """The provider's own word for why it ended."""
    cut: bool = False
    """It ended at the limit of output tokens."""
    refusal: str | None = None
    """Why it was declined; empty where nothing is said; None: it was not."""
    broken: str = ""
    """What is wrong with a tool call that cannot be read."""
    request_id: str = ""
    """How the provider names the request."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """More for the message's ``response_metadata``."""


class ChatWire(Protocol):
    """How one provider's model is talked to."""

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    model: str
    """The model, as the provider names it."""
    base_url: str
    """Where it is."""

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> Any:
        """The request as data. Pure. Raises ``ChatError`` for messages that cannot be sent."""
        ...

    async def send(self, request: Any) -> ChatReply:
        """One attempt. Raises what the provider's library raises."""
        ...

    def classify(self, error: Exception) -> Decision:
        """What an error of :meth:`send` means; its reason holds no secret."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


def reply_of(heard: ChatReply, limit: str = OF_THE_MODEL) -> Reply[AIMessage]:
    """The message of a reply, told why it ended; ``limit``: what sets the most output tokens.

    A refusal is a message with stop ``refusal``, no calls and the words of the refusal; a text
    that was cut off has stop ``length``. Raises ``UnusableReply`` for what nobody can go on with:
    an empty reply, a tool call that cannot be read or was cut off.
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
    """Why ``message`` ended; None if it does not come from a model of an account."""
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

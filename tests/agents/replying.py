"""A chat model that gives prepared replies and keeps what it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

Reply = str | Mapping[str, Any] | AIMessage | Exception
"""Words, the arguments of the tool that must be called, a whole message, or a failure."""


class ReplyingChat(BaseChatModel):
    """Replies in turn, or by what it was sent; the last reply is repeated."""

    replies: Any
    """A sequence of :data:`Reply`, or a function from the messages to one."""
    model: str = "replying"
    sent: list[list[BaseMessage]] = []  # noqa: RUF012 - copied for each instance by pydantic
    tools: list[dict[str, Any]] = []  # noqa: RUF012 - likewise

    @property
    def _llm_type(self) -> str:
        return "replying"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        self.tools[:] = [dict(tool) for tool in tools]
        return self.bind(tool=tool_choice)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        tool: str | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        at = len(self.sent)
        self.sent.append(list(messages))
        if callable(self.replies):
            reply = self.replies(messages)
        else:
            reply = self.replies[min(at, len(self.replies) - 1)]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Mapping):
            call = {"name": tool or "none", "args": dict(reply), "id": f"call_{at}"}
            reply = AIMessage("", tool_calls=[call])
        message = AIMessage(reply) if isinstance(reply, str) else reply
        return ChatResult(generations=[ChatGeneration(message=message)])

    def said(self, call: int = -1) -> str:
        """All that a call was sent, as one text."""
        return "\n".join(str(message.text) for message in self.sent[call])


class TalkingChat(ReplyingChat):
    """Takes no tools."""

    bind_tools = BaseChatModel.bind_tools

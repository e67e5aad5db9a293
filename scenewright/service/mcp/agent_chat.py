"""The chat model whose words are an agent's tool calls.

The director (``graphs/director.py``) asks its language model what to do next; this one
answers with the tool that the agent calls next, however long that takes. So limits, replay and
what is left behind are those of any director.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from scenewright.config.model_identity import UNKNOWN


@dataclass(frozen=True, slots=True)
class AgentToolCall:
    """A tool that the agent calls."""

    tool: str
    """Its name."""
    arguments: dict[str, Any]
    """Its arguments as JSON data."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The reply of a tool."""

    text: str
    """One line of JSON, or what went wrong."""
    picture: str | None = None
    """A small JPEG beside it, in base64."""
    ok: bool = True
    """Whether the tool did what it was asked."""


class AgentChat(BaseChatModel):
    """The chat model whose words are an agent's tool calls."""

    call_source: Any
    """Gives the agent's next call: ``async turn(task, reply) -> AgentToolCall``. ``task`` is the
    director's description of the scene, ``reply`` the result of the call before; None at first."""
    model_name: str = UNKNOWN
    """The language model that the agent says it is."""

    @property
    def _llm_type(self) -> str:
        return "agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return itself: the agent knows the tools from MCP."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise RuntimeError("an agent answers asynchronously only: use ainvoke")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        task = next((str(m.text) for m in messages if m.type == "human"), "")
        last, reply = messages[-1], None
        if isinstance(last, ToolMessage):
            blocks = last.content if isinstance(last.content, list) else []
            images = [b for b in blocks if isinstance(b, dict) and b.get("type") == "image"]
            picture = str(images[-1]["base64"]) if images else None
            reply = ToolReply(str(last.text), picture, last.status != "error")
        asked = await self.call_source.turn(task, reply)
        call = {"name": asked.tool, "args": asked.arguments, "id": f"call_{secrets.token_hex(8)}"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])

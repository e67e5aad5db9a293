"""An agent on the other side of MCP as the language model of a director.

The director (``graphs/director_agent.py``) asks its language model what to do next; this one
answers with the tool that the agent calls next, however long that takes. So limits, replay and
what is left behind are those of any director.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from scenewright.config.model_identity import UNKNOWN
from scenewright.service.mcp.agent_calls import Reply


class AgentChat(BaseChatModel):
    """The chat model whose words are an agent's tool calls."""

    call_source: Any
    """Gives the agent's next call: ``async turn(task, reply) -> Asked``. ``task`` is what the
    director is told of the scene, ``reply`` the result of the call before; None at first."""
    model_name: str = UNKNOWN
    """The language model that the agent says it is."""

    @property
    def _llm_type(self) -> str:
        return "agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Itself: the agent knows the tools from MCP."""
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
        last = messages[-1]
        asked = await self.call_source.turn(
            task, reply_of(last) if isinstance(last, ToolMessage) else None
        )
        call = {"name": asked.tool, "args": asked.arguments, "id": f"call_{secrets.token_hex(8)}"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


def reply_of(message: ToolMessage) -> Reply:
    """What a tool's message tells."""
    picture = None
    if isinstance(message.content, list):
        for block in message.content:
            if isinstance(block, dict) and block.get("type") == "image":
                picture = str(block["base64"])
    return Reply(str(message.text), picture, message.status != "error")

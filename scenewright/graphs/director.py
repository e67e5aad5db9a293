"""The director: a language model with tools that decides for itself how a scene is drawn.

It draws, verifies, looks, repairs and accepts in any order, within hard limits. Every picture of
the whole scene is a candidate as in ``graphs/refine.py``, with the same events, page and result::

    direct (as many turns as it takes) → report

A picture that is worse than the best one cannot be accepted; a run that ends in any other way
keeps the best one. :func:`build_director` returns the graph uncompiled, so that its host chooses
the checkpointer.

The agent is LangChain's ``create_agent``, with a middleware around every turn and every call. Each
reply of the language model is stored before its tools are used, and each call with its outcome. A
resumed run replays the stored ones, without a request or an effect, up to the place where it was
cut off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from scenewright.agents.chat.model import stop_of
from scenewright.graphs.director_record import ACCEPT, DirectorContext
from scenewright.graphs.director_tools import (
    DirectorToolset,
    available_tools,
    langchain_tool,
    refusal_of,
    replayed_content,
    storable,
    storable_json,
    unsupported_tool_reason,
)
from scenewright.graphs.events import Replied, ToolCalled
from scenewright.graphs.nodes.report import report
from scenewright.graphs.nodes.step import LoopStep, as_node
from scenewright.graphs.state import DirectorError, RefineContext, RefineState, emit, emit_retries
from scenewright.prompts import load_prompt
from scenewright.providers.retry import CallError, PermanentError
from scenewright.providers.sdk_clients import paying
from scenewright.providers.usage import metered

NUDGE = "Nothing was done: call one of the tools. To end the run, call accept."
"""Said to a director that calls no tool."""
CUT_NUDGE = (
    "Your reply was cut off at the limit of output tokens, and nothing was done: call one of the "
    "tools at once, with few words beside it. To end the run, call accept."
)
"""Said to a director whose words did not come to an end."""
_TURNS = 10_000
"""Steps of LangGraph that are surely enough: the calls are limited, and silence is."""


async def direct(toolset: DirectorToolset) -> None:
    """Let the language model work until the run is over (:meth:`DirectorToolset.over`).

    Raises ``DirectorError`` if it fails for good; what was done stays.
    """
    if toolset.over()[0] is not None:
        return
    context = toolset.context
    agent = create_agent(
        context.chat,
        [langchain_tool(tool, context.previews) for tool in available_tools(toolset)],
        system_prompt=load_prompt("director").render(),
        middleware=[_Record(toolset)],
        # Its steps are repeated from the event log.
        checkpointer=False,
    )
    task = json.dumps(toolset.task(), ensure_ascii=False)
    first = HumanMessage(load_prompt("director_task").render(task=task))
    await agent.ainvoke({"messages": [first]}, {"recursion_limit": _TURNS})


class _Record(AgentMiddleware[AgentState[Any], None, Any]):
    """Stores every turn and call, plays stored ones again, and keeps the limits."""

    def __init__(self, toolset: DirectorToolset) -> None:
        super().__init__()
        self.toolset = toolset
        self.log = toolset.context.log
        self.turn = -1
        self.message = AIMessage("")
        self._done: dict[str, asyncio.Event] = {}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: AgentState[Any], runtime: Runtime[None]
    ) -> dict[str, Any] | None:
        """End where a limit is met, or the run is over."""
        return {"jump_to": "end"} if self.toolset.over()[0] is not None else None

    async def awrap_model_call(
        self,
        request: ModelRequest[None],
        handler: Callable[[ModelRequest[None]], Awaitable[ModelResponse[Any]]],
    ) -> AIMessage:
        """Return the stored reply of this turn, or request one and store it first."""
        self.turn = sum(isinstance(message, AIMessage) for message in request.messages)
        key = f"turn:{self.turn}"
        event = self.log.record.get(key, Replied)
        if event is None:
            event = await self._asked(key, request, handler)
            emit(self.toolset.runtime, event)
        self.message = AIMessage.model_validate(event.message)
        return self.message

    async def _asked(
        self,
        key: str,
        request: ModelRequest[None],
        handler: Callable[[ModelRequest[None]], Awaitable[ModelResponse[Any]]],
    ) -> Replied:
        refused = ""
        drawn = self.toolset.past.candidates
        retrying = emit_retries(self.toolset.runtime, drawn[-1].round if drawn else -1)
        with metered() as spent, paying(self.toolset.context.nonce, key), retrying:
            try:
                message = (await handler(request)).result[0]
                assert isinstance(message, AIMessage)
                refused = refusal_of(message)
            except CallError as error:
                message = AIMessage(f"(no usable reply: {error})")
                if error.usage.tokens_in + error.usage.tokens_out == 0:
                    # A later turn that no retry can save ends the run with what it has; a first
                    # one is a wrong key or a wrong model.
                    if not isinstance(error.decision, PermanentError) or self.turn == 0:
                        raise self._failed(error) from error
                    refused = str(error)
            except Exception as error:
                raise self._failed(error) from error
        usage = message.usage_metadata
        told_in, told_out = spent.usage.tokens_in, spent.usage.tokens_out
        if not spent.calls and usage is not None:
            told_in, told_out = usage["input_tokens"], usage["output_tokens"]
        return Replied(
            key=key,
            at=self.log.now(),
            turn=self.turn,
            message=storable(message, self.turn),
            refused=storable_json(refused),
            tokens_in=told_in,
            tokens_out=told_out,
            usd=spent.usd,
        )

    def _failed(self, error: Exception) -> DirectorError:
        return DirectorError(
            f"the director's language model failed: {error}. Nothing is lost: repair it and run "
            "the same again, it goes on from here"
        )

    @hook_config(can_jump_to=["model"])
    async def aafter_model(
        self, state: AgentState[Any], runtime: Runtime[None]
    ) -> dict[str, Any] | None:
        """Answer what no tool will: calls that cannot be read, and silence."""
        message = self.message
        answers: list[AnyMessage] = []
        for at, call in enumerate(message.invalid_tool_calls, start=len(message.tool_calls)):
            name = call.get("name") or "unreadable"
            outcome = f"{name} was not called: {_unreadable(call.get('args'))}"
            self._emit(at, name, {"unreadable": call.get("args")}, outcome, ok=False)
            answer = ToolMessage(
                outcome, tool_call_id=str(call.get("id")), name=name, status="error"
            )
            answers.append(answer)
        if message.tool_calls:
            return {"messages": answers} if answers else None
        if not answers:
            declined = self._paid.refused
            nudge = CUT_NUDGE if stop_of(message) == "length" else NUDGE
            self._emit(0, "", {}, f"it declined: {declined}" if declined else nudge, ok=False)
            answers.append(HumanMessage(nudge))
        return {"messages": answers, "jump_to": "model"}

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage:
        """Return the stored result of the call, or execute it; calls of a turn keep their order."""
        call = request.tool_call
        at = [other["id"] for other in self.message.tool_calls].index(call["id"])
        if at:
            await self._ended(at - 1).wait()
        event = self.log.record.get(self._key(at), ToolCalled)
        if event is None:
            event = await self._used(at, request, handler)
        self._ended(at).set()
        name, context = call["name"], self.toolset.context
        content: Any = event.outcome
        if event.ok:
            content = await asyncio.to_thread(
                replayed_content,
                self.toolset,
                name,
                event.arguments,
                event.outcome,
                context.previews,
            )
        return ToolMessage(
            content,
            tool_call_id=str(call["id"]),
            name=name,
            status="success" if event.ok else "error",
        )

    async def _used(
        self,
        at: int,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolCalled:
        toolset, name, arguments = (
            self.toolset,
            request.tool_call["name"],
            request.tool_call["args"],
        )
        toolset.begin(self._key(at), self._words)
        reason, _ = toolset.over()
        lacks = unsupported_tool_reason(name, toolset.context.backend.features)
        if reason is not None:
            outcome, ok = f"{name} was not called: the run is over ({reason})", False
        elif lacks is not None:
            outcome, ok = f"there is no tool {name} here: {lacks}", False
        else:
            reply = await handler(request)
            assert isinstance(reply, ToolMessage)
            outcome, ok = str(reply.text), reply.status != "error"
        return self._emit(at, name, arguments, outcome, ok)

    @property
    def _paid(self) -> Replied:
        found = self.log.record.get(f"turn:{self.turn}", Replied)
        assert found is not None
        return found

    @property
    def _words(self) -> str:
        return " ".join(str(self.message.text).split())

    def _key(self, at: int) -> str:
        return f"turn:{self.turn}:call:{at}"

    def _ended(self, at: int) -> asyncio.Event:
        return self._done.setdefault(self._key(at), asyncio.Event())

    def _emit(
        self, at: int, tool: str, arguments: dict[str, Any], outcome: str, ok: bool
    ) -> ToolCalled:
        first = at == 0
        paid = self._paid
        drawn = self.toolset.past.candidates
        asked, usd = self.toolset.asked, self.toolset.asked_usd
        event = ToolCalled(
            key=self._key(at),
            at=self.log.now(),
            turn=self.turn,
            round=drawn[-1].round if drawn else -1,
            tool=tool,
            arguments=storable_json(arguments),
            outcome=storable_json(outcome),
            ok=ok,
            said=self._words if first else "",
            tokens_in=(paid.tokens_in if first else 0) + asked.tokens_in,
            tokens_out=(paid.tokens_out if first else 0) + asked.tokens_out,
            usd=(paid.usd if first else 0.0) + usd,
        )
        emit(self.toolset.runtime, event)
        self.toolset.begin("", "")
        return event


def _unreadable(arguments: str | None) -> str:
    """Why the arguments of a call are no JSON object."""
    wrong = "its arguments are not a JSON object"
    try:
        json.loads(arguments or "")
    except ValueError as error:
        return f"{wrong}: {error}"
    return f"{wrong}: write them as {{...}}"


def build_director() -> StateGraph[RefineState, RefineContext, RefineState, RefineState]:
    """Return the director as a graph: input ``{"scene": …}``, context :class:`DirectorContext`.

    Raises ``DirectorError`` while it runs if the language model cannot be used.
    """
    graph: StateGraph[RefineState, RefineContext, RefineState, RefineState] = StateGraph(
        RefineState, context_schema=DirectorContext
    )
    graph.add_node("direct", as_node(_direct))
    graph.add_node("report", as_node(report))
    graph.add_edge(START, "direct")
    graph.add_edge("direct", "report")
    return graph


async def _direct(step: LoopStep) -> RefineState:
    """Let the director work to its end; then every candidate is judged, and the best one kept."""
    toolset = DirectorToolset(step.scene, step.runtime)
    await direct(toolset)
    reason, reached = toolset.over()
    candidates = await toolset.settle()
    update = RefineState(reason=reason, limit_reached=reached, round=candidates[-1].round)
    for event in toolset.past.all(ToolCalled):
        if event.tool == ACCEPT and event.ok:
            update["kept_round"] = toolset.candidate(json.loads(event.outcome)["image"]).round
    return update

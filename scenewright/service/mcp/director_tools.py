"""The tools of the director for an agent outside: ``open_scene``, and those of the desk.

What they do stands in ``graphs/director_desk.py``; here they are called on a run by its id.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import suppress
from typing import Any

from mcp.types import CallToolResult, TextContent

from scenewright.graphs.director_state import ACCEPT
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_calls import AgentToolCall, Reply
from scenewright.service.mcp.arguments import Directed, OpenScene, directed
from scenewright.service.mcp.calls import Call
from scenewright.service.mcp.replies import (
    OpenedRun,
    ToolResult,
    facts_told,
    failed,
    links_of,
    page_uri,
    reply,
)
from scenewright.service.mcp.rows import is_agents
from scenewright.service.mcp.waiting import watch
from scenewright.tools.generate import GenerateImage, Inpaint, RefineWithReference
from scenewright.tools.look import Look
from scenewright.tools.replies import Arguments
from scenewright.tools.verify import Accept, VerifyFacts

DESK: dict[str, type[Arguments]] = {
    "generate_image": GenerateImage,
    "verify_facts": VerifyFacts,
    "look": Look,
    "refine_with_reference": RefineWithReference,
    "inpaint": Inpaint,
    ACCEPT: Accept,
}
"""The tools of the desk, and what each takes."""
_AGAIN = "it is still at work: the same call again waits for it and tells what it did"
_DRAWN = "call the next tool, or accept to end the run"


def about(name: str) -> str:
    """What a tool of the desk does, for an agent."""
    text = inspect.cleandoc(DESK[name].__doc__ or "")
    return f"{text}\n\nWorks on a run that open_scene began."


def arguments_of(name: str) -> type[Arguments]:
    """What a tool of the desk takes over MCP."""
    return directed(DESK[name])


async def open_scene(call: Call, given: OpenScene) -> CallToolResult:
    """Begin a run that the caller directs."""
    run, session = await call.sessions.open(call.identity, given.request())
    result = await call.service.result(run)
    if result is None:
        raise Unavailable(f"the run {run.id} was let go of before it began: call open_scene again")
    asked = RefinementRequest.model_validate(run.request)
    budget = asked.budget
    opened = OpenedRun(
        run=run.id,
        status=(await call.run(run.id)).status,
        facts=facts_told(result.facts, None),
        warnings=(*result.warnings, *result.reporting.notes),
        limits={
            "rounds": asked.rounds,
            "images": budget.images,
            "tool_calls": budget.tool_calls,
            "usd": budget.usd,
            "seconds": budget.seconds,
            "tokens": budget.tokens,
        },
        next=f"call generate_image with run {run.id!r}",
        page=page_uri(run.id),
    )
    return reply(opened, also=[TextContent(type="text", text=session.words)])


async def use(call: Call, name: str, given: Any) -> CallToolResult:
    """Use a tool of the desk on a run; ``given`` is of :func:`arguments_of` its ``name``."""
    assert isinstance(given, Directed)
    run = await call.run(given.run)
    if name == ACCEPT and run.status == "finished" and is_agents(run):
        # Who gave up while it was accepted asks again.
        return await _over(call, run, name, {})
    asked = AgentToolCall(
        name,
        given.model_dump(mode="json", exclude=set(Directed.model_fields), exclude_unset=True),
    )
    session = await call.sessions.at(call.identity, run.id)
    watching = asyncio.create_task(
        watch(call.service, call.identity, run, call.report, given.wait_seconds)
    )
    try:
        async with asyncio.timeout(given.wait_seconds):
            said = await session.use(asked)
    except TimeoutError:
        return reply(ToolResult(run=run.id, tool=name, done=False, next=_AGAIN))
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    if session.driven is not None and session.driven.status == "finished":
        return await _over(call, run, name, {} if said is None else _data(said))
    if said is None:
        raise Unavailable("the run was let go of before the call: call again")
    if not said.ok:
        return failed(said.text)
    told = ToolResult(run=run.id, tool=name, done=True, told=_data(said), next=_DRAWN)
    return reply(told, said.picture)


async def _over(call: Call, run: Run, name: str, data: dict[str, Any]) -> CallToolResult:
    result = await call.told(await call.run(run.id))
    told = ToolResult(
        run=run.id,
        tool=name,
        done=True,
        told=data,
        over=True,
        result=result,
        next="the run is over",
    )
    return reply(told, await call.preview(result), links_of(result))


def _data(said: Reply) -> dict[str, Any]:
    try:
        found = json.loads(said.text)
    except ValueError:
        return {"error": said.text}
    return found if isinstance(found, dict) else {"told": found}

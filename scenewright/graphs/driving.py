"""Drives a loop from where its checkpoints stand to where it waits or ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from copy import copy
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from scenewright.core.scene import SceneGraph
from scenewright.graphs.checkpoints import LoopCheckpoints
from scenewright.graphs.errors import RunError
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import EVENT, Edit, Event, Finished, Paused
from scenewright.graphs.nodes.review import GO_ON
from scenewright.graphs.state import RefineContext, never


async def drive(
    machine: CompiledStateGraph[Any, Any, Any, Any],
    saver: LoopCheckpoints,
    context: RefineContext,
    scene: SceneGraph,
    first: Event,
    edit: Edit | None = None,
    drain: Callable[[], bool] = never,
) -> AsyncGenerator[Event, None]:
    """Drive ``machine`` and give ``first`` and every event that happens, each once.

    The last event is
    ``Finished``, or ``Paused`` if the loop waits for a person. A loop that waited before is
    resumed with ``edit``, or without one goes on as if it had not waited. Once ``drain`` says yes
    the events end after the step at work, which is kept. Raises ``RunError`` if
    checkpoints and log do not fit each other.
    """
    log = context.log
    config: RunnableConfig = {
        "configurable": {"thread_id": saver.thread},
        "recursion_limit": 20 + 10 * _most_rounds(context, edit),
    }
    # Asked before the log grows: it must hold all that the checkpoints rest on.
    begun = await saver.begun(config)
    graph = copy(machine)
    graph.checkpointer = saver
    log.append(first)
    yield first
    feed: Any = None if begun else {"scene": scene.model_dump(mode="json")}
    going_on = False
    while True:
        last: Event | None = None
        stream: AsyncGenerator[Any, None] = graph.astream(  # type: ignore[assignment]
            feed,
            config,
            context=context,
            # The values of the state come after every step, when nothing is under way.
            stream_mode=["custom", "values"],
            # A checkpoint is written at once, in the order of the steps; none waits for it.
            durability="async",
            subgraphs=True,
        )
        async with aclosing(stream) as parts:
            async for place, mode, data in parts:
                if mode == "values":
                    if place == () and drain():
                        return
                    continue
                event = log.record.find(data["key"]) or EVENT.validate_python(data)
                if isinstance(event, Finished | Paused):
                    last = event
                else:
                    yield event
        if edit is not None:
            if last is not None:
                yield last
            feed, edit = Command(resume=edit.model_dump(mode="json")), None
        elif last is not None:
            yield last
            return
        elif log.record.paused and not going_on:
            # It began to wait in an earlier process, and this one was started to go on.
            feed, going_on = Command(resume=GO_ON), True
        else:
            raise _unfit(log)


def _most_rounds(context: RefineContext, edit: Edit | None) -> int:
    """Return the most rounds of one invocation, rounds replayed from the log included."""
    more = [event.rounds for event in context.record.edits]
    if edit is not None:
        more.append(edit.rounds)
    return context.options.rounds + sum(rounds + 1 for rounds in more)


def _unfit(log: EventLog) -> RunError:
    folder = log.path.parent if log.path is not None else "this run"
    return RunError(
        f"the checkpoints of {folder} do not fit its event log: start the run in another folder"
    )

"""The director: a language model with tools that decides for itself how a scene is drawn.

It draws, verifies, looks, repairs and accepts in the order it likes, within hard limits; every
picture of the whole scene is a candidate as in ``graphs/refine.py``, and what it leaves behind,
events, page and result, is the same::

    direct (as many turns as it takes) → report (one a candidate) → finish

A picture that is worse than the best one cannot be accepted; a run that ends in any other way
keeps the best one. :func:`build_director` returns the graph uncompiled, so that its host chooses
the checkpointer.
"""

from __future__ import annotations

import json
from typing import Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from scenewright.graphs.candidates import add_ending, ways_to_end
from scenewright.graphs.director_agent import direct
from scenewright.graphs.director_state import ACCEPT, DirectorContext
from scenewright.graphs.director_toolset import DirectorToolset
from scenewright.graphs.events import ToolCalled
from scenewright.graphs.state import Candidate, DirectorError, RefineState, scene_of

__all__ = ["DirectorContext", "DirectorError", "build_director"]


def build_director() -> StateGraph[RefineState, DirectorContext, RefineState, RefineState]:
    """The director as a graph: input ``{"scene": …}``, context :class:`DirectorContext`.

    Raises ``DirectorError`` while it runs if the language model cannot be used.
    """
    graph: StateGraph[RefineState, DirectorContext, RefineState, RefineState] = StateGraph(
        RefineState, context_schema=DirectorContext
    )
    graph.add_node("direct", _direct)
    add_ending(graph)
    graph.add_edge(START, "direct")
    return graph


async def _direct(
    state: RefineState, runtime: Runtime[DirectorContext]
) -> Command[Literal["report", "finish"]]:
    """Let the director work to its end; then every candidate is judged, and the best one kept."""
    toolset = DirectorToolset(scene_of(state), runtime)
    await direct(toolset)
    reason = toolset.over()
    assert reason is not None
    candidates = await toolset.settle()
    best = _accepted(toolset, candidates) or toolset.best(runtime.context.log.events)
    assert best is not None
    update = RefineState(candidates=candidates, best=best, reason=reason)
    done: RefineState = {**state, **update}
    return Command(update=update, goto=ways_to_end(done, runtime.context))  # type: ignore[arg-type]


def _accepted(toolset: DirectorToolset, candidates: list[Candidate]) -> Candidate | None:
    for event in toolset.past:
        if isinstance(event, ToolCalled) and event.tool == ACCEPT and event.ok:
            image = json.loads(event.outcome)["image"]
            return next(found for found in candidates if f"r{found['round']}" == image)
    return None

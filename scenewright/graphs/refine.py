"""The loop: draw a scene, check it, and draw it again with pictures of what is missing.

Scene-Bench, Sec. 4, over as many rounds as wanted. Each node (``graphs/nodes/``) is a function of
the run's record; what can happen next is an edge, and the graph is drawn in
``docs/architecture.md``. In ``review`` the machine waits for a person: before a plan if one wants
to look, and after the end, so that a finished run can be gone on with.

Every node can be killed at any point and run again: images and answers are stored under the hash of
their request before the node ends, and events that the log has are not emitted again.
:func:`build_refine` returns the graph uncompiled, so that its host chooses the checkpointer.
"""

from __future__ import annotations

from typing import Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from scenewright.graphs.nodes.compose import compose
from scenewright.graphs.nodes.decide import decide
from scenewright.graphs.nodes.generate import generate
from scenewright.graphs.nodes.plan import plan
from scenewright.graphs.nodes.reference import reference
from scenewright.graphs.nodes.report import report
from scenewright.graphs.nodes.reuse import reuse
from scenewright.graphs.nodes.review import review, should_pause
from scenewright.graphs.nodes.step import as_node
from scenewright.graphs.nodes.tournament import tournament
from scenewright.graphs.nodes.verify import verify
from scenewright.graphs.record import card_key, image_key
from scenewright.graphs.state import RefineContext, RefineState, never


def build_refine() -> StateGraph[RefineState, RefineContext, RefineState, RefineState]:
    """Return the loop as a graph: input ``{"scene": …}``, context :class:`RefineContext`."""
    graph: StateGraph[RefineState, RefineContext, RefineState, RefineState] = StateGraph(
        RefineState, context_schema=RefineContext
    )
    graph.add_node("compose", as_node(compose))
    graph.add_node("reuse", as_node(reuse, candidate_key))
    graph.add_node("generate", as_node(generate, candidate_key))
    graph.add_node("tournament", as_node(tournament, candidate_key))
    graph.add_node("verify", as_node(verify, lambda round: card_key(round, "loop")))
    graph.add_node("decide", as_node(decide))
    graph.add_node("plan", as_node(plan))
    graph.add_node("reference", as_node(reference, lambda round: image_key(round, "reference")))
    graph.add_node("report", as_node(report))
    graph.add_node("review", as_node(review), destinations=("compose", "reuse", "plan"))
    graph.add_edge(START, "compose")
    graph.add_conditional_edges("compose", after_compose)
    graph.add_edge("reuse", "verify")
    graph.add_edge("generate", "verify")
    graph.add_edge("tournament", "verify")
    graph.add_edge("verify", "decide")
    graph.add_conditional_edges("decide", after_decide)
    graph.add_conditional_edges("plan", after_plan)
    graph.add_conditional_edges("reference", after_reference)
    graph.add_edge("report", "review")
    return graph


def candidate_key(round: int) -> str:
    """Return the key of the candidate of ``round``."""
    return image_key(round, "candidate")


def after_compose(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Literal["reuse", "generate"]:
    """Take a picture that is there already, or draw one."""
    round = state["round"]
    first = round == 0 and runtime.context.options.start is not None
    return "reuse" if first or runtime.context.record.correction(round) else "generate"


def after_decide(state: RefineState, runtime: Runtime[RefineContext]) -> Literal["review", "plan"]:
    """Let a person look where the loop is paused or an edit follows."""
    return "review" if should_pause(runtime.context.record, state, never) else "plan"


def after_plan(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Literal["reference", "tournament", "generate", "report"]:
    """Follow the plan, or report the result."""
    if state.get("reason") is not None:
        return "report"
    if runtime.context.record.require_plan(state["round"]).reference is not None:
        return "reference"
    return after_reference(state, runtime)


def after_reference(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Literal["tournament", "generate"]:
    """Repair places by proposals, or draw one picture."""
    return (
        "tournament" if runtime.context.record.require_plan(state["round"]).places else "generate"
    )

"""The loop: draw a scene, check it, and draw it again with pictures of what is missing.

Scene-Bench, Sec. 4, over as many rounds as wanted::

    compose → generate → verify → decide ─→ reference → generate → …
                                     └────→ report (one a candidate) → finish

Every node can be killed at any point and run again: images and answers are stored under
the hash of their request before the node ends, and what the log already tells is not told
again. :func:`build_refine` returns the graph uncompiled, so that its host chooses the
checkpointer.
"""

from __future__ import annotations

from typing import Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from scenewright.graphs.candidates import (
    add_ending,
    judge,
    over_budget,
    situation_of,
    tell_missing,
    ways_to_end,
)
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Planned, StopReason
from scenewright.graphs.state import (
    Candidate,
    RefineContext,
    RefineState,
    emit,
    facts_for,
    improves,
    scene_of,
)
from scenewright.graphs.strategies.base import Move, Situation
from scenewright.graphs.strategies.registry import strategy_of


def build_refine() -> StateGraph[RefineState, RefineContext, RefineState, RefineState]:
    """The loop as a graph: input ``{"scene": …}``, context :class:`RefineContext`."""
    graph: StateGraph[RefineState, RefineContext, RefineState, RefineState] = StateGraph(
        RefineState, context_schema=RefineContext
    )
    graph.add_node("compose", _compose)
    graph.add_node("generate", _generate)
    graph.add_node("verify", _verify)
    graph.add_node("decide", _decide)
    graph.add_node("reference", _reference)
    add_ending(graph)
    graph.add_edge(START, "compose")
    graph.add_edge("compose", "generate")
    graph.add_edge("generate", "verify")
    graph.add_edge("verify", "decide")
    graph.add_edge("reference", "generate")
    return graph


async def _compose(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Write the prompt of the whole scene; all rounds share it."""
    prompt = await compose(scene_of(state), None, 0, "candidate", runtime)
    return {"prompt": prompt, "round": 0, "reference": None, "candidates": [], "stale": 0}


async def _generate(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Draw this round's candidate; from round 1 on with the changes of its strategy."""
    redrawn = None
    if state["round"] > 0:
        move = _planned(state, runtime.context)
        redrawn = strategy_of(move.strategy).redraw(
            _situation(state, runtime.context, state["best"], state["round"]),
            move,
            state.get("reference"),
        )
    image = await draw(state["prompt"], state["round"], "candidate", redrawn, runtime)
    candidate = Candidate(round=state["round"], image=image)
    return {"candidates": [*state["candidates"], candidate]}


def _planned(state: RefineState, context: RefineContext) -> Move:
    """The move of this round, as the log tells it."""
    event = context.log.get(f"r{state['round']}:planned", Planned)
    if event is None:
        raise LookupError(f"no plan of round {state['round']} in the event log")
    return Move(event.strategy, event.does, event.why, event.reference)


def _situation(
    state: RefineState, context: RefineContext, best: Candidate, round: int
) -> Situation:
    """What a strategy sees when ``round`` begins with the candidate ``best``."""
    return situation_of(scene_of(state), state["prompt"], best, round, context)


async def _verify(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Let the loop's judges look at the newest candidate."""
    await judge(state["scene"], state["candidates"][-1], "loop", runtime.context)
    return {}


async def _decide(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Command[Literal["reference", "generate", "report", "finish"]]:
    """Keep the better candidate; stop, or go on with what is missing in the kept one."""
    context, options = runtime.context, runtime.context.options
    scene = scene_of(state)
    facts = facts_for(scene, options.protocol)
    newest = state["candidates"][-1]
    card = context.card(newest["round"])
    best = state.get("best")
    if best is None or improves(card, context.card(best["round"]), facts):
        best, stale = newest, 0
    else:
        stale = state["stale"] + 1
    tell_missing(scene, newest, runtime)
    update: RefineState = {"best": best, "stale": stale}
    move, reason = None, _over(state, context, best, stale)
    if reason is None:
        move = strategy_of(options.strategy).move(
            _situation(state, context, best, state["round"] + 1)
        )
        reason = over_budget(context, 1 if move.reference is None else 2)
    if move is not None and reason is None:
        update["round"] = state["round"] + 1
        update["reference"] = None
        emit(
            runtime,
            Planned(
                key=f"r{update['round']}:planned",
                at=context.log.now(),
                round=update["round"],
                strategy=move.strategy,
                chosen_by=options.strategy if options.strategy != move.strategy else "",
                does=move.does,
                why=move.why,
                reference=move.reference,
            ),
        )
        return Command(update=update, goto="generate" if move.reference is None else "reference")
    assert reason is not None
    update["reason"] = reason
    return Command(update=update, goto=ways_to_end(state, context))  # type: ignore[arg-type]


def _over(
    state: RefineState, context: RefineContext, best: Candidate, stale: int
) -> StopReason | None:
    """Why no further round is wanted; None to go on."""
    options = context.options
    newest = context.card(state["candidates"][-1]["round"])
    kept = context.card(best["round"])
    early = strategy_of(options.strategy).stops_when_satisfied
    if kept.satisfied and early:
        return "satisfied"
    if newest.fact_recall is None:
        return "unscored"
    if early and not any(verdict.state in ("no", "void") for verdict in kept.verdicts):
        # Nothing is known to be missing, so there is nothing to repair.
        return "unscored"
    if state["round"] + 1 >= options.rounds:
        return "satisfied" if kept.satisfied else "rounds"
    if early and stale >= options.patience:
        return "patience"
    return None


async def _reference(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Compose and draw the reference image (I1) that the round's move wants."""
    graph = _planned(state, runtime.context).reference
    assert graph is not None
    prompt = await compose(graph, scene_of(state), state["round"], "reference", runtime)
    return {"reference": await draw(prompt, state["round"], "reference", None, runtime)}

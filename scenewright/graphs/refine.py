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

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from scenewright.facts import missing_graph
from scenewright.graphs.accounts import totals_of
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Finished, Generated, Missing, Planned, StopReason
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
from scenewright.graphs.strategies.history import attempts
from scenewright.graphs.strategies.registry import strategy_of
from scenewright.graphs.verify import VerifyInput, build_verify

_VERIFY = build_verify().compile()


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
    graph.add_node("report", _report, input_schema=VerifyInput)
    graph.add_node("finish", _finish, defer=True)
    graph.add_edge(START, "compose")
    graph.add_edge("compose", "generate")
    graph.add_edge("generate", "verify")
    graph.add_edge("verify", "decide")
    graph.add_edge("reference", "generate")
    graph.add_edge("report", "finish")
    graph.add_edge("finish", END)
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
    scene, options, log = scene_of(state), context.options, context.log
    facts = facts_for(scene, options.protocol)
    card = context.card(best["round"])
    drawn = log.get(f"r{best['round']}:candidate:generated", Generated)
    assert drawn is not None
    most = options.budget.images
    before = (event for event in log.events if getattr(event, "round", -1) < round)
    left = None if most is None else most - int(totals_of(before)["images"])
    return Situation(
        round=round,
        scene=scene,
        facts=facts,
        card=card,
        missing=missing_graph(scene, facts, card.verdicts),
        best=best["image"],
        request=drawn.request,
        prompt=state["prompt"],
        options=options,
        features=context.backend.features,
        composer=context.composer,
        images=context.images,
        tried=attempts(log.events, facts, round),
        images_left=left,
    )


async def _verify(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Let the loop's judges look at the newest candidate."""
    newest = state["candidates"][-1]
    await _VERIFY.ainvoke(
        {"scene": state["scene"], **newest, "role": "loop"}, context=runtime.context
    )
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
    missing = missing_graph(scene, facts, card.verdicts)
    if missing:
        emit(
            runtime,
            Missing(
                key=f"r{newest['round']}:missing",
                at=context.log.now(),
                round=newest["round"],
                graph=missing,
            ),
        )
    update: RefineState = {"best": best, "stale": stale}
    move, reason = None, _over(state, context, best, stale)
    if reason is None:
        move = strategy_of(options.strategy).move(
            _situation(state, context, best, state["round"] + 1)
        )
        reason = _spent(context, 1 if move.reference is None else 2)
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
    if not context.report_judges:
        return Command(update=update, goto="finish")
    return Command(
        update=update,
        goto=[
            Send("report", VerifyInput(scene=state["scene"], role="report", **candidate))
            for candidate in state["candidates"]
        ],
    )


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


def _spent(context: RefineContext, next_images: int) -> StopReason | None:
    """Whether the budget ends the run before a round of ``next_images`` images."""
    budget, spent = context.options.budget, totals_of(context.log.events)
    over = (
        (budget.images is not None and spent["images"] + next_images > budget.images),
        (budget.seconds is not None and context.log.seconds() >= budget.seconds),
        (budget.tokens is not None and spent["tokens_in"] + spent["tokens_out"] >= budget.tokens),
        (budget.usd is not None and spent["usd"] >= budget.usd),
    )
    return "budget" if any(over) else None


async def _reference(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Compose and draw the reference image (I1) that the round's move wants."""
    graph = _planned(state, runtime.context).reference
    assert graph is not None
    prompt = await compose(graph, scene_of(state), state["round"], "reference", runtime)
    return {"reference": await draw(prompt, state["round"], "reference", None, runtime)}


async def _report(state: VerifyInput, runtime: Runtime[RefineContext]) -> RefineState:
    """Let the judges that the loop never saw look at one candidate."""
    await _VERIFY.ainvoke(state, context=runtime.context)
    return {}


async def _finish(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Tell the result."""
    context, best = runtime.context, state["best"]
    totals = totals_of(context.log.events)
    emit(
        runtime,
        Finished.model_validate(
            {
                "key": "finished",
                "at": context.log.now(),
                "reason": state["reason"],
                "best_round": best["round"],
                "image": best["image"],
                "loop_card": context.card(best["round"]),
                "report_card": (
                    context.card(best["round"], "report") if context.report_judges else None
                ),
                "totals": totals | {"seconds": context.log.seconds()},
            }
        ),
    )
    return {}

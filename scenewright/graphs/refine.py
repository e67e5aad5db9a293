"""The loop: draw a scene, check it, and draw it again with pictures of what is missing.

Scene-Bench, Sec. 4, over as many rounds as wanted::

    compose → generate → verify → decide → plan ─→ reference → generate → …
                                     │       └───→ report (one a candidate) → finish ─┐
                                     └──────────→ review ←────────────────────────────┘

In ``review`` the machine waits for a person (``graphs/review.py``): before a plan if one wants
to look, and after the end, so that a finished run can be gone on with.

Every node can be killed at any point and run again: images and answers are stored under
the hash of their request before the node ends, and what the log already tells is not told
again. :func:`build_refine` returns the graph uncompiled, so that its host chooses the
checkpointer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from scenewright.core.facts import is_realism
from scenewright.core.images import nothing_drawn
from scenewright.core.ports.backend import BatchingBackend
from scenewright.graphs.candidates import (
    add_ending,
    emit_missing,
    judge,
    make_round_context,
    route_to_report,
)
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Generated, Planned, StopReason
from scenewright.graphs.initial_image import use_initial_image, within_mask
from scenewright.graphs.limits import limit_reached, unaffordable
from scenewright.graphs.proposals import choose_proposals
from scenewright.graphs.review import corrections_in_round, reuse_edited_picture, review, waits
from scenewright.graphs.run_status import correction_of, totals_of
from scenewright.graphs.seeing import where_seen
from scenewright.graphs.state import (
    Candidate,
    RefineContext,
    RefineState,
    emit,
    improves,
    scene_of,
)
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RoundContext,
    planned,
)
from scenewright.graphs.strategies.registry import strategy_of
from scenewright.graphs.strategies.repairs import BestOfN, Resample


def build_refine() -> StateGraph[RefineState, RefineContext, RefineState, RefineState]:
    """Return the loop as a graph: input ``{"scene": …}``, context :class:`RefineContext`."""
    graph: StateGraph[RefineState, RefineContext, RefineState, RefineState] = StateGraph(
        RefineState, context_schema=RefineContext
    )
    graph.add_node("compose", _compose)
    graph.add_node("generate", _generate)
    graph.add_node("verify", _verify)
    graph.add_node("decide", _decide)
    graph.add_node("plan", _plan)
    graph.add_node("reference", _reference)
    graph.add_node("review", review)
    add_ending(graph, then="review")
    graph.add_edge(START, "compose")
    graph.add_edge("compose", "generate")
    graph.add_edge("generate", "verify")
    graph.add_edge("verify", "decide")
    graph.add_edge("reference", "generate")
    return graph


async def _compose(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Write the prompt of the whole scene; all rounds share it until an edit changes the scene."""
    round, context = state.get("round", 0), runtime.context
    scene = await scene_of(state)
    past = context.log.events
    if not any(isinstance(event, Generated) for event in past):
        images = 0 if context.options.start is not None else 1
        if reached := unaffordable(context, scene, images, 1, past):
            raise RunError(f"the first round does not fit into its limits: {reached}: raise them")
    prompt = await compose(scene, None, round, "candidate", runtime)
    if round:
        return {"prompt": prompt}
    return {"prompt": prompt, "round": 0, "reference": None, "candidates": [], "stale": 0}


async def _generate(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Draw this round's candidate; from round 1 on with the changes of its strategy.

    Round 0 takes the picture that came with the run, a round that an edit began the one that the
    person saw.
    """
    image, redrawn = reuse_edited_picture(state, runtime) or use_initial_image(state, runtime), None
    if image is None and state["round"] > 0:
        repair_plan = _planned(state, runtime.context)
        round_context = await _situation(state, runtime.context, state["best"], state["round"])
        if repair_plan.places:
            image = await choose_proposals(
                repair_plan, round_context, state.get("reference"), runtime
            )
    if image is None and state["round"] > 0:
        redrawn = within_mask(
            strategy_of(repair_plan.strategy).redraw(
                round_context, repair_plan, state.get("reference")
            ),
            round_context,
        )
    if image is None:
        alike = redrawn in (None, GenerationOverrides())
        ahead = _drawn_ahead(state, runtime.context) if alike else 0
        image = await draw(state["prompt"], state["round"], "candidate", redrawn, runtime, ahead)
    candidate = Candidate(round=state["round"], image=image)
    return {"candidates": [*state["candidates"], candidate]}


AHEAD = 3
"""Most candidates that are drawn with another one, as one batch."""


def _drawn_ahead(state: RefineState, context: RefineContext) -> int:
    """Return how many later candidates are sure to be drawn from the same prompt.

    None where a limit may end the run before them.
    """
    options, round = context.options, state["round"]
    strategy, budget = strategy_of(options.strategy), options.budget
    limits = (budget.seconds, budget.tokens, budget.usd, budget.work, budget.judge_calls)
    able = isinstance(strategy, BestOfN) and isinstance(context.backend, BatchingBackend)
    if not able or any(limit is not None for limit in limits):
        return 0
    left = state.get("limit", options.rounds) - round - 1
    if budget.images is not None:
        left = min(left, budget.images - int(totals_of(context.log.events)["images"]) - 1)
    return max(0, min(AHEAD, left))


def _planned(state: RefineState, context: RefineContext) -> RepairPlan:
    """Return the move of this round, as the log tells it."""
    repair_plan = _told(state["round"], context)
    if repair_plan is None:
        raise LookupError(f"no plan of round {state['round']} in the event log")
    return repair_plan


def _told(round: int, context: RefineContext) -> RepairPlan | None:
    """Return the move of ``round``, if the log tells one."""
    event = context.log.get(f"r{round}:planned", Planned)
    if event is None:
        return None
    return RepairPlan(
        event.strategy,
        event.does,
        event.why,
        event.reference,
        event.places,
        event.work,
        event.judge_calls,
    )


async def _situation(
    state: RefineState, context: RefineContext, best: Candidate, round: int
) -> RoundContext:
    """Return the context of a strategy when ``round`` begins with the candidate ``best``."""
    return make_round_context(await scene_of(state), state["prompt"], best, round, context)


async def _verify(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Let the loop's judges look at the newest candidate."""
    newest, context = state["candidates"][-1], runtime.context
    await judge(
        state["scene"], newest, "loop", context, corrections_in_round(newest["round"], context)
    )
    return {}


async def _decide(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Command[Literal["plan", "review"]]:
    """Keep the better candidate, and let a person look if one wants to.

    A picture that a person has corrected takes the place of all before it.
    """
    context, newest = runtime.context, state["candidates"][-1]
    scene = await scene_of(state)
    facts = context.options.form.facts(scene)
    card, best = context.card(newest["round"]), state.get("best")
    corrected = correction_of(context.log.events, newest["round"]) is not None
    if best is None or corrected or improves(card, context.card(best["round"]), facts):
        best, stale = newest, 0
    else:
        stale = state["stale"] + 1
    emit_missing(scene, newest, runtime)
    update: RefineState = {"best": best, "stale": stale}
    return Command(update=update, goto="review" if waits(state, runtime) else "plan")


async def _plan(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Command[Literal["reference", "generate", "report", "finish"]]:
    """Stop, or go on with what is missing in the kept candidate."""
    context, round = runtime.context, state["round"] + 1
    # A loop that comes here again through its log does what it did.
    repair_plan = _told(round, context)
    reason = None
    if repair_plan is None:
        # Who has just looked wants another picture, whatever the cards say.
        reason = None if state.get("looked") else _over(state, context)
    reached = ""
    if repair_plan is None and reason is None:
        repair_plan = await _move(state, context, round)
        images, looks = _size_of_round(repair_plan)
        reached = limit_reached(context, await scene_of(state), images, looks)
        reason = "budget" if reached else None
    if repair_plan is not None and reason is None:
        update: RefineState = {"round": round, "reference": None, "looked": False}
        strategy = context.options.strategy
        emit(
            runtime,
            Planned(
                key=f"r{round}:planned",
                at=context.log.now(),
                round=round,
                strategy=repair_plan.strategy,
                chosen_by=strategy if strategy != repair_plan.strategy else "",
                does=repair_plan.does,
                why=repair_plan.why,
                reference=repair_plan.reference,
                places=repair_plan.places,
                work=repair_plan.work,
                judge_calls=repair_plan.judge_calls,
            ),
        )
        return Command(
            update=update, goto="generate" if repair_plan.reference is None else "reference"
        )
    assert reason is not None
    return Command(
        update={"reason": reason, "limit_reached": reached, "looked": False},
        goto=route_to_report(state, context),  # type: ignore[arg-type]
    )


def _size_of_round(repair_plan: RepairPlan) -> tuple[int, int]:
    """Return how many pictures a round draws, and how many the loop's judges look at.

    Of proposals one at least; further ones keep within the limits themselves.
    """
    references = 0 if repair_plan.reference is None else 1
    return references + 1, 1 + bool(repair_plan.places)


async def _move(state: RefineState, context: RefineContext, round: int) -> RepairPlan:
    """Return the strategy's next plan.

    With nothing to repair, another picture of the same prompt.
    """
    strategy = strategy_of(context.options.strategy)
    round_context = await _situation(state, context, state["best"], round)
    if round_context.missing:
        places = planned(round_context)
        seen = await where_seen(await scene_of(state), state["best"], places, context)
        round_context = replace(round_context, seen=seen)
    if round_context.missing or not strategy.stops_when_satisfied:
        return strategy.plan_repair(round_context)
    empty = _is_empty(state["best"], context)
    why = "nothing is drawn on the picture" if empty else "nothing is known to be missing"
    return replace(Resample().plan_repair(round_context), why=why)


def _over(state: RefineState, context: RefineContext) -> StopReason | None:
    """Why no further round is wanted; None to go on."""
    options = context.options
    newest = context.card(state["candidates"][-1]["round"])
    kept = context.card(state["best"]["round"])
    early = strategy_of(options.strategy).stops_when_satisfied
    if kept.satisfied and early:
        return "satisfied"
    empty = newest.fact_recall is None and _is_empty(state["candidates"][-1], context)
    if newest.fact_recall is None and not empty:
        return "unscored"
    missing = any(
        verdict.state in ("no", "void")
        for verdict in kept.verdicts
        if not is_realism(verdict.fact_id)
    )
    if early and not missing and not empty:
        # Nothing is known to be missing, so there is nothing to repair.
        return "unscored"
    if state["round"] + 1 >= state.get("limit", options.rounds):
        return "satisfied" if kept.satisfied else "rounds"
    if early and state["stale"] >= options.patience:
        return "patience"
    return None


def _is_empty(candidate: Candidate, context: RefineContext) -> bool:
    """Whether nothing is drawn on the picture, so that another one is worth its round."""
    return bool(nothing_drawn(context.images.get(candidate["image"])))


async def _reference(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Compose and draw the reference image (I1) that the round's move wants."""
    graph = _planned(state, runtime.context).reference
    assert graph is not None
    prompt = await compose(graph, await scene_of(state), state["round"], "reference", runtime)
    return {"reference": await draw(prompt, state["round"], "reference", None, runtime)}

"""Node ``plan``: stop, or decide how the next round repairs the best candidate."""

from __future__ import annotations

from dataclasses import replace

from scenewright.core.facts import is_realism
from scenewright.core.images import nothing_drawn
from scenewright.graphs.events import Planned, StopReason
from scenewright.graphs.limits import limit_reached
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.record import Candidate, LoopRecord, plan_key
from scenewright.graphs.round_context import locate_objects, make_round_context
from scenewright.graphs.state import RefineContext, RefineState, emit
from scenewright.graphs.strategies.base import RepairPlan, planned_regions_by_object
from scenewright.graphs.strategies.registry import strategy_of
from scenewright.graphs.strategies.repairs import Resample


async def plan(step: LoopStep) -> RefineState:
    """Stop, or go on with what is missing in the kept candidate.

    A loop that comes here again through its log follows the plan that it has.
    """
    context, round = step.context, step.round + 1
    if step.record.plan(round) is not None:
        return {"round": round}
    edit = step.edit
    # After a review another image is drawn, regardless of the scores.
    reviewed = edit is not None and edit.round == step.round
    if not reviewed and (reason := stop_reason(step)) is not None:
        return {"reason": reason, "limit_reached": ""}
    repair_plan = await choose_repair(step, round)
    # Of proposals at least one is drawn; further ones keep within the limits themselves.
    images = 1 if repair_plan.reference is None else 2
    looks = 1 + bool(repair_plan.places)
    if reached := limit_reached(context, step.scene, images, looks):
        return {"reason": "budget", "limit_reached": reached}
    strategy = context.options.strategy
    emit(
        step.runtime,
        Planned(
            key=plan_key(round),
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
            layout=step.record.layout(step.best(step.round).round)
            if repair_plan.layout is None
            else repair_plan.layout,
        ),
    )
    return {"round": round}


def load_plan(record: LoopRecord, round: int) -> RepairPlan:
    """Return the plan of ``round`` from the record; ``LookupError`` if there is none."""
    event = record.require_plan(round)
    return RepairPlan(
        strategy=event.strategy,
        does=event.does,
        why=event.why,
        reference=event.reference,
        places=event.places,
        work=event.work,
        judge_calls=event.judge_calls,
        layout=event.layout,
    )


async def choose_repair(step: LoopStep, round: int) -> RepairPlan:
    """Return the strategy's next plan; with nothing to repair, another image of the same prompt."""
    context = step.context
    strategy, best = strategy_of(context.options.strategy), step.best(step.round)
    round_context = make_round_context(step.scene, best, round, context)
    if round_context.missing:
        places = planned_regions_by_object(round_context)
        seen = await locate_objects(step.scene, best, places, context)
        round_context = replace(round_context, seen=seen)
    if round_context.missing or not strategy.stops_when_satisfied:
        return strategy.plan_repair(round_context)
    empty = _is_empty(best, context)
    why = "nothing is drawn on the picture" if empty else "nothing is known to be missing"
    return replace(Resample().plan_repair(round_context), why=why)


def stop_reason(step: LoopStep) -> StopReason | None:
    """Return why no further round is wanted; None to go on."""
    context, options, record = step.context, step.context.options, step.record
    best, newest = step.best(step.round), step.record.candidate(step.round)
    judged, kept = record.card(newest.round), record.card(best.round)
    early = strategy_of(options.strategy).stops_when_satisfied
    if kept.satisfied and early:
        return "satisfied"
    empty = judged.fact_recall is None and _is_empty(newest, context)
    if judged.fact_recall is None and not empty:
        return "unscored"
    missing = any(
        verdict.state in ("no", "void")
        for verdict in kept.verdicts
        if not is_realism(verdict.fact_id)
    )
    if early and not missing and not empty:
        # Nothing is known to be missing, so there is nothing to repair.
        return "unscored"
    if step.round + 1 >= most_rounds(step):
        return "satisfied" if kept.satisfied else "rounds"
    since_edit = 0 if step.edit is None else step.edit.round
    if early and step.round - max(best.round, since_edit) >= options.patience:
        return "patience"
    return None


def most_rounds(step: LoopStep) -> int:
    """Return the round before which the loop stops: the options' rounds until the first edit."""
    edit = step.edit
    return step.context.options.rounds if edit is None else edit.round + 1 + edit.rounds


def _is_empty(candidate: Candidate, context: RefineContext) -> bool:
    """Return whether nothing is drawn on the image, so that another one is worth its round."""
    return bool(nothing_drawn(context.images.get(candidate.image)))

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

import asyncio
import contextvars
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from scenewright.facts import missing_graph
from scenewright.graphs.accounts import totals_of
from scenewright.graphs.events import (
    Composed,
    Finished,
    Generated,
    Missing,
    Purpose,
    Step,
    StopReason,
)
from scenewright.graphs.repair import Redrawing, redrawing
from scenewright.graphs.state import (
    Candidate,
    LoopOptions,
    RefineContext,
    RefineState,
    emit,
    facts_for,
    improves,
    round_seed,
    scene_of,
)
from scenewright.graphs.verify import VerifyInput, build_verify
from scenewright.images import ImageStore
from scenewright.scene import SceneGraph
from scenewright.tools.backends.base import (
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
)

_VERIFY = build_verify().compile()

STEP_SECONDS = 0.1
"""Least time between two events about the steps of a drawing; the last step is always told."""


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
    prompt = await _prompt(scene_of(state), None, 0, "candidate", runtime)
    return {"prompt": prompt, "round": 0, "reference": None, "candidates": [], "stale": 0}


async def _generate(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Draw this round's candidate; from round 1 on with the references of Eq. 5."""
    redrawn = None
    if state["round"] > 0 and _uses_references(runtime.context):
        redrawn = _redrawing(state, runtime.context)
    image = await _draw(state["prompt"], state["round"], "candidate", redrawn, runtime)
    candidate = Candidate(round=state["round"], image=image)
    return {"candidates": [*state["candidates"], candidate]}


def _redrawing(state: RefineState, context: RefineContext) -> Redrawing:
    return redrawing(
        context.options,
        context.backend.features,
        context.composer,
        context.images,
        scene=scene_of(state),
        missing=_missing_in_best(state, context),
        best=state["best"]["image"],
        shown=state.get("reference"),
    )


def _missing_in_best(state: RefineState, context: RefineContext) -> SceneGraph:
    scene = scene_of(state)
    facts = facts_for(scene, context.options.protocol)
    return missing_graph(scene, facts, context.card(state["best"]["round"]).verdicts)


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
    reason = _stop(state, runtime, best, stale)
    if reason is None:
        update["round"] = state["round"] + 1
        update["reference"] = None
        return Command(update=update, goto="reference" if _draws_reference(context) else "generate")
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


def _stop(
    state: RefineState, runtime: Runtime[RefineContext], best: Candidate, stale: int
) -> StopReason | None:
    """Why no further round begins; None to go on."""
    context, options = runtime.context, runtime.context.options
    newest = context.card(state["candidates"][-1]["round"])
    kept = context.card(best["round"])
    if kept.satisfied:
        return "satisfied"
    if newest.fact_recall is None:
        return "unscored"
    if not any(verdict.state in ("no", "void") for verdict in kept.verdicts):
        # Nothing is known to be missing, so there is nothing to repair.
        return "unscored"
    if state["round"] + 1 >= options.rounds:
        return "rounds"
    if stale >= options.patience:
        return "patience"
    budget, spent = options.budget, totals_of(context.log.events)
    next_images = 2 if _draws_reference(context) else 1
    over = (
        (budget.images is not None and spent["images"] + next_images > budget.images),
        (budget.seconds is not None and context.log.seconds() >= budget.seconds),
        (budget.tokens is not None and spent["tokens_in"] + spent["tokens_out"] >= budget.tokens),
        (budget.usd is not None and spent["usd"] >= budget.usd),
    )
    return "budget" if any(over) else None


async def _reference(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Compose and draw the reference image (I1): the missing graph of the kept candidate."""
    graph = _missing_in_best(state, runtime.context)
    prompt = await _prompt(graph, scene_of(state), state["round"], "reference", runtime)
    return {"reference": await _draw(prompt, state["round"], "reference", None, runtime)}


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


def _uses_references(context: RefineContext) -> bool:
    return context.options.strategy == "feedback" and context.backend.features.references > 0


def _draws_reference(context: RefineContext) -> bool:
    # With a weight of 0 nothing of it would be seen.
    return _uses_references(context) and context.options.weight_missing != 0


async def _prompt(
    scene: SceneGraph,
    within: SceneGraph | None,
    round: int,
    purpose: Purpose,
    runtime: Runtime[RefineContext],
) -> str:
    context = runtime.context
    key = f"r{round}:{purpose}:composed"
    event = context.log.get(key, Composed)
    if event is None:
        worded = (
            e.prompt
            for e in context.log.events
            if isinstance(e, Composed) and e.graph == scene.digest
        )
        prompt = next(worded, None)
        if prompt is None:
            # The seed of the candidates' prompt: a reference shows a thing where it is to be.
            seed = round_seed(context.options.seed, 0, "candidate")
            prompt = await context.composer.compose(scene, seed, within)
        event = Composed(
            key=key,
            at=context.log.now(),
            round=round,
            purpose=purpose,
            prompt=prompt,
            graph=scene.digest,
        )
        emit(runtime, event)
    return event.prompt


async def _draw(
    prompt: str,
    round: int,
    purpose: Purpose,
    redrawn: Redrawing | None,
    runtime: Runtime[RefineContext],
) -> str:
    """The content hash of the image of this prompt, drawn at most once in a run."""
    context = runtime.context
    key = f"r{round}:{purpose}:generated"
    event = context.log.get(key, Generated)
    if event is not None:
        return event.image
    request = _request(context.options, prompt, round, purpose, redrawn)
    name = request.key(context.backend.fingerprint)
    found = None
    if context.images.noted(name):
        found = await asyncio.to_thread(context.images.recall, name)
    if found is None:
        drawn = await context.backend.generate(
            request, context.images.get, _reporter(round, purpose, runtime)
        )
        # A task cancelled meanwhile still keeps what was paid for.
        keeping = asyncio.create_task(asyncio.to_thread(_keep, context.images, name, drawn, key))
        try:
            found = await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await keeping
            raise
    image, meta = found
    mine = meta.get("origin") == key
    emit(
        runtime,
        Generated(
            key=key,
            at=context.log.now(),
            round=round,
            purpose=purpose,
            image=image,
            request=request,
            seconds=meta["seconds"] if mine else 0.0,
            usd=meta["usd"] if mine else 0.0,
            cached=not mine,
        ),
    )
    return image


def _request(
    options: LoopOptions, prompt: str, round: int, purpose: Purpose, redrawn: Redrawing | None
) -> GenerationRequest:
    redrawn = redrawn or Redrawing(())
    return GenerationRequest(
        prompt=prompt,
        negative_prompt=options.negative_prompt,
        seed=round_seed(options.seed, round, purpose),
        steps=options.steps,
        guidance=options.guidance,
        references=redrawn.references,
        start=redrawn.start,
    )


def _keep(
    images: ImageStore, name: str, drawn: GeneratedImage, origin: str
) -> tuple[str, dict[str, Any]]:
    meta = {
        "seconds": drawn.seconds,
        "usd": drawn.usd,
        "details": dict(drawn.details),
        "origin": origin,
    }
    image = images.put(drawn.image)
    images.remember(name, image, meta)
    return image, meta


def _reporter(
    round: int, purpose: Purpose, runtime: Runtime[RefineContext]
) -> Callable[[GenerationStep], None]:
    loop, home = asyncio.get_running_loop(), threading.get_ident()
    # LangGraph finds its stream through context variables, which no thread inherits.
    node = contextvars.copy_context()
    told = -math.inf

    def report(step: GenerationStep) -> None:
        nonlocal told
        now = time.monotonic()
        if step.step < step.of and now - told < STEP_SECONDS:
            return
        told = now
        event = Step(
            key=f"r{round}:{purpose}:step:{step.step}",
            at=runtime.context.log.now(),
            round=round,
            purpose=purpose,
            step=step.step,
            of=step.of,
        )
        # The stream belongs to the loop's thread; backends draw in their own.
        if threading.get_ident() == home:
            node.run(emit, runtime, event)
        else:
            loop.call_soon_threadsafe(emit, runtime, event, context=node)

    return report

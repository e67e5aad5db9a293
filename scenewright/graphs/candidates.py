"""What every loop does with its candidates: have them judged, look at them, tell the end.

The state machine (``graphs/refine.py``) and the director (``graphs/director.py``) share it, so
that their events, pages and results are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from langgraph.graph import END, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from scenewright.config.options import LoopOptions
from scenewright.core.facts import missing_graph
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Finished,
    Generated,
    Missing,
    Role,
)
from scenewright.graphs.run_status import finished_key, totals_of
from scenewright.graphs.state import Candidate, RefineContext, RefineState, emit
from scenewright.graphs.strategies.base import RoundContext, attempts
from scenewright.graphs.verify import VerifyInput, build_verify

_VERIFY = build_verify().compile()


def make_round_context(
    scene: SceneGraph,
    prompt: str,
    best: Candidate,
    round: int,
    context: RefineContext,
    options: LoopOptions | None = None,
    missing: SceneGraph | None = None,
) -> RoundContext:
    """Return the context a strategy plans ``round`` from, given the judged candidate ``best``.

    ``prompt`` is the prompt of the whole scene. ``options`` and ``missing`` replace the run's own
    options and missing graph.
    """
    options, log = options or context.options, context.log
    facts = options.form.facts(scene)
    card = context.card(best["round"])
    drawn = log.get(f"r{best['round']}:candidate:generated", Generated)
    assert drawn is not None
    steps = options.steps or context.backend.features.default_steps
    most = options.budget.images
    before = (event for event in log.events if getattr(event, "round", -1) < round)
    left = None if most is None else most - int(totals_of(before)["images"])
    return RoundContext(
        round=round,
        scene=scene,
        facts=facts,
        card=card,
        missing=missing or missing_graph(scene, facts, card.verdicts),
        best=best["image"],
        request=drawn.request,
        prompt=prompt,
        options=options,
        backend=context.backend.id,
        features=context.backend.features,
        composer=context.composer,
        images=context.images,
        tried=attempts(log.events, facts, round, steps),
        images_left=left,
        judges=_judges_asked(context),
    )


def _judges_asked(context: RefineContext) -> int:
    """Return how many judges of the loop are asked about a picture that is judged at once."""
    cascade = context.cascade_of("loop")
    return len(context.judges("loop")) if cascade is None else len(cascade.first)


async def judge(
    scene: dict[str, Any],
    candidate: Candidate,
    role: Role,
    context: Any,
    decided: Mapping[str, str] | None = None,
) -> None:
    """Let the judges of ``role`` look at a candidate; ``scene`` is the graph as JSON data.

    ``decided`` are the facts that a person has decided, by id: yes or no.
    """
    await _VERIFY.ainvoke(
        {"scene": scene, **candidate, "role": role, "decided": dict(decided or {})},
        context=context,
    )


def emit_missing(scene: SceneGraph, candidate: Candidate, runtime: Runtime[Any]) -> None:
    """Tell what the judged candidate was not found to hold, if anything."""
    context = runtime.context
    facts = context.options.form.facts(scene)
    missing = missing_graph(scene, facts, context.card(candidate["round"]).verdicts)
    if missing:
        emit(
            runtime,
            Missing(
                key=f"r{candidate['round']}:missing",
                at=context.log.now(),
                round=candidate["round"],
                graph=missing,
            ),
        )


def add_ending(
    graph: StateGraph[RefineState, Any, RefineState, RefineState], then: str = END
) -> None:
    """Add the nodes ``report`` and ``finish`` (see :func:`route_to_report`), then ``then``."""
    graph.add_node("report", _report, input_schema=VerifyInput)
    graph.add_node("finish", _finish, defer=True)
    graph.add_edge("report", "finish")
    graph.add_edge("finish", then)


def route_to_report(state: RefineState, context: RefineContext) -> str | list[Send]:
    """Where a loop goes that is over: its candidates to the judges of the report, if any.

    They look at those of the newest scene that they have not seen yet.
    """
    unseen = [
        candidate
        for candidate in state["candidates"]
        if candidate["round"] >= state.get("since", 0)
        and f"r{candidate['round']}:report:judged" not in context.log
    ]
    if not context.judges("report") or not unseen:
        return "finish"
    return [
        Send(
            "report",
            VerifyInput(
                scene=state["scene"],
                image=candidate["image"],
                round=candidate["round"],
                role="report",
            ),
        )
        for candidate in unseen
    ]


async def _report(state: VerifyInput, runtime: Runtime[RefineContext]) -> RefineState:
    """Let the judges that the loop never saw look at one candidate."""
    await _VERIFY.ainvoke(state, context=runtime.context)
    return {}


async def _finish(state: RefineState, runtime: Runtime[RefineContext]) -> RefineState:
    """Tell the result."""
    context, best = runtime.context, state["best"]
    await asyncio.to_thread(context.log.settle)
    totals = totals_of(context.log.events)
    emit(
        runtime,
        Finished.model_validate(
            {
                "key": finished_key(state),
                "at": context.log.now(),
                "reason": state["reason"],
                "limit": state.get("limit_reached", ""),
                "best_round": best["round"],
                "image": best["image"],
                "loop_card": context.card(best["round"]),
                "report_card": (
                    context.card(best["round"], "report") if context.judges("report") else None
                ),
                "totals": totals | {"seconds": context.log.seconds()},
            }
        ),
    )
    return {}

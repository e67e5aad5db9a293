"""Node ``report``: judges that the loop never saw, and the result."""

from __future__ import annotations

import asyncio

from scenewright.graphs.events import Finished
from scenewright.graphs.judging import judge_candidate, side_by_side
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.record import end_key, totals_of
from scenewright.graphs.state import emit


async def report(step: LoopStep) -> None:
    """Let the judges of the report look at the candidates of the newest scene, and end the run."""
    context, record = step.context, step.record
    reason = step.state["reason"]
    assert reason is not None
    if context.judges("report"):
        asked = record.scene_in_round(step.round)
        since = 0 if asked is None else asked.round
        await side_by_side(
            judge_candidate(step.scene, candidate, "report", step.runtime)
            for candidate in record.candidates
            if since <= candidate.round <= step.round
        )
    kept = step.state.get("kept_round")
    best = step.best(step.round) if kept is None else record.candidate(kept)
    await asyncio.to_thread(context.log.settle)
    emit(
        step.runtime,
        Finished(
            key=end_key(step.state.get("edits", 0)),
            at=context.log.now(),
            reason=reason,
            limit=step.state.get("limit_reached", ""),
            best_round=best.round,
            image=best.image,
            loop_card=record.card(best.round),
            report_card=record.card(best.round, "report") if context.judges("report") else None,
            totals=totals_of(record.events) | {"seconds": context.log.seconds()},
        ),
    )

"""Node ``verify``: the loop's judges answer the facts of the newest candidate."""

from __future__ import annotations

from scenewright.graphs.judging import judge_candidate
from scenewright.graphs.nodes.step import LoopStep


async def verify(step: LoopStep) -> None:
    """Let the loop's judges look at the newest candidate; what a person decided is not asked."""
    correction = step.record.correction(step.round)
    decided = {} if correction is None else correction.verdicts
    candidate = step.record.candidate(step.round)
    await judge_candidate(step.scene, candidate, "loop", step.runtime, decided)

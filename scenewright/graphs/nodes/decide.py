"""Node ``decide``: what the candidate lacks, and whether a person looks before the next plan."""

from __future__ import annotations

from scenewright.graphs.events import Paused
from scenewright.graphs.judging import emit_missing
from scenewright.graphs.nodes.review import pause_key, should_pause
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.state import emit


async def decide(step: LoopStep) -> None:
    """Emit what is missing in the candidate, and pause if a person wants to look."""
    round = step.round
    emit_missing(step.scene, round, step.runtime)
    if should_pause(step.record, step.state, step.context.pause):
        key = pause_key(round)
        emit(step.runtime, Paused(key=key, at=step.context.log.now(), round=round))

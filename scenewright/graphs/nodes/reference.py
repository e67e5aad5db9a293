"""Node ``reference``: the image of what is missing (I1)."""

from __future__ import annotations

from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.nodes.step import LoopStep


async def reference(step: LoopStep) -> None:
    """Compose and draw the reference image (I1) that the round's plan wants."""
    graph = step.record.require_plan(step.round).reference
    assert graph is not None
    prompt = await compose(graph, step.scene, step.round, "reference", step.runtime)
    await draw(prompt, step.round, "reference", None, step.runtime)

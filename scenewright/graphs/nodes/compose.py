"""Node ``compose``: the prompt of the whole scene."""

from __future__ import annotations

from scenewright.graphs.drawing import compose as compose_prompt
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Generated
from scenewright.graphs.limits import unaffordable
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.state import RefineState


async def compose(step: LoopStep) -> RefineState:
    """Write the prompt of the whole scene; all rounds share it until an edit changes the scene.

    Raises ``RunError`` before anything is drawn if the first round does not fit into the limits.
    """
    context = step.context
    if not step.record.all(Generated):
        images = 0 if context.options.start is not None else 1
        reached = unaffordable(context, step.scene, images, 1, step.record.events)
        if reached:
            raise RunError(f"the first round does not fit into its limits: {reached}: raise them")
    await compose_prompt(step.scene, None, step.round, "candidate", step.runtime)
    return {"round": step.round}

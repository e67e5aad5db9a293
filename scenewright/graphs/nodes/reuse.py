"""Node ``reuse``: a picture that is there already begins the round."""

from __future__ import annotations

from scenewright.graphs.drawing import request_of
from scenewright.graphs.events import Generated
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.record import image_key
from scenewright.graphs.state import emit


async def reuse(step: LoopStep) -> None:
    """Take the picture that came with the run, or the one that a person has corrected."""
    context, round = step.context, step.round
    edit = step.record.correction(round)
    base = None if edit is None else step.record.image(edit.base, "candidate")
    if base is not None:
        image, request, changed = base.image, base.request, base.changed
    elif edit is None and context.options.start is not None:
        image, prompt = context.options.start, step.record.prompt(round)
        request = request_of(context.options, prompt, round, "candidate", None)
        changed = None if context.options.mask is None else 0.0
    else:
        raise LookupError(f"no picture for round {round} in the event log")
    emit(
        step.runtime,
        Generated(
            key=image_key(round, "candidate"),
            at=context.log.now(),
            round=round,
            purpose="candidate",
            image=image,
            request=request,
            seconds=0.0,
            cached=True,
            given=edit is None,
            changed=changed,
        ),
    )

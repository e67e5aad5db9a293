"""Drafts of the first picture: several in few steps, judged together, the best one finished.

What stands where in a picture is decided in its first steps, so that a draft shows which facts it
will hold. The loop's judges are asked all facts of a draft at once, only the first ones if there is
a cascade; the candidate itself is judged as any other.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from langgraph.runtime import Runtime

from scenewright.core.ports.backend import GenerationRequest, Start
from scenewright.graphs.drawing import draw_all, planned_boxes, request_of, tell_drawn
from scenewright.graphs.events import Drafted
from scenewright.graphs.state import RefineContext, emit, improves, round_seed, scene_of
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.graphs.verify import costs_of, glance

SHARE = 0.25
"""Steps of a draft, as a share of those of a picture."""
EVENT = "r0:drafted"


async def choose_draft(
    scene: dict[str, Any], prompt: str, runtime: Runtime[RefineContext]
) -> GenerationOverrides | None:
    """Draw and judge the drafts that the options want, and return how the best is finished.

    None without drafts, or where the budget has no room for two of them and a picture.
    """
    context = runtime.context
    options, most = context.options, context.options.budget.images
    count = options.drafts if most is None else min(options.drafts, most - 1)
    if count < 2:
        return None
    wanted = {f"r0:draft:{at}:generated": _request(prompt, at, context) for at in range(count)}
    event = context.log.get(EVENT, Drafted)
    if event is None:
        found = await draw_all(wanted, 0, "draft", runtime)
        images = [
            await tell_drawn(key, request, found[key], 0, "draft", runtime)
            for key, request in wanted.items()
        ]
        event = await _judged(scene, images, runtime)
        emit(runtime, event)
    if options.draft_strength == 1 or not context.backend.features.edit:
        return GenerationOverrides(seed=list(wanted.values())[event.kept].seed)
    start = Start(image=event.images[event.kept], strength=options.draft_strength)
    return GenerationOverrides(start=start)


def _request(prompt: str, at: int, context: RefineContext) -> GenerationRequest:
    options = context.options
    whole = options.steps or context.backend.features.default_steps
    steps = options.draft_steps or max(1, math.ceil(SHARE * whole))
    seed = round_seed(options.seed, at, "draft")
    boxes = planned_boxes(0, "draft", context)
    redrawn = GenerationOverrides(seed=seed, steps=steps)
    return request_of(options, prompt, 0, "draft", redrawn, boxes)


async def _judged(
    scene: dict[str, Any], images: list[str], runtime: Runtime[RefineContext]
) -> Drafted:
    context = runtime.context
    facts = context.options.form.facts(await scene_of({"scene": scene}))
    found = await asyncio.gather(
        *(glance(image, facts, f"r0:draft:{at}", 0, runtime) for at, image in enumerate(images))
    )
    cards = [one.card for one in found]
    kept = 0
    for at, card in enumerate(cards):
        if improves(card, cards[kept], facts):
            kept = at
    return Drafted(
        key=EVENT,
        at=context.log.now(),
        round=0,
        images=tuple(images),
        cards=tuple(cards),
        kept=kept,
        **costs_of(found),
    )

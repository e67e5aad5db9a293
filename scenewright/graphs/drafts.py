"""Drafts of the first picture: several in few steps, judged together, the best one finished.

What stands where in a picture is decided in its first steps, so that a draft shows which facts it
will hold. The loop's judges are asked all facts of a draft at once, only the first ones if there is
a cascade; the candidate itself is judged as any other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from scenewright.agents.panel.panel import void_verdicts
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.ports.backend import GenerationRequest, Start
from scenewright.graphs.drawing import draw_all, planned_boxes, request_of, tell_drawn
from scenewright.graphs.events import Drafted
from scenewright.graphs.state import (
    RefineContext,
    emit,
    improves,
    retries_told,
    round_seed,
    scene_of,
)
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.graphs.verify import JudgeRouter
from scenewright.providers import ask
from scenewright.providers.sdk_clients import identified

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
    facts = context.options.form.facts(scene_of({"scene": scene}))
    found = await asyncio.gather(
        *(_card(at, image, facts, runtime) for at, image in enumerate(images))
    )
    cards = [card for card, _, _ in found]
    kept = 0
    for at, card in enumerate(cards):
        if improves(card, cards[kept], facts):
            kept = at
    answers = [answer for _, mine, _ in found for answer in mine]
    return Drafted(
        key=EVENT,
        at=context.log.now(),
        round=0,
        images=tuple(images),
        cards=tuple(cards),
        kept=kept,
        judge_calls=sum(calls for _, _, calls in found),
        tokens_in=sum(answer.tokens_in for answer in answers),
        tokens_out=sum(answer.tokens_out for answer in answers),
        usd=sum(answer.usd for answer in answers),
    )


async def _card(
    at: int, image: str, facts: Sequence[Fact], runtime: Runtime[RefineContext]
) -> tuple[ScoreCard, list[Answer], int]:
    """Return the card of a draft, the answers behind it and the number of calls."""
    context = runtime.context
    router = JudgeRouter(context, "loop")
    cascade = context.cascade_of("loop") is not None
    tasks = router.tasks(facts, "first" if cascade else None)
    picture = await asyncio.to_thread(context.images.get, image)

    async def answered(judge_id: str, ids: list[str]) -> Any:
        judge = next(one for one in context.judges("loop") if one.id == judge_id)
        wanted = set(ids)
        origin = f"r0:draft:{at}:{judge_id}"
        with identified(context.paid_as(origin)), retries_told(runtime, 0):
            return await ask(
                judge,
                image,
                picture,
                [fact for fact in facts if fact.id in wanted],
                store=context.answers,
                limit=context.judge_timeout,
                origin=origin,
            )

    replies = await asyncio.gather(*(answered(*task) for task in tasks.items()))
    by_judge: dict[str, list[Answer]] = {judge.id: [] for judge in context.judges("loop")}
    for judge_id, reply in zip(tasks, replies, strict=True):
        by_judge[judge_id] = list(reply.answers)
    known: dict[str, Verdict] = {}
    for fact, said in zip(facts, router.verdicts(facts, by_judge, {}, first=cascade), strict=True):
        # All were asked at once: what was said of something that is not there does not count.
        void = void_verdicts([fact], known)
        known[fact.id] = void[0] if void else said
    card = ScoreCard.of(facts, known.values(), context.options.alpha)
    return card, [a for reply in replies for a in reply.answers], sum(not r.cached for r in replies)

"""Composing and drawing as steps of a graph: each is done at most once in a run, whatever kills it.

What the log already tells is taken from there; an image of the same request is taken from the
store. Every graph that draws (``graphs/refine.py``, ``graphs/director.py``) draws through here.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from langgraph.runtime import Runtime

from scenewright.agents.composers.check import dropped_facts
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    PromptCount,
)
from scenewright.core.ports.composer import Wording, compose_with_origin
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Composed, Generated, PartialImage, Purpose, Step
from scenewright.graphs.run_status import scene_in_round, scenes_of
from scenewright.graphs.state import LoopOptions, RefineContext, emit, retries_told, round_seed
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import metered

STEP_SECONDS = 0.1
"""Least time between two events about the steps of a drawing; the last step is always told."""


async def compose(
    scene: SceneGraph,
    within: SceneGraph | None,
    round: int,
    purpose: Purpose,
    runtime: Runtime[RefineContext],
) -> str:
    """Return the prompt of ``scene``, composed once in a run.

    ``within`` is the whole scene if ``scene`` is a part of it.
    """
    context = runtime.context
    key = f"r{round}:{purpose}:composed"
    event = context.log.get(key, Composed)
    if event is None:
        before = (
            Wording(e.prompt, e.author, e.model, problem=e.problem, unsaid=e.unsaid)
            for e in context.log.events
            if isinstance(e, Composed) and e.graph == scene.digest
        )
        told = next(before, None)
        paying = identified(context.paid_as(key))
        with metered() as spent, paying, retries_told(runtime, round):
            if told is None:
                # The seed of the candidates' prompt: a reference shows a thing where it is to be.
                seed = round_seed(context.options.seed, 0, "candidate")
                alone = context.options.reference_prompt == "missing"
                told = await compose_with_origin(
                    context.composer, scene, seed, None if alone else within
                )
        event = Composed(
            key=key,
            at=context.log.now(),
            round=round,
            purpose=purpose,
            prompt=told.prompt,
            graph=scene.digest,
            composer=context.composer.id,
            author=told.author,
            model=told.model,
            problem=told.problem,
            unsaid=told.unsaid,
            tokens_in=spent.usage.tokens_in,
            tokens_out=spent.usage.tokens_out,
            usd=spent.usd,
        )
        emit(runtime, event)
    return event.prompt


async def draw(
    prompt: str,
    round: int,
    purpose: Purpose,
    redrawn: GenerationOverrides | None,
    runtime: Runtime[RefineContext],
) -> str:
    """Return the content hash of the image of this prompt, drawn at most once in a run."""
    context = runtime.context
    key = f"r{round}:{purpose}:generated"
    event = context.log.get(key, Generated)
    if event is not None:
        return event.image
    request = request_of(context.options, prompt, round, purpose, redrawn)
    name = request.key(context.backend.fingerprint)
    found = None
    if context.images.noted(name):
        found = await asyncio.to_thread(context.images.recall, name)
    if found is None:
        with identified(context.paid_as(key)), retries_told(runtime, round):
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
    count = stored_prompt_count(meta)
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
            steps=meta.get("steps"),
            **(await asyncio.to_thread(_told_of, count, request.prompt, round, context)),
        ),
    )
    return image


def _told_of(
    count: PromptCount | None, prompt: str, round: int, context: RefineContext
) -> dict[str, Any]:
    """Return the fields of a picture's event that describe how its prompt was read."""
    if count is None:
        return {}
    dropped: tuple[str, ...] = ()
    events = context.log.events
    written = (e for e in events if isinstance(e, Composed) and e.prompt == prompt)
    unsaid = next((event.unsaid for event in written), ())
    scenes = scenes_of(events) if count.dropped or unsaid else ()
    if scenes:
        asked = scene_in_round(scenes, round)
        dropped = dropped_facts(asked.scene, asked.facts, prompt, count.read, unsaid)
    return {
        "prompt_tokens": count.tokens,
        "tokens_dropped": count.dropped,
        "facts_dropped": dropped,
        "estimated": count.estimated,
    }


def stored_metadata(drawn: GeneratedImage) -> dict[str, Any]:
    """Return the stored record of a picture's prompt and steps.

    :func:`stored_prompt_count` reads it back.
    """
    count = None if drawn.count is None else asdict(drawn.count)
    return {"prompt": drawn.prompt, "count": count, "steps": drawn.steps}


def stored_prompt_count(meta: Mapping[str, Any]) -> PromptCount | None:
    """How the prompt of a picture in a store was read; None if that was not noted."""
    count = meta.get("count")
    return PromptCount(**count) if isinstance(count, dict) else None


def request_of(
    options: LoopOptions,
    prompt: str,
    round: int,
    purpose: Purpose,
    redrawn: GenerationOverrides | None,
) -> GenerationRequest:
    """Return the request of an image: ``prompt`` unless ``redrawn`` has another one."""
    redrawn = redrawn or GenerationOverrides()
    seed = redrawn.seed
    if seed is None:
        kept = options.noise == "same" and purpose == "candidate" and redrawn.refines
        seed = round_seed(options.seed, 0 if kept else round, purpose)
    return GenerationRequest(
        prompt=redrawn.prompt or prompt,
        negative_prompt=options.negative_prompt,
        seed=seed,
        width=options.width,
        height=options.height,
        steps=options.steps,
        guidance=options.guidance,
        references=redrawn.references,
        start=redrawn.start,
        emphasis=redrawn.emphasis,
    )


def _keep(
    images: ImageStore, name: str, drawn: GeneratedImage, origin: str
) -> tuple[str, dict[str, Any]]:
    meta = {
        "seconds": drawn.seconds,
        "usd": drawn.usd,
        **stored_metadata(drawn),
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
        if not step.preview and step.step < step.of and now - told < STEP_SECONDS:
            return
        told = now
        about: dict[str, Any] = {
            "at": runtime.context.log.now(),
            "round": round,
            "purpose": purpose,
            "step": step.step,
            "of": step.of,
        }
        tell(Step(key=f"r{round}:{purpose}:step:{step.step}", **about))
        if step.preview:
            image = f"data:image/webp;base64,{base64.b64encode(step.preview).decode('ascii')}"
            key = f"r{round}:{purpose}:partial_image:{step.step}"
            tell(PartialImage(key=key, image=image, **about))

    def tell(event: Step | PartialImage) -> None:
        # The stream belongs to the loop's thread; backends draw in their own.
        if threading.get_ident() == home:
            node.run(emit, runtime, event)
        else:
            loop.call_soon_threadsafe(emit, runtime, event, context=node)

    return report

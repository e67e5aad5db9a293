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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from langgraph.runtime import Runtime
from PIL import Image

from scenewright.agents.composers.check import changes_of, compared, dropped_facts, without_excluded
from scenewright.config.options import LoopOptions
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region, keep_outside
from scenewright.core.ports import MAX_PROMPT
from scenewright.core.ports.backend import (
    BatchingBackend,
    Box,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    PromptCount,
    StepListener,
)
from scenewright.core.ports.composer import (
    Composer,
    ComposerError,
    PlacingComposer,
    Wording,
    compose_with_origin,
)
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Composed,
    Generated,
    PartialImage,
    Purpose,
    Step,
)
from scenewright.graphs.record import image_key, prompt_key
from scenewright.graphs.state import RefineContext, emit, emit_retries, round_seed
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.providers.sdk_clients import paying
from scenewright.providers.usage import metered

Stored = tuple[str, dict[str, Any]]
"""A picture in the store: its content hash, and the record of its drawing."""
STEP_SECONDS = 0.1
"""Least time between two events about the steps of a drawing; the last step is always told."""


async def compose(
    scene: SceneGraph,
    within: SceneGraph | None,
    round: int,
    purpose: Purpose,
    runtime: Runtime[RefineContext],
    parts: tuple[int, ...] = (),
    places: Mapping[str, Region] | None = None,
) -> str:
    """Return the prompt of ``scene``, composed once in a run.

    ``within`` is the whole scene if ``scene`` is a part of it; ``parts`` distinguish several
    prompts of a round for one purpose. ``places`` says where its objects are in the picture that is
    drawn.
    """
    context = runtime.context
    key = prompt_key(round, purpose, *parts)
    event = context.record.get(key, Composed)
    if event is None:
        layout = context.record.layout(round)
        # A prompt that says places of its own is no other picture's.
        own = places is not None and isinstance(context.composer, PlacingComposer)
        before = (
            Wording(e.prompt, e.author, e.model, problem=e.problem, unsaid=e.unsaid)
            for e in context.record.all(Composed)
            if e.graph == scene.digest and e.layout == layout
        )
        wording = None if own else next(before, None)
        step = paying(context.nonce, key)
        with metered() as spent, step, emit_retries(runtime, round):
            if wording is None:
                # The seed of the candidates' prompt: a reference shows a thing where it is to be.
                seed = round_seed(context.options.seed, layout, "candidate")
                alone = context.options.reference_prompt == "missing" and not own
                wording = await compose_with_origin(
                    context.composer, scene, seed, None if alone else within, places
                )
        prompt = without_excluded(wording.prompt, scene, context.backend.features.negative_prompt)
        negative = context.options.negative_prompt
        # A part of a scene says a part of its sentence: nothing of the others is lost.
        of = compared(scene.sentence, prompt, negative)
        changes = changes_of(scene, prompt, negative) if within is None else of
        event = Composed(
            key=key,
            at=context.log.now(),
            round=round,
            purpose=purpose,
            prompt=prompt,
            lost=changes.lost,
            added=changes.added,
            graph="" if own else scene.digest,
            composer=context.composer.id,
            author=wording.author,
            model=wording.model,
            problem=wording.problem,
            unsaid=wording.unsaid,
            layout=layout,
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
    ahead: int = 0,
) -> str:
    """Return the content hash of the image of this prompt, drawn at most once in a run.

    With ``ahead`` the candidates of as many later rounds, which differ in the seed alone, are drawn
    in one batch with it, where the backend can: they are found when their round comes.
    """
    context = runtime.context
    key = image_key(round, purpose)
    event = context.record.image(round, purpose)
    if event is not None:
        return event.image
    boxes = planned_boxes(round, purpose, context)
    request = request_of(context.options, prompt, round, purpose, redrawn, boxes)
    wanted = {key: request}
    # What was drawn ahead before is found.
    if ahead and not context.images.noted(request.key(context.backend.fingerprint)):
        wanted |= {
            image_key(later, purpose): request_of(
                context.options, prompt, later, purpose, redrawn, boxes
            )
            for later in range(round + 1, round + 1 + ahead)
        }
    found = await draw_all(wanted, round, purpose, runtime)
    return await emit_generated(key, request, found[key], round, purpose, runtime)


async def draw_all(
    wanted: Mapping[str, GenerationRequest],
    round: int,
    purpose: Purpose,
    runtime: Runtime[RefineContext],
) -> dict[str, Stored]:
    """Return the pictures of ``wanted``, drawing and storing those that the store does not have.

    They are named by the keys of their events; :func:`emit_generated` emits each.
    """
    context = runtime.context
    store, named = context.images, context.backend.fingerprint

    def recalled() -> dict[str, Stored]:
        known = ((key, store.recall(one.key(named))) for key, one in wanted.items())
        return {key: stored for key, stored in known if stored is not None}

    found: dict[str, Stored] = {}
    if any(store.noted(one.key(named)) for one in wanted.values()):
        found = await asyncio.to_thread(recalled)
    missing = {key: one for key, one in wanted.items() if key not in found}
    if not missing:
        return found
    with paying(context.nonce, next(iter(missing))), emit_retries(runtime, round):
        drawn = await _draw_batch(
            list(missing.values()), context, _reporter(round, purpose, runtime)
        )
    failed = [one for one in drawn if isinstance(one, BaseException)]
    paid = {
        key: (request, one)
        for (key, request), one in zip(missing.items(), drawn, strict=True)
        if not isinstance(one, BaseException)
    }
    # A task cancelled meanwhile still keeps what was paid for.
    keeping = asyncio.create_task(asyncio.to_thread(_keep_all, context, purpose, paid))
    try:
        found |= await asyncio.shield(keeping)
    except asyncio.CancelledError:
        await keeping
        raise
    if failed:
        raise failed[0]
    return found


async def emit_generated(
    key: str,
    request: GenerationRequest,
    found: Stored,
    round: int,
    purpose: Purpose,
    runtime: Runtime[RefineContext],
) -> str:
    """Emit the event ``key`` of the stored picture ``found``, and return its content hash."""
    context = runtime.context
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
            work=meta.get("work"),
            changed=meta.get("changed"),
            **(await asyncio.to_thread(prompt_token_fields, count, request.prompt, round, context)),
        ),
    )
    return image


def prompt_token_fields(
    count: PromptCount | None, prompt: str, round: int, context: RefineContext
) -> dict[str, Any]:
    """Return the fields of a picture's event that describe how its prompt was read."""
    if count is None:
        return {}
    dropped: tuple[str, ...] = ()
    written = (event for event in context.record.all(Composed) if event.prompt == prompt)
    unsaid = next((event.unsaid for event in written), ())
    asked = context.record.scene_in_round(round)
    if asked is not None and (count.dropped or unsaid):
        dropped = dropped_facts(asked.scene, asked.facts, prompt, count.read, unsaid)
    return {
        "prompt_tokens": count.tokens,
        "tokens_dropped": count.dropped,
        "facts_dropped": dropped,
        "estimated": count.estimated,
    }


def stored_metadata(drawn: GeneratedImage) -> dict[str, Any]:
    """Return the stored record of a picture's prompt, steps and work.

    :func:`stored_prompt_count` reads it back.
    """
    count = None if drawn.count is None else asdict(drawn.count)
    return {"prompt": drawn.prompt, "count": count, "steps": drawn.steps, "work": drawn.work}


def stored_prompt_count(meta: Mapping[str, Any]) -> PromptCount | None:
    """Return how the prompt of a stored picture was read; None if that was not noted."""
    count = meta.get("count")
    return PromptCount(**count) if isinstance(count, dict) else None


def boxes_of(
    composer: Composer, scene: SceneGraph, seed: int, within: SceneGraph | None = None
) -> tuple[Box, ...]:
    """Return the composer's places of the things of ``scene``, for a backend that takes boxes.

    The arguments are those of :meth:`Composer.compose`; empty for composers that plan no places.
    """
    places = composer.places(within or scene, seed)
    return tuple(
        Box(name=item.name, phrase=noun_phrase(item), region=places[item.id])
        for item in scene.objects
        if item.id in places
    )


def planned_boxes(round: int, purpose: Purpose, context: RefineContext) -> tuple[Box, ...]:
    """Return the places of what is drawn in ``round``: the scene, or the round's missing graph.

    Empty if the backend takes no boxes.
    """
    if not context.backend.features.boxes:
        return ()
    asked = context.record.scene_in_round(round)
    shown = whole = None if asked is None else asked.scene
    if purpose == "reference":
        plan = context.record.plan(round)
        shown = None if plan is None else plan.reference
        whole = None if context.options.reference_prompt == "missing" else whole
    if shown is None:
        return ()
    # The seed of the candidates' prompt, as in compose().
    seed = round_seed(context.options.seed, context.record.layout(round), "candidate")
    return boxes_of(context.composer, shown, seed, whole)


def request_of(
    options: LoopOptions,
    prompt: str,
    round: int,
    purpose: Purpose,
    redrawn: GenerationOverrides | None,
    boxes: tuple[Box, ...] = (),
) -> GenerationRequest:
    """Return the request of an image: ``prompt`` unless ``redrawn`` has another one.

    An edit by instruction leaves out the ``boxes`` of the whole scene: what is there would be added
    once more.
    """
    redrawn = redrawn or GenerationOverrides()
    seed = redrawn.seed
    if seed is None:
        kept = options.noise == "same" and purpose == "candidate" and redrawn.refines
        seed = round_seed(options.seed, 0 if kept else round, purpose)
    prompt = redrawn.prompt or prompt
    if len(prompt) > MAX_PROMPT:
        raise ComposerError(
            f"the prompt has {len(prompt)} characters, the limit is {MAX_PROMPT}: split the scene"
        )
    return GenerationRequest(
        prompt=prompt,
        negative_prompt=options.negative_prompt,
        seed=seed,
        width=options.width,
        height=options.height,
        steps=options.steps,
        guidance=options.guidance,
        references=redrawn.references,
        start=redrawn.start,
        boxes=() if redrawn.start is not None and redrawn.start.instruct else boxes,
    )


async def _draw_batch(
    requests: Sequence[GenerationRequest],
    context: RefineContext,
    on_step: Callable[[GenerationStep], None],
) -> Sequence[GeneratedImage | BaseException]:
    """Draw ``requests`` in one batch, or side by side: then one may fail and others not."""
    backend, load = context.backend, context.images.get
    if len(requests) == 1:
        return [await backend.generate(requests[0], load, on_step)]
    if isinstance(backend, BatchingBackend):
        return await backend.generate_many(requests, load, on_step)
    drawing = (backend.generate(request, load, on_step) for request in requests)
    return await asyncio.gather(*drawing, return_exceptions=True)


def _keep_all(
    context: RefineContext,
    purpose: Purpose,
    drawn: Mapping[str, tuple[GenerationRequest, GeneratedImage]],
) -> dict[str, Stored]:
    """Store every picture by its request, as drawn for the event of its key."""
    images, fingerprint = context.images, context.backend.fingerprint
    found = {}
    for key, (request, one) in drawn.items():
        own: dict[str, Any] = {}
        # A picture of what is missing is no picture of the scene.
        if purpose != "reference":
            image, changed = within_mask_of_run(one.image, context)
            one, own = replace(one, image=image), {"changed": changed}
        found[key] = _keep(images, request.key(fingerprint), one, key, own)
    return found


def within_mask_of_run(
    drawn: Image.Image, context: RefineContext
) -> tuple[Image.Image, float | None]:
    """Return ``drawn`` with the pixels of the picture that the run began with outside its mask.

    Also returns the share of all pixels that differ from that. Models redraw cells of latents, or
    all of what they are sent, and a strategy may begin with pictures pasted anywhere. Without a
    mask it is ``drawn`` itself, and no share.
    """
    start, mask, images = context.options.start, context.options.mask, context.images
    if start is None or mask is None:
        return drawn, None
    kept, share = keep_outside(drawn, images.get(start), images.get(mask))
    return kept, round(share, 6)


def _keep(
    images: ImageStore, name: str, drawn: GeneratedImage, origin: str, own: Mapping[str, Any]
) -> Stored:
    meta = {
        **own,
        "seconds": drawn.seconds,
        "usd": drawn.usd,
        **stored_metadata(drawn),
        "details": dict(drawn.details),
        "origin": origin,
    }
    image = images.put(drawn.image)
    images.remember(name, image, meta)
    return image, meta


def _reporter(round: int, purpose: Purpose, runtime: Runtime[RefineContext]) -> StepListener:
    loop, home = asyncio.get_running_loop(), threading.get_ident()
    # LangGraph finds its stream through context variables, which no thread inherits.
    node = contextvars.copy_context()
    reported = -math.inf

    def report(step: GenerationStep) -> None:
        nonlocal reported
        now = time.monotonic()
        if not step.preview and step.step < step.of and now - reported < STEP_SECONDS:
            return
        reported = now
        about: dict[str, Any] = {
            "at": runtime.context.log.now(),
            "round": round,
            "purpose": purpose,
            "step": step.step,
            "of": step.of,
        }
        send(Step(key=f"r{round}:{purpose}:step:{step.step}", **about))
        if step.preview:
            image = f"data:image/webp;base64,{base64.b64encode(step.preview).decode('ascii')}"
            key = f"r{round}:{purpose}:partial_image:{step.step}"
            send(PartialImage(key=key, image=image, **about))

    def send(event: Step | PartialImage) -> None:
        # The stream belongs to the loop's thread; backends draw in their own.
        if threading.get_ident() == home:
            node.run(emit, runtime, event)
        else:
            loop.call_soon_threadsafe(emit, runtime, event, context=node)

    return StepListener(report, runtime.context.watched)

"""From runs that stand still to pictures in OpenAI's format.

Rounds as partial images: the server-sent events of a streamed request.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal
from urllib.parse import urlencode

from sse_starlette import ServerSentEvent

from scenewright.service.compat.openai_images.asking import AcceptedRequest, with_current_runs
from scenewright.service.compat.openai_images.bodies import (
    ImageData,
    ImagesReply,
    ReplyNotes,
    SizeNote,
    summed,
    usage_of,
)
from scenewright.service.compat.openai_images.errors import body_of
from scenewright.service.core.errors import ServiceError
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import (
    Outcome,
    cancel_run,
    check_still,
    no_picture,
    outcome_of,
)
from scenewright.service.core.pictures import picture_file
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run

log = logging.getLogger(__name__)


async def outcomes_of(
    service: Service, asked: AcceptedRequest, base_url: str
) -> tuple[Outcome, ...]:
    """Return the outcomes of the runs, those without a picture last.

    Raises ``RunFailed`` if none has a picture.
    """
    found = [await outcome_of(service, run, base_url) for run in asked.runs]
    if all(outcome.image is None for outcome in found):
        raise no_picture(found)
    return tuple(sorted(found, key=lambda outcome: outcome.image is None))


async def reply_of(service: Service, asked: AcceptedRequest, base_url: str) -> ImagesReply:
    """Return the pictures of ``asked``, whose runs stand still."""
    outcomes = await outcomes_of(service, asked, base_url)
    data: list[ImageData] = []
    notes: list[SizeNote] = []
    for outcome in outcomes:
        if outcome.image is None:
            continue
        content, note = await sent_file(service, asked, outcome.id, outcome.image.hash)
        notes.append(note)
        shown = ImageData(revised_prompt=outcome.prompt)
        if asked.body.response_format == "url":
            shown.url = _address(asked, outcome, note, base_url)
        else:
            shown.b64_json = content
        data.append(shown)
    return ImagesReply(
        created=int(time.time()),
        data=tuple(data),
        output_format=asked.body.file_format,
        size=notes[0].sent,
        usage=usage_of(summed(outcomes)),
        scenewright=reply_notes(asked, outcomes, notes[0]),
    )


def reply_notes(
    asked: AcceptedRequest, outcomes: Sequence[Outcome], size: SizeNote | None
) -> ReplyNotes:
    """Return the reply's own field."""
    return ReplyNotes(model=asked.model, size=size, start=asked.start, runs=tuple(outcomes))


async def sent_file(
    service: Service, asked: AcceptedRequest, run: str, image: str
) -> tuple[str, SizeNote]:
    """Return the file of a run's picture as it is sent, in base64, and how its size came about."""
    path = await service.artifacts.image(run, image)
    # All pictures of a request go on from one.
    kept = await service.kept_of(asked.runs[0])

    def made() -> tuple[str, SizeNote]:
        body = asked.body
        data, size, own = picture_file(
            path, body.file_format, compression=body.compression, size=asked.size, kept=kept
        )
        note = SizeNote(sent=_words(size), drawn=_words(own), scaled=size != own)
        return base64.b64encode(data).decode(), note

    return await asyncio.to_thread(made)


def _address(asked: AcceptedRequest, outcome: Outcome, note: SizeNote, base_url: str) -> str:
    assert outcome.image is not None
    body = asked.body
    if body.file_format == "png" and not note.scaled:
        return outcome.image.url
    wanted: dict[str, str] = {"format": body.file_format, "compression": str(body.compression)}
    if note.scaled:
        wanted["size"] = note.sent
    place = f"{base_url.rstrip('/')}/v1/images/files/{outcome.id}/{outcome.image.hash}"
    return f"{place}?{urlencode(wanted)}"


def _words(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


Kind = Literal["image_generation", "image_edit"]
"""Prefix of the types of the events."""
_QUALITIES = ("low", "medium", "high", "xhigh", "max", "auto")


class Broken(ServiceError):
    """An error of the service itself in the middle of a stream."""

    status = 500


_LEAVING: set[asyncio.Task[None]] = set()
"""Cancellations under way: their clients have left, and nobody else holds them."""


async def events_of(
    service: Service, identity: Identity, asked: AcceptedRequest, kind: Kind, base_url: str
) -> AsyncGenerator[ServerSentEvent, None]:
    """Partial images as candidates are drawn, and each run's picture once it stands still."""
    told: asyncio.Queue[ServerSentEvent | None] = asyncio.Queue()
    watching = [
        asyncio.create_task(_watch(service, identity, asked, run, kind, base_url, told))
        for run in asked.runs
    ]
    whole = False
    try:
        left = len(watching)
        while left:
            event = await told.get()
            if event is None:
                left -= 1
            else:
                yield event
        whole = True
    finally:
        for task in watching:
            task.cancel()
        if not whole and asked.body.scenewright.cancel_on_disconnect:
            for run in asked.runs:
                leaving = asyncio.create_task(cancel_run(service, identity, run))
                _LEAVING.add(leaving)
                leaving.add_done_callback(_LEAVING.discard)


async def _watch(
    service: Service,
    identity: Identity,
    asked: AcceptedRequest,
    run: Run,
    kind: Kind,
    base_url: str,
    told: asyncio.Queue[ServerSentEvent | None],
) -> None:
    """Tell of one run; none at its end, whatever happens."""
    shown, most = 0, asked.body.partial_images or 0
    try:
        async with aclosing(service.follow(identity, run)) as happened:
            async for one in happened:
                if one is None or one.kind != "generated" or shown >= most:
                    continue
                event = json.loads(one.data)
                # The picture that the client sent itself is no news.
                if event["purpose"] != "candidate" or event["given"]:
                    continue
                content, size = await sent_file(service, asked, run.id, event["image"])
                await told.put(
                    _event(
                        f"{kind}.partial_image",
                        asked,
                        content,
                        size,
                        partial_image_index=shown,
                        scenewright={"run": run.id, "round": event["round"]},
                    )
                )
                shown += 1
        await told.put(await _completed(service, identity, asked, run, kind, base_url))
    except ServiceError as error:
        error.detail = service.disclosure.text(error)
        await told.put(_error(error))
    except Exception:
        # The reply has begun: no other handler can tell the client any more.
        log.exception("the stream of run %s broke", run.id)
        await told.put(_error(Broken(f"something went wrong here; the run goes on: {run.id}")))
    finally:
        told.put_nowait(None)


def _error(error: ServiceError) -> ServerSentEvent:
    body = {"type": "error", **body_of(error)[1]}
    return ServerSentEvent(json.dumps(body), event="error")


async def _completed(
    service: Service,
    identity: Identity,
    asked: AcceptedRequest,
    run: Run,
    kind: Kind,
    base_url: str,
) -> ServerSentEvent:
    run = await service.run(identity, run.id)
    check_still([run])
    mine = with_current_runs(asked, [run])
    outcomes = await outcomes_of(service, mine, base_url)
    image = outcomes[0].image
    assert image is not None
    content, size = await sent_file(service, asked, run.id, image.hash)
    return _event(
        f"{kind}.completed",
        asked,
        content,
        size,
        usage=usage_of(summed(outcomes)).model_dump(mode="json"),
        scenewright=reply_notes(mine, outcomes, size).model_dump(mode="json"),
    )


def _event(
    kind: str, asked: AcceptedRequest, content: str, size: SizeNote, **more: Any
) -> ServerSentEvent:
    body = asked.body
    data = {
        "type": kind,
        "b64_json": content,
        "created_at": int(time.time()),
        "background": "opaque",
        "output_format": body.file_format,
        "quality": body.quality if body.quality in _QUALITIES else "auto",
        "size": size.sent,
        **more,
    }
    return ServerSentEvent(json.dumps(data), event=kind)

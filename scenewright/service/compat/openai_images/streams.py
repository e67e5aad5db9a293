"""Rounds as partial images: the server-sent events of a streamed request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from sse_starlette import ServerSentEvent

from scenewright.service.compat.openai_images.asking import AcceptedRequest, with_runs
from scenewright.service.compat.openai_images.bodies import SizeNote, summed, usage_of
from scenewright.service.compat.openai_images.errors import body_of
from scenewright.service.compat.openai_images.replies import outcomes_of, reply_notes, sent_file
from scenewright.service.core.errors import ServiceError
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import check_still, give_up
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run

Kind = Literal["image_generation", "image_edit"]
"""What the types of the events begin with."""
_QUALITIES = ("low", "medium", "high", "xhigh", "max", "auto")
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
                leaving = asyncio.create_task(give_up(service, identity, run))
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
        body = {"type": "error", **body_of(error)[1]}
        await told.put(ServerSentEvent(json.dumps(body), event="error"))
    finally:
        told.put_nowait(None)


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
    mine = with_runs(asked, [run])
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

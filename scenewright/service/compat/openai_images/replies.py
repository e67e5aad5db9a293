"""From runs to pictures in OpenAI's format: at their end, or round by round in a stream."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode

from sse_starlette import ServerSentEvent

from scenewright.service.compat.adapter import (
    AcceptedRequest,
    Outcome,
    cancel_run,
    check_still,
    encoded_picture,
    size_words,
)
from scenewright.service.compat.openai_images.bodies import (
    GenerationBody,
    ImageData,
    ImagesReply,
    ModelNote,
    ReplyNotes,
    SizeNote,
    usage_of,
)
from scenewright.service.compat.openai_images.errors import body_of
from scenewright.service.core.errors import Fault, ServiceError
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run

log = logging.getLogger(__name__)

Kind = Literal["image_generation", "image_edit"]
"""Prefix of the types of the events."""
_QUALITIES = ("low", "medium", "high", "xhigh", "max", "auto")
_LEAVING: set[asyncio.Task[None]] = set()
"""Cancellations under way: their clients have left, and nobody else holds them."""


@dataclass(frozen=True, slots=True)
class ImagesReplies:
    """Replies to one request."""

    service: Service
    """The core."""
    identity: Identity
    """The caller."""
    asked: AcceptedRequest[GenerationBody]
    """The request."""
    base_url: str
    """The caller's address of the service."""

    async def whole(self) -> ImagesReply:
        """Return the pictures once all runs stand still."""
        asked = await self.asked.ended(self.service, self.identity)
        outcomes = await asked.outcomes(self.service, self.base_url)
        body = asked.body
        data: list[ImageData] = []
        notes: list[SizeNote] = []
        for outcome in outcomes:
            if outcome.image is None:
                continue
            image, shown = outcome.image, ImageData(revised_prompt=outcome.prompt)
            content, note = await self._file(outcome.id, image.hash)
            if body.response_format != "url":
                shown.b64_json = content
            elif body.file_format == "png" and not note.scaled:
                shown.url = image.url
            else:
                wanted = {"format": body.file_format, "compression": str(body.compression)}
                if note.scaled:
                    wanted["size"] = note.sent
                place = f"{self.base_url.rstrip('/')}/v1/images/files/{outcome.id}/{image.hash}"
                shown.url = f"{place}?{urlencode(wanted)}"
            notes.append(note)
            data.append(shown)
        return ImagesReply(
            created=int(time.time()),
            data=tuple(data),
            output_format=body.file_format,
            size=notes[0].sent,
            usage=usage_of(outcomes),
            scenewright=self._notes(outcomes, notes[0]),
        )

    async def events(self, kind: Kind) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield partial images as candidates are drawn, and each run's picture at its end."""
        told: asyncio.Queue[ServerSentEvent | None] = asyncio.Queue()
        runs = self.asked.runs
        watching = [asyncio.create_task(self._watch(run, kind, told)) for run in runs]
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
            if not whole and self.asked.body.scenewright.cancel_on_disconnect:
                for run in runs:
                    leaving = asyncio.create_task(cancel_run(self.service, self.identity, run))
                    _LEAVING.add(leaving)
                    leaving.add_done_callback(_LEAVING.discard)

    async def _watch(
        self, run: Run, kind: Kind, told: asyncio.Queue[ServerSentEvent | None]
    ) -> None:
        """Tell of one run; none at its end, whatever happens."""
        service, identity, shown = self.service, self.identity, 0
        error: ServiceError | None = None
        try:
            async with aclosing(service.follow(identity, run)) as happened:
                async for one in happened:
                    if one is None or one.kind != "generated":
                        continue
                    event = json.loads(one.data)
                    # The picture that the client sent itself is no news.
                    new = event["purpose"] == "candidate" and not event["given"]
                    if new and shown < (self.asked.body.partial_images or 0):
                        about = {"run": run.id, "round": event["round"]}
                        await told.put(
                            await self._event(
                                f"{kind}.partial_image",
                                run.id,
                                event["image"],
                                {"partial_image_index": shown, "scenewright": about},
                            )
                        )
                        shown += 1
            run = await service.run(identity, run.id)
            check_still([run])
            outcomes = await replace(self.asked, runs=(run,)).outcomes(service, self.base_url)
            image = outcomes[0].image
            assert image is not None
            about = {"usage": usage_of(outcomes).model_dump(mode="json")}
            await told.put(
                await self._event(f"{kind}.completed", run.id, image.hash, about, outcomes)
            )
        except ServiceError as found:
            error = found
            error.detail = service.disclosure.text(error)
        except Exception:
            # The reply has begun: no other handler can tell the client any more.
            log.exception("the stream of run %s broke", run.id)
            error = Fault(f"something went wrong here; the run goes on: {run.id}")
        finally:
            if error is not None:
                body = {"type": "error", **body_of(error)[1]}
                told.put_nowait(ServerSentEvent(json.dumps(body), event="error"))
            told.put_nowait(None)

    async def _event(
        self,
        kind: str,
        run: str,
        image: str,
        about: dict[str, Any],
        outcomes: Sequence[Outcome] = (),
    ) -> ServerSentEvent:
        """Return the event of a picture; ``outcomes``: of a run that has ended."""
        body = self.asked.body
        content, size = await self._file(run, image)
        data = {
            "type": kind,
            "b64_json": content,
            "created_at": int(time.time()),
            "background": "opaque",
            "output_format": body.file_format,
            "quality": body.quality if body.quality in _QUALITIES else "auto",
            "size": size.sent,
            **about,
        }
        if outcomes:
            data["scenewright"] = self._notes(outcomes, size).model_dump(mode="json")
        return ServerSentEvent(json.dumps(data), event=kind)

    async def _file(self, run: str, image: str) -> tuple[str, SizeNote]:
        """Return a run's picture as it is sent, in base64, and how its size came about."""
        asked, body = self.asked, self.asked.body
        content, size, own = await encoded_picture(
            self.service,
            run,
            image,
            body.file_format,
            compression=body.compression,
            # All pictures of a request go on from one.
            size=asked.size,
            kept=await self.service.kept_of(asked.runs[0]),
        )
        note = SizeNote(sent=size_words(size), drawn=size_words(own), scaled=size != own)
        return content, note

    def _notes(self, outcomes: Sequence[Outcome], size: SizeNote) -> ReplyNotes:
        body, request = self.asked.body, self.asked.request
        profile = request.profile or ""
        known = body.scenewright.profile is not None or body.model == profile
        return ReplyNotes(
            model=ModelNote(asked=body.model, profile=profile, known=known),
            size=size,
            start=request.start,
            runs=tuple(outcomes),
        )

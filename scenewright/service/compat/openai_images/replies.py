"""From runs that stand still to pictures in OpenAI's format."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from urllib.parse import urlencode

from scenewright.service.compat.openai_images.asking import AcceptedRequest
from scenewright.service.compat.openai_images.bodies import (
    ImageData,
    ImagesReply,
    ReplyNotes,
    SizeNote,
    summed,
    usage_of,
)
from scenewright.service.core.outcomes import Outcome, no_picture, outcome_of
from scenewright.service.core.picture_files import picture_file
from scenewright.service.core.service import Service


async def outcomes_of(
    service: Service, asked: AcceptedRequest, base_url: str
) -> tuple[Outcome, ...]:
    """What has come of the runs, those without a picture last.

    Raises ``RunFailed`` if none has a picture.
    """
    found = [await outcome_of(service, run, base_url) for run in asked.runs]
    if all(outcome.image is None for outcome in found):
        raise no_picture(found)
    return tuple(sorted(found, key=lambda outcome: outcome.image is None))


async def reply_of(service: Service, asked: AcceptedRequest, base_url: str) -> ImagesReply:
    """The pictures of ``asked``, whose runs stand still."""
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
    """The reply's own field."""
    return ReplyNotes(model=asked.model, size=size, start=asked.start, runs=tuple(outcomes))


async def sent_file(
    service: Service, asked: AcceptedRequest, run: str, image: str
) -> tuple[str, SizeNote]:
    """The file of a run's picture as it is sent, in base64, and how its size came about."""
    path = await service.artifacts.image(run, image)

    def made() -> tuple[str, SizeNote]:
        body = asked.body
        data, size, own = picture_file(
            path, body.file_format, compression=body.compression, size=asked.size
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

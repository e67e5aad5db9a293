"""``POST /v1/images/generations`` and ``POST /v1/images/edits``."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from sse_starlette import EventSourceResponse

from scenewright.service.api.common import Core, HeadRoute, Reader, Refiner, RunId, RunsKey
from scenewright.service.api.images import Hash
from scenewright.service.api.large_bodies import LargeBodyRoute
from scenewright.service.compat.openai_images.asking import (
    SCHEMA,
    AcceptedRequest,
    ask,
    read_edit,
    with_current_runs,
)
from scenewright.service.compat.openai_images.bodies import (
    ErrorReply,
    GenerationBody,
    ImagesReply,
    read_size,
)
from scenewright.service.compat.openai_images.errors import json_body
from scenewright.service.compat.openai_images.replies import Kind, events_of, reply_of
from scenewright.service.compat.openai_images.retries import RetryCount, is_retry
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import ended
from scenewright.service.core.pictures import FileFormat, picture_file
from scenewright.service.core.service import Service

router = APIRouter(prefix="/v1/images", tags=["openai"], route_class=LargeBodyRoute)
files = APIRouter(prefix="/v1/images/files", tags=["openai"], route_class=HeadRoute)

_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ImagesReply,
        "description": "The pictures; with `stream`, server-sent events.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    "default": {"model": ErrorReply, "description": "An error in OpenAI's format."},
}


@router.post(
    "/generations",
    response_model=ImagesReply,
    responses=_REPLIES,
    dependencies=[Depends(json_body)],
)
async def generations(
    asked: GenerationBody,
    request: Request,
    service: Core,
    identity: Refiner,
    key: RunsKey = None,
    retries: RetryCount = None,
) -> Any:
    """Draw, check and repair pictures, as OpenAI's API does it: `POST /v1/images/generations`.

    A client that leaves cancels nothing, unless it streams and asks for it.
    """
    taken = await ask(service, identity, asked, key, retry=is_retry(retries))
    return await _reply(service, identity, taken, "image_generation", request)


@router.post(
    "/edits",
    response_model=ImagesReply,
    responses=_REPLIES,
    openapi_extra={"requestBody": SCHEMA},
)
async def edits(
    request: Request,
    service: Core,
    identity: Refiner,
    key: RunsKey = None,
    retries: RetryCount = None,
) -> Any:
    """Go on from a picture: it is judged, and what is missing in it is repaired."""
    body, uploaded = await read_edit(request, service.settings)
    taken = await ask(service, identity, body, key, uploaded, retry=is_retry(retries))
    return await _reply(service, identity, taken, "image_edit", request)


async def _reply(
    service: Service, identity: Identity, asked: AcceptedRequest, kind: Kind, request: Request
) -> Any:
    base = str(request.base_url)
    if asked.body.stream:
        return EventSourceResponse(
            events_of(service, identity, asked, kind, base),
            ping=max(1, int(service.settings.keep_alive_seconds)),
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
    runs = await ended(service, identity, asked.runs)
    return await reply_of(service, with_current_runs(asked, runs), base)


@files.get(
    "/{run_id}/{image}",
    response_class=Response,
    responses={
        200: {
            "content": {"image/png": {}, "image/jpeg": {}, "image/webp": {}},
            "description": "The picture.",
        },
        "default": _REPLIES["default"],
    },
)
async def file(
    run_id: RunId,
    image: Hash,
    service: Core,
    identity: Reader,
    form: Annotated[FileFormat, Query(alias="format", description="Format of the file.")] = "png",
    compression: Annotated[
        int, Query(ge=0, le=100, description="Quality of JPEG and WebP files.")
    ] = 100,
    size: Annotated[
        str | None, Query(max_length=20, description="`WIDTHxHEIGHT` that it is scaled to.")
    ] = None,
) -> Response:
    """Return a picture of a run in another format or size: where `url` replies point to."""
    try:
        wanted = read_size(size)
    except ValueError as error:
        raise Unprocessable(f"size: {error}") from error
    path = await service.image(identity, run_id, image)
    kept = await service.kept_of(await service.run(identity, run_id))
    data, *_ = await asyncio.to_thread(
        picture_file, path, form, compression=compression, size=wanted, kept=kept
    )
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(data, media_type=f"image/{form}", headers=headers)

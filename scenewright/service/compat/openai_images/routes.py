"""``POST /v1/images/generations``, ``POST /v1/images/edits`` and ``GET /v1/models``."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from scenewright.service.api.common import (
    Core,
    HeadRoute,
    LargeBodyRoute,
    Reader,
    Refiner,
    RunId,
    RunsKey,
    event_stream,
)
from scenewright.service.api.images import Hash
from scenewright.service.compat.adapter import AcceptedRequest, obstacles
from scenewright.service.compat.openai_images.asking import RetryCount, ask
from scenewright.service.compat.openai_images.bodies import (
    ErrorReply,
    GenerationBody,
    ImagesReply,
    ModelInfo,
    ModelList,
    read_size,
)
from scenewright.service.compat.openai_images.edits import SCHEMA, read_edit
from scenewright.service.compat.openai_images.errors import ModelNotFound, json_body
from scenewright.service.compat.openai_images.replies import ImagesReplies, Kind
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.pictures import FileFormat, picture_file
from scenewright.service.core.service import Service

router = APIRouter(prefix="/v1/images", tags=["openai"], route_class=LargeBodyRoute)
files = APIRouter(prefix="/v1/images/files", tags=["openai"], route_class=HeadRoute)
profiles = APIRouter(prefix="/v1/models", tags=["openai"], route_class=HeadRoute)

_ERROR: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorReply, "description": "An error in OpenAI's format."}
}
_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ImagesReply,
        "description": "The pictures; with `stream`, server-sent events.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    **_ERROR,
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
    taken = await ask(service, identity, asked, key, retries=retries)
    return await _reply(service, identity, taken, "image_generation", request)


@router.post(
    "/edits", response_model=ImagesReply, responses=_REPLIES, openapi_extra={"requestBody": SCHEMA}
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
    taken = await ask(service, identity, body, key, uploaded, retries=retries)
    return await _reply(service, identity, taken, "image_edit", request)


async def _reply(
    service: Service,
    identity: Identity,
    asked: AcceptedRequest[GenerationBody],
    kind: Kind,
    request: Request,
) -> Any:
    replies = ImagesReplies(service, identity, asked, str(request.base_url))
    if asked.body.stream:
        return event_stream(service, replies.events(kind))
    return await replies.whole()


@files.get(
    "/{run_id}/{image}",
    response_class=Response,
    responses={
        200: {
            "content": {"image/png": {}, "image/jpeg": {}, "image/webp": {}},
            "description": "The picture.",
        },
        **_ERROR,
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


@profiles.get("", summary="List the profiles as models", response_model=ModelList, responses=_ERROR)
async def models(service: Core, identity: Reader) -> ModelList:
    """Return the profiles that can run here, under OpenAI's name for them."""
    found = await asyncio.to_thread(obstacles, service)
    return ModelList(data=tuple(ModelInfo(id=name) for name, lost in found.items() if not lost))


@profiles.get(
    "/{model}", summary="See a profile as a model", response_model=ModelInfo, responses=_ERROR
)
async def model(model: str, service: Core, identity: Reader) -> ModelInfo:
    """Return a profile that can run here; of another one, what it lacks."""
    found = await asyncio.to_thread(obstacles, service)
    if model not in found:
        there = ", ".join(name for name, lost in found.items() if not lost)
        raise ModelNotFound(f"there is no model {model[:100]!r}: there are {there}")
    if found[model]:
        raise ModelNotFound(found[model])
    return ModelInfo(id=model)

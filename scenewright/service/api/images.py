"""Images of runs by content hash, whole and small."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from scenewright.core.images import ImageError, ImageStore, webp_bytes
from scenewright.service.api.common import Core, HeadRoute, Reader, RunId, tagged_reply
from scenewright.service.core.errors import NotFound

router = APIRouter(prefix="/v1/refinements/{run_id}/images", tags=["images"], route_class=HeadRoute)

PREVIEW_SIDE = 256
"""Longest side of a preview, pixels."""
_Known = Annotated[str | None, Header(alias="If-None-Match")]
Hash = Annotated[
    str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the PNG file, in hex.")
]
# An image never changes under its hash; no shared cache may keep it, for it is one tenant's.
_CACHED = "private, max-age=31536000, immutable"


def _replies(kind: str, what: str) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"content": {kind: {}}, "description": what},
        304: {"description": "You have it already."},
    }


@router.get(
    "/{image}",
    summary="An image of a run",
    response_class=Response,
    responses=_replies("image/png", "The image."),
)
async def whole(
    run_id: RunId, image: Hash, service: Core, identity: Reader, known: _Known = None
) -> Response:
    """Return an image of the run as PNG."""
    place = await service.image(identity, run_id, image)
    data = await asyncio.to_thread(image_bytes, place)
    return tagged_reply(data, "image/png", image, known, _CACHED)


@router.get(
    "/{image}/preview",
    summary="A small image of a run",
    response_class=Response,
    responses=_replies("image/webp", "The preview."),
)
async def preview(
    run_id: RunId, image: Hash, service: Core, identity: Reader, known: _Known = None
) -> Response:
    """Return the image as WebP of at most 256 pixels a side."""
    place = await service.image(identity, run_id, image)
    data = await asyncio.to_thread(_small, place)
    return tagged_reply(data, "image/webp", f"{image}-{PREVIEW_SIDE}", known, _CACHED)


def image_bytes(place: FilePath) -> bytes:
    """Return the file of an image of a run; ``NotFound`` if it is not there."""
    try:
        return place.read_bytes()
    except OSError:
        raise NotFound(f"the run has no image {place.stem}: look at its rounds") from None


@lru_cache(maxsize=512)
def _small(place: FilePath) -> bytes:
    if not place.is_file():
        raise NotFound(f"the run has no image {place.stem}: look at its rounds")
    try:
        picture = ImageStore(place.parent).get(place.stem)
    except ImageError as error:
        raise NotFound(f"the image {place.stem} is damaged: {error}") from error
    return webp_bytes(picture, PREVIEW_SIDE)

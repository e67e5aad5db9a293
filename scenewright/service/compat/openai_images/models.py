"""``GET /v1/models``: the profiles, as OpenAI's API lists its models."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from scenewright.service.api.common import Core, Reader
from scenewright.service.compat.openai_images.bodies import ErrorReply
from scenewright.service.core.errors import NotFound
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.service import Service

router = APIRouter(prefix="/v1/models", tags=["openai"])

_REPLIES: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorReply, "description": "An error in OpenAI's format."}
}


class ModelInfo(BaseModel):
    """A profile as a model."""

    id: str
    """Name of the profile: what a request gives as ``model``."""
    object: Literal["model"] = "model"
    """Always ``model``."""
    created: int = 0
    """Always 0: a profile has no date."""
    owned_by: str = "scenewright"
    """Always ``scenewright``."""


class ModelList(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    """Always ``list``."""
    data: tuple[ModelInfo, ...]
    """The profiles."""


@router.get("", summary="List the profiles as models", response_model=ModelList, responses=_REPLIES)
async def models(service: Core, identity: Reader) -> ModelList:
    """Return the profiles that may be asked for, under OpenAI's name for them."""
    return ModelList(data=tuple(ModelInfo(id=name) for name in await _names(service)))


@router.get(
    "/{model}", summary="See a profile as a model", response_model=ModelInfo, responses=_REPLIES
)
async def model(model: str, service: Core, identity: Reader) -> ModelInfo:
    """One of them."""
    names = await _names(service)
    if model not in names:
        raise NotFound(f"there is no model {model[:100]!r}: there are {', '.join(names)}")
    return ModelInfo(id=model)


async def _names(service: Service) -> tuple[str, ...]:
    found = await asyncio.to_thread(profiles_of, service.base, service.settings.profiles)
    return tuple(found)

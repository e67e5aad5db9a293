"""``GET /v1/models``: the profiles, as OpenAI's API lists its models."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from scenewright.service.api.common import Core, HeadRoute, Reader
from scenewright.service.compat.openai_images.bodies import ErrorReply
from scenewright.service.compat.openai_images.errors import ModelNotFound
from scenewright.service.compat.runnable import runnable_profiles
from scenewright.service.core.admission import lacking_words

router = APIRouter(prefix="/v1/models", tags=["openai"], route_class=HeadRoute)

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
    """The profiles that can run here."""


@router.get("", summary="List the profiles as models", response_model=ModelList, responses=_REPLIES)
async def models(service: Core, identity: Reader) -> ModelList:
    """Return the profiles that can run here, under OpenAI's name for them."""
    found = await asyncio.to_thread(runnable_profiles, service)
    return ModelList(data=tuple(ModelInfo(id=name) for name, lost in found.items() if not lost))


@router.get(
    "/{model}", summary="See a profile as a model", response_model=ModelInfo, responses=_REPLIES
)
async def model(model: str, service: Core, identity: Reader) -> ModelInfo:
    """Return a profile that can run here; of another one, what it lacks."""
    found = await asyncio.to_thread(runnable_profiles, service)
    if model not in found:
        there = ", ".join(name for name, lost in found.items() if not lost)
        raise ModelNotFound(f"there is no model {model[:100]!r}: there are {there}")
    if found[model]:
        raise ModelNotFound(lacking_words(model, found[model]))
    return ModelInfo(id=model)

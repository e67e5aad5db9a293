"""``/sdapi/v1``: drawing from words, its progress, and what plug-ins ask at their start."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from scenewright.service.api.common import Core, Reader, Refiner, RunsKey
from scenewright.service.compat.automatic1111.bodies import (
    Checkpoint,
    Progress,
    Sampler,
    TextToImage,
    TextToImageReply,
    Upscaler,
    choose,
    options_of,
)
from scenewright.service.compat.automatic1111.drawing import interrupt, order, progress_of, reply_of
from scenewright.service.core.outcomes import ended
from scenewright.service.core.requests import profiles_of

router = APIRouter(prefix="/sdapi/v1", tags=["automatic1111"])

OWN_SAMPLER = "Automatic"
"""The scheduler of each profile's model."""


@router.post("/txt2img", response_model=TextToImageReply)
async def txt2img(
    asked: TextToImage,
    request: Request,
    service: Core,
    identity: Refiner,
    key: RunsKey = None,
) -> TextToImageReply:
    """Draw, check and repair pictures. A client that leaves cancels nothing: see `interrupt`."""
    ordered = await order(service, identity, asked, key)
    runs = await ended(service, identity, ordered.runs)
    return await reply_of(service, ordered, runs, str(request.base_url))


@router.get("/progress", response_model=Progress)
async def progress(
    service: Core,
    identity: Reader,
    skip_current_image: Annotated[
        bool, Query(description="Leave the newest candidate out.")
    ] = False,
) -> Progress:
    """How far your newest `txt2img` is."""
    return await progress_of(service, identity, not skip_current_image)


@router.post("/interrupt")
async def interrupted(service: Core, identity: Refiner) -> dict[str, str]:
    """Stop your newest `txt2img`: it replies with what it has."""
    await interrupt(service, identity)
    return {}


@router.get("/options")
async def options(service: Core, identity: Reader) -> dict[str, Any]:
    """Your options; `sd_model_checkpoint` is your profile."""
    return await asyncio.to_thread(options_of, service, identity)


@router.post("/options")
async def set_options(given: dict[str, Any], service: Core, identity: Refiner) -> None:
    """Choose the profile (`sd_model_checkpoint`); the other options have no effect."""
    await asyncio.to_thread(choose, service, identity, given)


@router.get("/sd-models", response_model=list[Checkpoint])
async def models(service: Core, identity: Reader) -> list[Checkpoint]:
    """Return the profiles, as models."""
    found = await asyncio.to_thread(profiles_of, service.base, service.settings.profiles)
    return [
        Checkpoint(
            title=name,
            model_name=name,
            filename=f"{profile.backend.kind}:{profile.backend.model}",
        )
        for name, profile in found.items()
    ]


@router.get("/samplers", response_model=list[Sampler])
async def samplers(identity: Reader) -> list[Sampler]:
    """One: a profile's model has its own scheduler, which no request changes."""
    return [Sampler(name=OWN_SAMPLER)]


@router.get("/upscalers", response_model=list[Upscaler])
async def upscalers(identity: Reader) -> list[Upscaler]:
    """One that does nothing, which AUTOMATIC1111 always lists."""
    return [Upscaler(name="None")]


@router.get("/embeddings")
async def embeddings(identity: Reader) -> dict[str, dict[str, Any]]:
    """None."""
    return {"loaded": {}, "skipped": {}}


@router.get("/scripts")
async def scripts(identity: Reader) -> dict[str, list[str]]:
    """None."""
    return {"txt2img": [], "img2img": []}


@router.get("/cmd-flags")
async def flags(identity: Reader) -> dict[str, Any]:
    """None."""
    return {}


async def _none(identity: Reader) -> list[str]:
    """None: the service has no such thing."""
    return []


for _name in (
    "loras",
    "hypernetworks",
    "sd-vae",
    "prompt-styles",
    "schedulers",
    "latent-upscale-modes",
    "face-restorers",
    "realesrgan-models",
    "script-info",
):
    router.add_api_route(
        f"/{_name}", _none, methods=["GET"], name=f"no {_name}", response_model=list[str]
    )


@router.post("/refresh-checkpoints")
@router.post("/refresh-loras")
async def refresh(identity: Reader) -> None:
    """Nothing to do: profiles are read each time."""

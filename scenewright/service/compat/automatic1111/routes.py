"""``/sdapi/v1``: drawing from words, its progress, and what plug-ins ask at their start."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from scenewright.service.api.common import Core, LargeBodyRoute, Reader, Refiner, RunsKey
from scenewright.service.compat.adapter import obstacles
from scenewright.service.compat.automatic1111.bodies import (
    OWN_SAMPLER,
    Checkpoint,
    Picture,
    PictureInfo,
    Progress,
    Sampler,
    TextToImage,
    TextToImageReply,
    Upscaler,
    choose,
    options_of,
)
from scenewright.service.compat.automatic1111.drawing import interrupt, progress_of, skip, submit
from scenewright.service.compat.automatic1111.errors import WebUIError
from scenewright.service.compat.automatic1111.ignored import header_of, ignored_options
from scenewright.service.compat.automatic1111.infotexts import info_of
from scenewright.service.core.errors import NotFound

_CUDA = {
    "active": "active_bytes",
    "allocated": "allocated_bytes",
    "reserved": "reserved_bytes",
    "inactive": "inactive_split_bytes",
}
"""Names of torch's counts by those of the reply."""
_STATM, _MEMINFO = Path("/proc/self/statm"), Path("/proc/meminfo")

router = APIRouter(
    prefix="/sdapi/v1",
    tags=["automatic1111"],
    route_class=LargeBodyRoute,
    responses={
        "default": {"model": WebUIError, "description": "An error in AUTOMATIC1111's form."}
    },
)


class Memory(BaseModel):
    """Memory in bytes; ``error`` in place of figures that are not known."""

    ram: dict[str, int | str]
    """``used`` by this process, ``free`` on its machine and ``total`` there."""
    cuda: dict[str, Any]
    """``system`` (of the device) and what this process has ``allocated`` and ``reserved`` there."""


def memory_here() -> Memory:
    """Return the memory of this process; its models may also run in others."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        used = int(_STATM.read_text().split()[1]) * page
        known = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        free = int(known["MemAvailable"].split()[0]) * 1024
        whole = os.sysconf("SC_PHYS_PAGES") * page
        ram: dict[str, int | str] = {"free": free, "used": used, "total": whole}
    except (OSError, ValueError, KeyError, IndexError):
        ram = {"error": "this system does not tell"}
    # Without torch no model of this process is on a device, and importing it takes seconds.
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return Memory(ram=ram, cuda={"error": "unavailable"})
    free, total = torch.cuda.mem_get_info()
    stats = torch.cuda.memory_stats()
    cuda: dict[str, Any] = {"system": {"free": free, "used": total - free, "total": total}}
    for name, kind in _CUDA.items():
        cuda[name] = {part: int(stats.get(f"{kind}.all.{part}", 0)) for part in ("current", "peak")}
    counts = {"retries": "num_alloc_retries", "oom": "num_ooms"}
    cuda["events"] = {name: int(stats.get(count, 0)) for name, count in counts.items()}
    return Memory(ram=ram, cuda=cuda)


@router.post("/txt2img", response_model=TextToImageReply)
async def txt2img(
    asked: TextToImage,
    request: Request,
    response: Response,
    service: Core,
    identity: Refiner,
    key: RunsKey = None,
) -> TextToImageReply:
    """Draw, check and repair pictures. A client that leaves cancels nothing: see `interrupt`.

    Parameters without effect are named in `ignored`, in `info` and in a header.
    """
    drawing = await submit(service, identity, asked, key)
    ended = await drawing.accepted.ended(service, identity)
    response.headers.update(header_of(drawing.ignored))
    return await replace(drawing, accepted=ended).reply(service, str(request.base_url))


@router.post("/img2img", include_in_schema=False)
async def img2img(identity: Reader) -> None:
    """Say where pictures are repaired."""
    raise NotFound(
        "there is no img2img here: repair a picture with POST /v1/images/edits, of which the "
        "service's documentation tells under 'Edits'"
    )


@router.post("/png-info", response_model=PictureInfo)
async def png_info(asked: Picture, service: Core, identity: Reader) -> PictureInfo:
    """Return the infotext of a picture's file, whole and taken apart. Nothing is kept."""
    return await info_of(asked.image, service.settings)


@router.get("/memory", response_model=Memory)
async def memory(identity: Reader) -> Memory:
    """Memory of the service's process, in bytes; its models may also run in other processes."""
    return await asyncio.to_thread(memory_here)


@router.get("/progress", response_model=Progress)
async def progress(
    service: Core,
    identity: Reader,
    skip_current_image: Annotated[
        bool, Query(description="Leave the newest candidate out.")
    ] = False,
) -> Progress:
    """Return how far your newest `txt2img` is."""
    return await progress_of(service, identity, not skip_current_image)


@router.post("/interrupt")
async def interrupted(service: Core, identity: Refiner) -> dict[str, str]:
    """Stop your newest `txt2img`: it replies with what it has."""
    await interrupt(service, identity)
    return {}


@router.post("/skip")
async def skipped(service: Core, identity: Refiner) -> dict[str, str]:
    """Stop the run at work of your newest `txt2img`, which keeps what it has; the others go on."""
    await skip(service, identity)
    return {}


@router.get("/options")
async def options(service: Core, identity: Reader) -> dict[str, Any]:
    """Your options; `sd_model_checkpoint` is your profile."""
    return await asyncio.to_thread(options_of, service, identity)


@router.post("/options")
async def set_options(
    given: dict[str, Any], response: Response, service: Core, identity: Refiner
) -> None:
    """Choose the profile (`sd_model_checkpoint`).

    The other options have no effect; a header names them.
    """
    await asyncio.to_thread(choose, service, identity, given)
    response.headers.update(header_of(ignored_options(given)))


@router.get("/sd-models", response_model=list[Checkpoint])
async def models(service: Core, identity: Reader) -> list[Checkpoint]:
    """Return the profiles that can run here, as models."""
    found = await asyncio.to_thread(service.profiles)
    lost = await asyncio.to_thread(obstacles, service)
    return [
        Checkpoint(
            title=name, model_name=name, filename=f"{profile.backend.kind}:{profile.backend.model}"
        )
        for name, profile in found.items()
        if not lost.get(name)
    ]


@router.get("/samplers", response_model=list[Sampler])
async def samplers(identity: Reader) -> list[Sampler]:
    """One: a profile's model has its own scheduler, which no request changes."""
    return [Sampler(name=OWN_SAMPLER)]


@router.get("/upscalers", response_model=list[Upscaler])
async def upscalers(identity: Reader) -> list[Upscaler]:
    """The one that scales pictures, and one that does nothing."""
    return [Upscaler(name="None"), Upscaler(name="Lanczos", scale=4.0)]


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

"""Text to scene graph."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from scenewright.config.profiles import Profile
from scenewright.core.formats import dump_scene
from scenewright.core.scene import SceneGraph
from scenewright.runs.reading import ReadScene, preliminary
from scenewright.service.api.common import Core
from scenewright.service.api.large_bodies import LargeBodyRoute
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.requests import model_that_reads, named_profile
from scenewright.service.core.schemas import ParseRequest, ParseResponse, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.worker_thread import LARGE_SCENE_ITEMS, size_of

router = APIRouter(prefix="/v1", tags=["scenes"], route_class=LargeBodyRoute)


@router.post("/parse", summary="Read a scene", response_model=ParseResponse)
async def parse(
    asked: ParseRequest,
    service: Core,
    identity: Annotated[Identity, Depends(allow("parse"))],
) -> Response:
    """Read a scene: a graph is checked, triplets and sentences become one.

    With a profile its language model reads the sentence, and its cost is the key's; without one, or
    where that fails, rules do.
    """
    read = await parsed(asked, service, identity)
    size, write = size_of(read.scene), read.model_dump_json
    # Thousands of facts are written aside, too.
    text = write() if size <= LARGE_SCENE_ITEMS else await service.worker_thread.submit(size, write)
    return Response(text, media_type="application/json")


async def parsed(asked: ParseRequest, service: Service, identity: Identity) -> ParseResponse:
    """Return the scene of ``asked`` with all that is told of it."""
    awaits = ""
    if asked.drawn_by is not None and asked.profile is None and asked.text is not None:
        awaits = model_that_reads(_profile(asked.drawn_by, service), asked.reader)
    if awaits:
        # Who writes a sentence pays for none of its states.
        found, problem = await service.worker_thread.compute(0, preliminary, str(asked.text))
        if problem:
            return await service.worker_thread.compute(
                0, _response_of, SceneGraph(), asked, service, awaits
            )
        read = ReadScene(scene=found)
    else:
        # Without a profile the rules read.
        reader = asked.reader or (None if asked.profile is not None else "rules")
        read = await service.read(identity, asked, _profile(asked.profile, service), reader)
        found = read.scene
    warned = read.warnings
    if asked.drawn_by is not None and found:
        request = RefinementRequest(scene=found, profile=asked.drawn_by)
        covered, found = await service.covered(request), service.as_drawn(request)
        if not covered.complete:
            warned += (covered.text,)
        drawable = not covered.nothing
    else:
        drawable = True
    # What was paid for is told, however many wait.
    tell = service.worker_thread.compute if read.reading is None else service.worker_thread.submit
    return await tell(size_of(found), _response_of, found, asked, service, awaits, warned, drawable)


def _profile(name: str | None, service: Service) -> Profile:
    """Return the profile of that name, by default the service's own, or the first that may be."""
    allowed = service.settings.profiles
    if name is None:
        name = service.base.profile
        if allowed and name not in allowed:
            name = allowed[0]
    return named_profile(name, service.base, allowed)


def _response_of(
    scene: SceneGraph,
    asked: ParseRequest,
    service: Service,
    awaits: str = "",
    warned: tuple[str, ...] = (),
    drawable: bool = True,
) -> ParseResponse:
    """Return what is told of the scene that was read.

    Its facts are those that a run asks: of the profile that is named, else of the service's own.
    """
    return ParseResponse(
        scene=scene,
        facts=_profile(asked.drawn_by or asked.profile, service).form().facts(scene),
        triplets=dump_scene(scene.graph, "triplets").strip() if scene else "",
        complexity=scene.complexity(),
        level=scene.level(),
        warnings=(*scene.warnings, *warned),
        unread=scene.intent.unread,
        doubts=scene.doubts,
        awaits=awaits,
        drawable=drawable,
    )

"""Scenes outside of runs: read from text, scored on a picture; and the profiles that know them."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, Response, UploadFile
from pydantic import BaseModel, ValidationError

from scenewright.config.options import Name, SentenceReader, Text
from scenewright.config.profiles import DIRECTOR, Profile
from scenewright.core.formats import dump_scene
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.core.validation import first_problem
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.readiness import obstacle, this_machine
from scenewright.runs.reading import ReadScene, preliminary
from scenewright.service.api.common import Core, LargeBodyRoute, Reader, large_reply
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.pictures import picture_of
from scenewright.service.core.requests import (
    model_that_reads,
    named_profile,
    profiles_of,
    reading_json,
)
from scenewright.service.core.schemas import (
    ParseRequest,
    ParseResponse,
    RefinementRequest,
    SceneInput,
    ScoreResponse,
)
from scenewright.service.core.service import Service
from scenewright.service.core.worker_thread import size_of

router = APIRouter(prefix="/v1", route_class=LargeBodyRoute)

_ANY = SceneGraph()


@router.post("/scores", tags=["scores"], summary="Score a picture", response_model=ScoreResponse)
async def scores(
    service: Core,
    identity: Annotated[Identity, Depends(allow("score"))],
    image: Annotated[UploadFile, File(description="The picture: PNG, JPEG, WebP, GIF, BMP, TIFF.")],
    scene: Annotated[
        str | None, Form(max_length=1_000_000, description="The scene as a graph, in JSON.")
    ] = None,
    triplets: Annotated[Text | None, Form(description="The scene as triplets.")] = None,
    text: Annotated[Text | None, Form(description="The scene in a sentence.")] = None,
    profile: Annotated[Name | None, Form(description="Profile whose judges answer.")] = None,
    reader: Annotated[
        SentenceReader | None,
        Form(description="Parser of text: llm or rules; none: the profile's."),
    ] = None,
    judges: Annotated[
        list[Name] | None, Form(max_length=16, description="Judges in place of the profile's.")
    ] = None,
    realism: Annotated[
        bool, Form(description="Whether to ask besides how real each object looks.")
    ] = False,
) -> ScoreResponse:
    """Ask the judges of a profile every fact of a scene about a picture."""
    picture = await picture_of(image, service.settings)
    given = await asyncio.to_thread(_given, scene, triplets, text)
    request = RefinementRequest(
        scene=_ANY,
        profile=profile,
        reader=reader,
        judges=tuple(judges) if judges else None,
        realism=realism,
    )
    return await service.score(identity, picture, given, request)


def _given(scene: str | None, triplets: str | None, text: str | None) -> SceneInput:
    with reading_json("scene"):
        graph = None if scene is None else json.loads(scene)
        try:
            return SceneInput.model_validate({"scene": graph, "triplets": triplets, "text": text})
        except (ValidationError, SceneError) as error:
            told = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise Unprocessable(f"the scene is wrong: {told}") from error


@router.post("/parse", tags=["scenes"], summary="Read a scene", response_model=ParseResponse)
async def parse(
    asked: ParseRequest, service: Core, identity: Annotated[Identity, Depends(allow("parse"))]
) -> Response:
    """Read a scene: a graph is checked, triplets and sentences become one.

    With a profile its language model reads the sentence, and its cost is the key's; without one, or
    where that fails, rules do.
    """
    read = await parsed(asked, service, identity)
    # Thousands of facts are written aside, too.
    return await large_reply(service, size_of(read.scene), read)


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


class ProfileInfo(BaseModel):
    """A profile that may be asked for."""

    name: str
    """Name."""
    about: str
    """One sentence."""
    judges: tuple[str, ...]
    """Judges of the loop."""
    report_judges: tuple[str, ...]
    """Judges of the report."""
    strategy: str
    """Repair that it makes."""
    default: bool
    """Whether it is used where none is named."""
    obstacle: str = ""
    """Why it cannot run here and what to do, in one line; empty where it can, and where workers on
    other machines may draw it."""


class Choices(BaseModel):
    """Choices of a request."""

    profiles: tuple[ProfileInfo, ...]
    """The profiles."""
    strategies: dict[str, str]
    """Strategies by name, each with a sentence."""


@router.get(
    "/profiles", tags=["profiles"], summary="List profiles and strategies", response_model=Choices
)
async def choices(service: Core, identity: Reader) -> Choices:
    """Return the profiles and strategies of this service."""
    found, obstacles = await asyncio.to_thread(profiles_here, service)
    ways = {name: strategy.about for name, strategy in strategies().items()}
    return Choices(
        profiles=tuple(
            ProfileInfo(
                name=name,
                about=profile.about,
                judges=profile.judges,
                report_judges=profile.report_judges,
                strategy=profile.strategy,
                default=name == service.base.profile,
                obstacle=obstacles[name],
            )
            for name, profile in found.items()
        ),
        strategies={**ways, DIRECTOR: "a language model decides each step with tools"},
    )


def profiles_here(service: Service) -> tuple[dict[str, Profile], dict[str, str]]:
    """Return the profiles by name, and what keeps each of them from running here."""
    found = profiles_of(service.base, service.settings.profiles)
    settings = service.settings
    if service.models is not None or settings.shared or not settings.work:
        # Models of the caller's own, or workers whose machines are not this one.
        return found, dict.fromkeys(found, "")
    machine = this_machine()
    return found, {name: obstacle(one, service.base, machine) for name, one in found.items()}

"""Text to scene graph."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from scenewright.agents.chat.language_replies import ReplyError
from scenewright.agents.chat.model import ChatError
from scenewright.agents.parsers.language import LanguageParser
from scenewright.agents.parsers.rules import Reading
from scenewright.agents.parsers.unread import CaptionError
from scenewright.config.settings import settings_with
from scenewright.core.formats import dump_scene
from scenewright.core.scene import SceneGraph
from scenewright.providers.retry import CallError
from scenewright.runs.model_factory.profiles import chat_of
from scenewright.service.api.common import Core
from scenewright.service.api.large_bodies import LargeBodyRoute
from scenewright.service.core.aside import LARGE, size_of
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.requests import named_profile, reading_of
from scenewright.service.core.schemas import ParseRequest, ParseResponse, RefinementRequest
from scenewright.service.core.service import Service

router = APIRouter(prefix="/v1", tags=["scenes"], route_class=LargeBodyRoute)


@router.post("/parse", summary="Read a scene", response_model=ParseResponse)
async def parse(
    asked: ParseRequest,
    service: Core,
    identity: Annotated[Identity, Depends(allow("parse"))],
) -> Response:
    """Read a scene: a graph is checked, triplets and sentences become one.

    With a profile its language model reads the sentence, and its cost is the key's.
    """
    read = await parsed(asked, service, identity)
    size, write = size_of(read.scene), read.model_dump_json
    # Thousands of facts are written aside, too.
    text = write() if size <= LARGE else await service.aside.in_turn(size, write)
    return Response(text, media_type="application/json")


async def parsed(asked: ParseRequest, service: Service, identity: Identity) -> ParseResponse:
    """Return the scene of ``asked`` with all that is told of it."""
    tell = service.aside.compute
    if asked.profile is not None and asked.text is not None:
        # What was paid for is told, however many wait.
        tell = service.aside.in_turn
        found = Reading(await _by_model(asked.profile, asked.text, service, identity))
    else:
        size = 0 if asked.scene is None else size_of(asked.scene)
        found = await service.aside.compute(size, reading_of, asked)
    scene = found.scene
    warned = ""
    if asked.drawn_by is not None and scene:
        request = RefinementRequest(scene=scene, profile=asked.drawn_by)
        warned = (await service.covered(request)).text
    return await tell(size_of(scene), _told, found, asked, service, warned)


def _told(read: Reading, asked: ParseRequest, service: Service, warned: str) -> ParseResponse:
    """Return what is told of the scene that was read.

    Its facts are those that a run asks: of the profile that is named, else of the service's own.
    """
    allowed = service.settings.profiles
    name = asked.drawn_by or asked.profile or service.base.profile
    if allowed and name == service.base.profile and name not in allowed:
        name = allowed[0]
    scene = read.scene
    return ParseResponse(
        scene=scene,
        facts=named_profile(name, service.base, allowed).form().facts(scene),
        triplets=dump_scene(scene, "triplets").strip(),
        complexity=scene.complexity(),
        level=scene.level(),
        warnings=tuple(said for said in (read.warning, warned) if said),
        unread=read.unread,
    )


async def _by_model(name: str, text: str, service: Service, identity: Identity) -> SceneGraph:
    from scenewright.providers.usage import metered

    profile = named_profile(name, service.base, service.settings.profiles)
    if profile.chat is None:
        raise Unprocessable(
            f"the profile {name!r} has no language model: leave profile out, or name one with chat"
        )
    await service.within_budget(identity)
    known = settings_with(profile, service.base)
    with metered() as spent:
        try:
            return await LanguageParser(chat_of(profile.chat, known, role="parser")).parse(text)
        except CaptionError as error:
            raise Unprocessable(f"the text cannot be read: {error}") from error
        except ReplyError as error:
            raise Unprocessable(
                f"the language model did not read the text ({error}): say it in other words, or "
                "leave profile out"
            ) from error
        except (CallError, ChatError) as error:
            raise Unavailable(str(error), retry_after=10) from error
        finally:
            # A call that came to nothing was paid for too.
            if spent.usd:
                await service.store.charge(identity.tenant, identity.key_id, spent.usd)

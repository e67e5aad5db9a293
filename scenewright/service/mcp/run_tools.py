"""The tools that begin, watch and correct runs, score pictures and read scenes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re

from mcp.types import CallToolResult
from PIL import Image

from scenewright.core.scene import SceneGraph
from scenewright.service.api.parse import parse
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import permitted
from scenewright.service.core.schemas import ParseRequest, RefinementRequest
from scenewright.service.core.uploads import decoded
from scenewright.service.mcp.arguments import (
    CancelRun,
    EditRun,
    GetRun,
    ListRuns,
    ParseScene,
    RefineScene,
    ResumeRun,
    ScoreImage,
)
from scenewright.service.mcp.calls import Call
from scenewright.service.mcp.replies import RunList, brief_of, reply
from scenewright.service.mcp.resources import IMAGE, read_image_file
from scenewright.service.mcp.rows import is_agents

_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.-]+)*;base64,", re.ASCII)
_ANY = SceneGraph()


async def refine_scene(call: Call, given: RefineScene) -> CallToolResult:
    """Begin a run and wait for it."""
    run, _ = await call.service.submit(call.identity, given.request(), "mcp")
    return await call.shown(await call.wait(run, given.wait_seconds))


async def get_run(call: Call, given: GetRun) -> CallToolResult:
    """A run, after a while if that is wanted."""
    run = await call.run(given.run)
    session = call.sessions.here(call.identity, run.id)
    if session is not None:
        try:
            async with asyncio.timeout(given.wait_seconds):
                await session.quiet()
        except TimeoutError:
            pass
        run = await call.run(run.id)
    elif not is_agents(run):
        run = await call.wait(run, given.wait_seconds)
    return await call.shown(run, given.round)


async def list_runs(call: Call, given: ListRuns) -> CallToolResult:
    """The caller's runs."""
    runs, following = await call.service.store.list(
        call.identity.tenant,
        status=given.status,
        words=given.words,
        before=given.before,
        limit=given.limit,
    )
    return reply(RunList(runs=tuple(map(brief_of, runs)), next=following))


async def cancel_run(call: Call, given: CancelRun) -> CallToolResult:
    """Stop a run."""
    run = await call.service.cancel(call.identity, given.run)
    session = call.sessions.here(call.identity, run.id)
    if session is not None:
        session.stop(cancel=True)
        if session.task is not None:
            await asyncio.wait([session.task])
        run = await call.run(run.id)
    return await call.shown(run)


async def resume_run(call: Call, given: ResumeRun) -> CallToolResult:
    """Go on with a run."""
    run = await call.service.resume(call.identity, given.run)
    return await call.shown(await call.wait(run, given.wait_seconds))


async def edit_run(call: Call, given: EditRun) -> CallToolResult:
    """Go on with a run as the caller corrects it."""
    run = await call.run(given.run)
    if is_agents(run):
        raise Unprocessable("an agent directs this run: correct it with the director's tools")
    run = await call.service.edit(call.identity, run.id, given.request())
    return await call.shown(await call.wait(run, given.wait_seconds))


async def score_image(call: Call, given: ScoreImage) -> CallToolResult:
    """What judges find in the caller's picture."""
    scene = given.given()
    picture = await _picture(call, given.image)
    request = RefinementRequest(scene=_ANY, profile=given.profile)
    return reply(await call.service.score(call.identity, picture, scene, request))


async def parse_scene(call: Call, given: ParseScene) -> CallToolResult:
    """A scene as a graph."""
    asked = ParseRequest(**given.given().model_dump(), profile=given.profile)
    return reply(await parse(asked, call.service, call.identity))


async def _picture(call: Call, given: str) -> Image.Image:
    """The picture of an argument: base64, a data URL, or an image of a run. Nothing is fetched."""
    settings = call.service.settings
    resource = IMAGE.fullmatch(given)
    if resource is not None:
        permitted(call.identity, "read")
        data = await read_image_file(call.service, call.identity, resource[1], resource[2])
        return await asyncio.to_thread(decoded, data, settings)
    written = _DATA.match(given)
    text = given[written.end() :] if written is not None else given
    if written is None and ":" in given[:64]:
        raise Unprocessable(
            "image is an address, and none is fetched here: give the file itself in base64, a "
            "data URL, or scenewright://runs/ID/images/HASH"
        )
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unprocessable(f"image is no base64 ({error}): encode the file's bytes") from error
    return await asyncio.to_thread(decoded, data, settings)

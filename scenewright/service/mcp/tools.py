"""Tools and resources of the MCP server: runs, images, scenes, and the director's tools by run."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import inspect
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from mcp.types import CallToolResult, Resource, TextContent
from PIL import Image

from scenewright.core.scene import SceneGraph
from scenewright.graphs.director_record import ACCEPT
from scenewright.runs.folder import EVENTS
from scenewright.runs.record import read_run
from scenewright.runs.report.render import render_run
from scenewright.service.api.images import image_bytes
from scenewright.service.api.parse import parsed
from scenewright.service.core.errors import NotFound, Unavailable, Unprocessable
from scenewright.service.core.identity import require_scope
from scenewright.service.core.pictures import decoded
from scenewright.service.core.schemas import (
    ParseRequest,
    ParseResponse,
    RefinementRequest,
)
from scenewright.service.core.service import reading
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_chat import AgentToolCall, ToolReply
from scenewright.service.mcp.agent_sessions import is_agents
from scenewright.service.mcp.arguments import (
    CancelRun,
    Directed,
    EditRun,
    GetRun,
    ListRuns,
    OpenScene,
    ParseScene,
    RefineScene,
    ResumeRun,
    ScoreImage,
    directed,
)
from scenewright.service.mcp.calls import Call, watch
from scenewright.service.mcp.replies import (
    ROOT,
    OpenedRun,
    RunList,
    RunStatus,
    ScoredImage,
    ToolResult,
    brief_of,
    error_result,
    fact_statuses,
    links_of,
    page_uri,
    reply,
    scored_image,
)
from scenewright.tools.director import (
    Accept,
    Arguments,
    GenerateImage,
    Inpaint,
    Look,
    RefineWithReference,
    VerifyFacts,
)

HASH = r"^[0-9a-f]{64}$"
"""Pattern of an image's content hash."""
IMAGE = re.compile(rf"{ROOT}/(run_[0-9a-f]{{32}})/images/([0-9a-f]{{64}})")
_MOST = 50


async def listed(call: Call) -> list[Resource]:
    """Return the caller's newest runs."""
    runs, _ = await call.service.store.list(call.identity.tenant, limit=_MOST)
    return [
        Resource(
            uri=f"{ROOT}/{run.id}",
            name=run.id,
            title=run.title,
            description=f"A run, {run.status}.",
            mime_type="application/json",
        )
        for run in runs
    ]


async def run_json(call: Call, run: str) -> str:
    """Return a run of the caller as JSON; ``NotFound`` if there is none."""
    return (await call.service.view(await call.run(run))).model_dump_json()


async def image_file(call: Call, run: str, image: str) -> bytes:
    """Return the PNG file of an image of the caller's run; ``NotFound`` if there is none.

    ``image`` has the form of :data:`HASH`.
    """
    place = await call.service.image(call.identity, run, image)
    return await asyncio.to_thread(image_bytes, place)


async def run_page(call: Call, run: str) -> str:
    """Return a run of the caller as a page; ``NotFound`` if there is none."""
    folder = await call.service.artifacts.whole((await call.run(run)).id)

    def render() -> str:
        if not (folder / EVENTS).is_file():
            raise NotFound("the run has not begun: there is no page of it yet")
        with reading(run):
            return render_run(read_run(folder))

    return await asyncio.to_thread(render)


_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.-]+)*;base64,", re.ASCII)
_ANY = SceneGraph()


async def refine_scene(call: Call, given: RefineScene) -> Annotated[CallToolResult, RunStatus]:
    """Begin a run and wait for it."""
    run, _ = await call.service.submit(call.identity, given.request(), "mcp")
    return await call.reply(await call.wait(run, given.wait_seconds))


async def get_run(call: Call, given: GetRun) -> Annotated[CallToolResult, RunStatus]:
    """Return a run, after a while if that is wanted."""
    run = await call.run(given.run)
    session = call.sessions.here(call.identity, run.id)
    if session is not None:
        try:
            async with asyncio.timeout(given.wait_seconds):
                await session.wait_for_call()
        except TimeoutError:
            pass
        run = await call.run(run.id)
    elif not is_agents(run):
        run = await call.wait(run, given.wait_seconds)
    return await call.reply(run, given.round)


async def list_runs(call: Call, given: ListRuns) -> Annotated[CallToolResult, RunList]:
    """Return the caller's runs."""
    runs, following = await call.service.store.list(
        call.identity.tenant,
        status=given.status,
        words=given.words,
        before=given.before,
        limit=given.limit,
    )
    return reply(RunList(runs=tuple(map(brief_of, runs)), next=following))


async def cancel_run(call: Call, given: CancelRun) -> Annotated[CallToolResult, RunStatus]:
    """Stop a run."""
    run = await call.service.cancel(call.identity, given.run)
    session = call.sessions.here(call.identity, run.id)
    if session is not None:
        session.stop(cancel=True)
        if session.task is not None:
            await asyncio.wait([session.task])
        run = await call.run(run.id)
    return await call.reply(run)


async def resume_run(call: Call, given: ResumeRun) -> Annotated[CallToolResult, RunStatus]:
    """Go on with a run."""
    run = await call.service.resume(call.identity, given.run)
    return await call.reply(await call.wait(run, given.wait_seconds))


async def edit_run(call: Call, given: EditRun) -> Annotated[CallToolResult, RunStatus]:
    """Go on with a run as the caller corrects it."""
    run = await call.run(given.run)
    if is_agents(run):
        raise Unprocessable("an agent directs this run: correct it with the director's tools")
    run = await call.service.edit(call.identity, run.id, given.request())
    return await call.reply(await call.wait(run, given.wait_seconds))


async def score_image(call: Call, given: ScoreImage) -> Annotated[CallToolResult, ScoredImage]:
    """Return the judges' verdicts on the caller's picture."""
    scene = given.given()
    picture = await _picture(call, given.image)
    request = RefinementRequest(scene=_ANY, profile=given.profile, reader=given.reader)
    found = await call.service.score(call.identity, picture, scene, request)
    return reply(scored_image(found))


async def parse_scene(call: Call, given: ParseScene) -> Annotated[CallToolResult, ParseResponse]:
    """Return a scene as a graph."""
    asked = ParseRequest(**given.given().model_dump(), profile=given.profile, reader=given.reader)
    return reply(await parsed(asked, call.service, call.identity))


async def _picture(call: Call, given: str) -> Image.Image:
    """Return the picture of an argument: base64, a data URL, or an image of a run.

    Nothing is fetched.
    """
    settings = call.service.settings
    resource = IMAGE.fullmatch(given)
    if resource is not None:
        require_scope(call.identity, "read")
        data = await image_file(call, resource[1], resource[2])
        return await asyncio.to_thread(decoded, data, settings)
    written = _DATA.match(given)
    text = given[written.end() :] if written is not None else given
    if written is None and ":" in given[:64]:
        raise Unprocessable(
            "image is an address, and none is fetched: give the file itself in base64, a "
            "data URL, or scenewright://runs/ID/images/HASH"
        )
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unprocessable("image is not valid base64: encode the file's bytes") from error
    return await asyncio.to_thread(decoded, data, settings)


_DIRECTOR: Mapping[str, type[Arguments]] = {
    "generate_image": GenerateImage,
    "verify_facts": VerifyFacts,
    "look": Look,
    "refine_with_reference": RefineWithReference,
    "inpaint": Inpaint,
    ACCEPT: Accept,
}
_AGAIN = "the tool is still running: repeat the same call to wait for its result"
_DRAWN = "call the next tool, or accept to end the run"


def about(takes: type[Arguments]) -> str:
    """Return the description of a tool with these arguments, for an agent."""
    text = inspect.cleandoc(takes.__doc__ or "")
    if issubclass(takes, Directed):
        return f"{text}\n\nWorks on a run that open_scene began."
    return " ".join(text.split())


def arguments_of(name: str) -> type[Arguments]:
    """Return the arguments that one of the director's tools takes over MCP."""
    return directed(_DIRECTOR[name])


async def open_scene(call: Call, given: OpenScene) -> Annotated[CallToolResult, OpenedRun]:
    """Begin a run that the caller directs."""
    run, session = await call.sessions.open(call.identity, given.request())
    result = await call.service.result(run)
    if result is None:
        raise Unavailable(f"the run {run.id} was closed before it began: call open_scene again")
    asked = RefinementRequest.model_validate(run.request)
    opened = OpenedRun(
        run=run.id,
        status=(await call.run(run.id)).status,
        facts=fact_statuses(result.facts, None),
        warnings=(*await call.service.warnings(run, result), *result.reporting.notes),
        doubts=result.scene.doubts,
        limits={"rounds": asked.rounds, **dict(asked.budget)},
        next=f"call generate_image with run {run.id!r}",
        page=page_uri(run.id),
    )
    return reply(opened, also=[TextContent(type="text", text=session.words)])


async def _direct(name: str, call: Call, given: Directed) -> CallToolResult:
    """Use one of the director's tools on a run."""
    run = await call.run(given.run)
    if name == ACCEPT and run.status == "finished" and is_agents(run):
        # Who gave up while it was accepted asks again.
        return await _ended_reply(call, run, name, {})
    asked = AgentToolCall(
        name,
        given.model_dump(mode="json", exclude=set(Directed.model_fields), exclude_unset=True),
    )
    session = await call.sessions.get_or_open(call.identity, run.id)
    watching = asyncio.create_task(
        watch(call.service, call.identity, run, call.report, given.wait_seconds)
    )
    try:
        async with asyncio.timeout(given.wait_seconds):
            said = await session.use(asked)
    except TimeoutError:
        return reply(ToolResult(run=run.id, tool=name, done=False, next=_AGAIN))
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    if session.driven is not None and session.driven.status == "finished":
        return await _ended_reply(call, run, name, {} if said is None else _data(said))
    if said is None:
        raise Unavailable("the run was closed before the call: call again")
    if not said.ok:
        return error_result(call.service.disclosure.clean(said.text))
    told = ToolResult(run=run.id, tool=name, done=True, told=_data(said), next=_DRAWN)
    return reply(told, said.picture)


DIRECTOR_TOOLS = {name: functools.partial(_direct, name) for name in _DIRECTOR}
"""The director's tools by name, on a run by its id."""


async def _ended_reply(call: Call, run: Run, name: str, data: dict[str, Any]) -> CallToolResult:
    result = await call.status(await call.run(run.id))
    told = ToolResult(
        run=run.id,
        tool=name,
        done=True,
        told=data,
        over=True,
        result=result,
        next="the run is over",
    )
    return reply(told, await call.preview(result), links_of(result))


def _data(said: ToolReply) -> dict[str, Any]:
    try:
        found = json.loads(said.text)
    except ValueError:
        return {"error": said.text}
    return found if isinstance(found, dict) else {"told": found}

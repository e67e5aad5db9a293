"""Tools and resources of the MCP server: runs, images, scenes, and the director's tools by run.

Those that wait for a run report its progress meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.types import CallToolResult, Resource, TextContent
from PIL import Image

from scenewright.core.facts import is_stated
from scenewright.core.scene import SceneGraph
from scenewright.graphs.director_record import ACCEPT
from scenewright.runs.folder import EVENTS
from scenewright.runs.record import read_run
from scenewright.runs.report.render import render_run
from scenewright.service.api.images import image_bytes
from scenewright.service.api.scenes import parsed
from scenewright.service.core.errors import NotFound, Unavailable, Unprocessable
from scenewright.service.core.identity import Identity, require_scope
from scenewright.service.core.pictures import decoded
from scenewright.service.core.schemas import ParseRequest, ParseResponse, RefinementRequest
from scenewright.service.core.service import Service, reading
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_sessions import (
    AgentSessions,
    AgentToolCall,
    ToolReply,
    is_agents,
)
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
    run_reply,
    scored_image,
    small,
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

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Report to a client: how far, of how much, in words."""

_LEAST = 0.001
"""Least progress between two reports: MCP wants the number to rise."""

_DRAWN_NOW = {"reference": "a reference", "draft": "drafts", "proposal": "proposals"}
"""Names of the drawing in a step, by purpose."""
_DRAWN = {"reference": "the reference", "draft": "a draft", "proposal": "a proposal"}
"""Names of the drawn image, by purpose."""
HASH = r"^[0-9a-f]{64}$"
"""Pattern of an image's content hash."""
IMAGE = re.compile(rf"{ROOT}/(run_[0-9a-f]{{32}})/images/([0-9a-f]{{64}})")
_MOST = 50
_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.-]+)*;base64,", re.ASCII)
_ANY = SceneGraph()
_DIRECTOR: Mapping[str, type[Arguments]] = {
    "generate_image": GenerateImage,
    "verify_facts": VerifyFacts,
    "look": Look,
    "refine_with_reference": RefineWithReference,
    "inpaint": Inpaint,
    ACCEPT: Accept,
}
_AGAIN = "the tool is still running: repeat the same call to wait for its result"
_CALL_NEXT = "call the next tool, or accept to end the run"


async def watch(
    service: Service, identity: Identity, run: Run, report: Report, seconds: float
) -> None:
    """Report progress in rounds until ``run`` stands still, or ``seconds`` are over."""
    if seconds <= 0:
        return
    rounds = float(run.request.get("rounds") or 1)
    at, text = 0.0, "waiting"
    after = await service.stored_events(run) - 1
    try:
        async with asyncio.timeout(seconds):
            async with aclosing(service.follow(identity, run, after)) as events:
                async for event in events:
                    reached = at
                    if event is not None:
                        found = _progress(event.kind, json.loads(event.data))
                        if found is None:
                            continue
                        reached, text = found
                        if event.kind == "finished":
                            reached = rounds
                    at = max(at + _LEAST, reached)
                    await report(at, max(rounds, at), text)
    except TimeoutError:
        return


def _progress(kind: str, data: dict[str, Any]) -> tuple[float, str] | None:
    """Return the progress in rounds after an event, and its words; None if it is not reported."""
    at = float(data.get("round") or 0)
    name = f"round {data.get('round')}"
    match kind:
        case "status":
            if data["status"] not in ("queued", "running"):
                return None
            position = data.get("queue_position")
            if data["status"] == "queued" and position:
                return 0.0, f"waiting, {position} runs before it"
            return 0.0, str(data["status"])
        case "planned":
            return at, f"{name}: {data['does']}"
        case "step":
            reference = data["purpose"] != "candidate"
            shown = _DRAWN_NOW.get(data["purpose"], "the picture")
            share = 0.3 * data["step"] / max(1, data["of"])
            step = f"step {data['step']} of {data['of']}"
            return at + (0.0 if reference else 0.3) + share, f"{name}: drawing {shown}, {step}"
        case "retrying":
            return max(0.0, at), f"{data['model']}: attempt {data['attempt']} failed, asked again"
        case "generated":
            reference = data["purpose"] != "candidate"
            shown = _DRAWN.get(data["purpose"], "the picture")
            return at + (0.3 if reference else 0.6), f"{name}: {shown} is drawn"
        case "proposed":
            wins = sum(one["wins"] for one in data["proposals"])
            judged = f"{wins} of {len(data['proposals'])} proposals may be pasted"
            return at + 0.4, f"{name}: {judged}"
        case "selected":
            gained, lost = len(data["gained"]), len(data["lost"])
            pasted = f"{len(data['winners'])} proposals are pasted"
            return at + 0.6, f"{name}: {pasted}, facts gained {gained}, lost {lost}"
        case "judged" if data["role"] == "loop":
            verdicts = [one for one in data["card"]["verdicts"] if is_stated(one["fact_id"])]
            found = sum(verdict["state"] == "yes" for verdict in verdicts)
            return at + 0.9, f"{name}: {found} of {len(verdicts)} facts found"
        case "finished":
            return at, f"finished: {data['reason']}"
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    service: Service
    """The core."""
    sessions: AgentSessions
    """The runs that agents have open."""
    identity: Identity
    """The caller; its scope for the tool was checked."""
    report: Report
    """Report to the client how far it is."""

    async def run(self, run: str) -> Run:
        """Return the caller's run of that id; ``NotFound`` otherwise."""
        return await self.service.run(self.identity, run)

    async def wait(self, run: Run, seconds: float) -> Run:
        """Return the run once it stands still, or after ``seconds``; reported meanwhile."""
        await watch(self.service, self.identity, run, self.report, seconds)
        return await self.run(run.id)

    async def status(self, run: Run, round: int | None = None) -> RunStatus:
        """Return the run as tools tell of it.

        ``NotFound`` if there is no such round.
        """
        result = await self.service.result(run)
        position = await self.service.store.position(run)
        warnings = await self.service.warnings(run, result)
        try:
            return await asyncio.to_thread(run_reply, run, result, position, round, warnings)
        except LookupError as error:
            raise NotFound(str(error.args[0])) from error

    async def reply(self, run: Run, round: int | None = None) -> CallToolResult:
        """Return the run with a small picture of the round and links to the whole ones."""
        status = await self.status(run, round)
        return reply(status, await self.preview(status), links_of(status))

    async def preview(self, status: RunStatus) -> str | None:
        """Return the picture of ``status`` as a small JPEG in base64."""
        image = None if status.image is None else status.image.rpartition("/")[2]
        if image is None:
            return None
        return await asyncio.to_thread(small, await self.service.artifacts.image(status.run, image))


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
        name, given.model_dump(mode="json", exclude=set(Directed.model_fields), exclude_unset=True)
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
    told = ToolResult(run=run.id, tool=name, done=True, told=_data(said), next=_CALL_NEXT)
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

"""The page of a run while it goes: the static run page, with what a person may do with it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from scenewright.config.profiles import DIRECTOR
from scenewright.config.settings import Settings
from scenewright.core.facts import assign_verdicts
from scenewright.core.questions import QuestionForm
from scenewright.graphs.errors import LogError
from scenewright.graphs.events import RunStarted
from scenewright.runs.folder import EVENTS, RunError
from scenewright.runs.record import Round, RunRecord, read_run, record_of
from scenewright.runs.report import words
from scenewright.runs.report.chart import draw_chart
from scenewright.runs.report.content import KIND_NAMES, page_content
from scenewright.runs.report.graph import Mark, draw_graph
from scenewright.runs.report.pictures import Picture, linked
from scenewright.runs.report.render import render_run
from scenewright.service.api.common import Core, Reader, Refiner, RunId
from scenewright.service.core.errors import (
    Conflict,
    DamagedRun,
    NotFound,
    ServiceError,
    Unprocessable,
)
from scenewright.service.core.event_broadcast import count_lines
from scenewright.service.core.identity import Identity
from scenewright.service.core.requests import AGENT, form_key, profile_of
from scenewright.service.core.schemas import ENDED, RefinementRequest, Status
from scenewright.service.core.service import STANDS_STILL, Service, reading
from scenewright.service.core.store import Run
from scenewright.service.core.worker_thread import size_of_request
from scenewright.service.web.rendering import PageRoute, page, unrendered

router = APIRouter(include_in_schema=False, route_class=PageRoute)
T = TypeVar("T")

MINIATURE = "miniature"
"""The profile that needs nothing but the package."""

STATUS_NAMES: dict[Status, str] = {
    "queued": "Waiting",
    "running": "At work",
    "paused": "Paused",
    "finished": "Finished",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
SCRIPT_FIELDS = (
    "id", "kind", "statement", "state", "parents", "subject", "key", "value", "predicate", "target",
)  # fmt: skip
"""Fields of a fact as the script of the editing form needs them."""


@router.get("/runs/{run_id}")
async def show_run(
    request: Request, run_id: RunId, service: Core, identity: Reader
) -> HTMLResponse:
    """Return the page of a run, which follows it."""
    return await _live_page(request, "run_live.html.j2", service, identity, run_id)


@router.get("/runs/{run_id}/main")
async def show_main(
    request: Request, run_id: RunId, service: Core, identity: Reader
) -> HTMLResponse:
    """Return the current content of the page, for its script."""
    return await _live_page(request, "run_live_main.html.j2", service, identity, run_id)


@router.get("/runs/{run_id}/page.html")
async def download_page(
    request: Request, run_id: RunId, service: Core, identity: Reader
) -> Response:
    """Return the page as one file that needs nothing else, to be kept."""
    run = await service.run(identity, run_id)

    def write(view: RunRecord, _: int) -> str:
        if not view.rounds:
            raise Conflict("the run has drawn nothing yet: wait for its first picture")
        if request.method == "HEAD":
            return ""
        return render_run(view)

    text = await with_record(service, run, write)
    headers = {
        "Content-Disposition": f'attachment; filename="{words.file_stem(run.title)}.html"',
        "Cache-Control": "no-store",
    }
    return HTMLResponse(text, headers=headers) if text else unrendered(headers)


@router.post("/runs/{run_id}/again")
async def draw_again(request: Request, run_id: RunId, service: Core, identity: Refiner) -> Response:
    """Ask for a new run like this one: with its seed or another, or by another profile."""
    form = await request.form()
    given = {name: str(form.get(name) or "").strip()[:200] for name in ("key", "seed", "profile")}
    wanted = await request_again_of(service, await service.run(identity, run_id), **given)
    made, _ = await service.submit(identity, wanted, door="page")
    return RedirectResponse(f"/runs/{made.id}", 303)


async def request_again_of(
    service: Service, run: Run, *, key: str = "", seed: str = "", profile: str = ""
) -> RefinementRequest:
    """Return the request for a new run like ``run``, whose scene is as its edits left it.

    Raises ``Unprocessable`` for a seed that is no number.
    """
    asked = RefinementRequest.model_validate(run.request)
    try:
        result = await service.result(run)
    except (RunError, LogError, DamagedRun):
        # A damaged log: what was asked for is in the row.
        result = None
    scene = asked.scene if result is None else result.scene
    assert scene is not None
    if seed and not (seed.isdecimal() and len(seed) < 19):
        raise Unprocessable(f"the seed is {seed[:40]!r}: write a whole number from 0")
    update: dict[str, Any] = {"scene": scene, "director": None, "idempotency_key": None}
    if scene != asked.scene:
        update |= {"sentence": None, "unread": (), "awaits_reading": False}
    if asked.strategy == AGENT:
        # It is drawn by its profile's strategy.
        update["strategy"] = None
    if seed:
        update["seed"] = int(seed)
    if profile and profile != asked.profile:
        # Models and their options are those of that profile.
        own = [name for name, _ in asked.for_profile()]
        own += ["judges", "report_judges", "width", "height", "start", "mask"]
        update |= {**dict.fromkeys(own), "self_report": False, "profile": profile}
    if key:
        update["idempotency_key"] = form_key(key, {"seed": seed, "profile": profile})
    return asked.model_copy(update=update)


@router.get("/runs/{run_id}/edit")
async def show_edit_form(
    request: Request,
    run_id: RunId,
    service: Core,
    identity: Reader,
    base: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
) -> HTMLResponse:
    """Return the form in which a person corrects candidate ``base`` (none: the kept one)."""
    run = await service.run(identity, run_id)
    return await with_record(service, run, lambda view, _: _form(request, run, view, base))


def _form(request: Request, run: Run, view: RunRecord, base: int | None) -> HTMLResponse:
    judged = [r for r in view.rounds if r.candidate is not None and "loop" in r.cards]
    if not judged:
        raise Conflict("no picture of the run has been judged yet: wait for its first round")
    kept = view.best if view.best in judged else judged[-1]
    chosen = kept if base is None else next((r for r in judged if r.index == base), None)
    if chosen is None:
        numbers = ", ".join(str(r.index) for r in judged)
        raise NotFound(f"round {base} has no judged picture: choose one of rounds {numbers}")
    number = chosen.index
    # The run goes on from what the judges of the loop see.
    looks = {f.id: words.verdict_mark(chosen.verdict(f.id), chosen.unjudged) for f in view.facts}
    marks = {
        fact.id: Mark(look := looks[fact.id], words.MEANINGS[look], fact=fact.id)
        for fact in view.facts
    }
    tells = assign_verdicts(view.facts, chosen.verdicts())
    marks |= {fact: marks[shown] for fact, shown in tells.items()}
    groups = [
        (name, [fact for fact in view.facts if fact.kind == kind])
        for kind, name in KIND_NAMES.items()
    ]
    facts = [
        {n: chosen.state(fact.id) if n == "state" else getattr(fact, n) for n in SCRIPT_FIELDS}
        | {"look": looks[fact.id]}
        for fact in view.facts
    ]
    return page(
        request,
        "edit.html.j2",
        run=run.id,
        chosen=chosen,
        looks=looks,
        kept=kept,
        rounds=judged,
        picture=picture_of(view, chosen),
        alt=alt_of(view, chosen),
        groups=[group for group in groups if group[1]],
        drawing=Markup(draw_graph(view.scene, view.facts, marks, f"Scene graph, round {number}")),
        facts=json.dumps(facts),
        scene=view.scene.model_dump_json(),
    )


async def _live_page(
    request: Request, template: str, service: Service, identity: Identity, run_id: str
) -> HTMLResponse:
    run = await service.run(identity, run_id)
    position = await service.store.position(run)
    show = linked(f"/v1/refinements/{run.id}/images")
    refines = "refine" in identity.scopes
    instead = await _instead(service, run) if refines and run.status == "failed" else ""

    def write(view: RunRecord, events: int) -> HTMLResponse:
        if request.method == "HEAD":
            return page(request, template)
        return page(
            request,
            template,
            page=page_content(view, show, True),
            chart=Markup(draw_chart(view)),
            events=events,
            live=_live_context(run, view, position, refines, instead),
        )

    return await with_record(service, run, write)


async def _instead(service: Service, run: Run) -> str:
    """Return the profile that runs everywhere, where it can draw the scene of ``run``."""
    used = run.request.get("profile") or service.base.profile
    allowed = service.settings.profiles
    if used == MINIATURE or (allowed and MINIATURE not in allowed):
        return ""
    try:
        asked = await request_again_of(service, run, profile=MINIATURE)
        covered = await service.covered(asked, taken=True)
    except ServiceError:
        # What it was asked for fits no other profile: its own page tells the error all the same.
        return ""
    return "" if covered.nothing else MINIATURE


async def with_record(service: Service, run: Run, make: Callable[[RunRecord, int], T]) -> T:
    """Return what ``make`` makes of the view of the run's folder and the number of its events.

    A run that has not begun shows its scene and its questions. All is worked out aside: reading the
    log of a large scene and writing its page take longer than others may wait.
    """
    folder = await service.artifacts.whole(run.id)

    def compute() -> T:
        return make(*_record_of(run, folder, service.base))

    return await service.worker_thread.compute(size_of_request(run.request), compute)


def _record_of(run: Run, folder: Path, settings: Settings) -> tuple[RunRecord, int]:
    events = count_lines(folder / EVENTS)
    if events:
        with reading(run.id):
            return read_run(folder), events
    request = RefinementRequest.model_validate(run.request)
    assert request.scene is not None
    try:
        form = profile_of(request, settings).form(request.realism)
    except Unprocessable:
        # Its profile is no longer there: the run itself will fail with that reason.
        form = QuestionForm(realism=request.realism)
    begun = RunStarted(
        key="started",
        at=run.created,
        run_id=run.id,
        scene=request.scene,
        facts=form.facts(request.scene),
        config=request.model_dump(
            mode="json", exclude={"scene", "sentence", "unread"}, exclude_none=True
        ),
        sentence=request.sentence or "",
    )
    return record_of([begun], folder), events


def _live_context(
    run: Run, view: RunRecord, position: int | None, refines: bool, instead: str
) -> dict[str, Any]:
    """Return the state of ``run`` and the actions that its page offers.

    ``refines``: whether the reader may change it; ``instead``: the profile offered in place of its
    own.
    """
    options = view.config.get("options", view.config)
    strategy = options.get("strategy") if isinstance(options, dict) else None
    # A run that a director or an agent directs takes no edits.
    edits = not {DIRECTOR, AGENT}.intersection((run.request.get("strategy"), strategy))
    judged = any("loop" in r.cards for r in view.rounds)
    possible: dict[Status, tuple[str, ...]] = {
        "queued": ("cancel",),
        "running": ("pause", "edit", "cancel") if not run.wants else ("edit", "cancel"),
        "paused": ("resume", "edit", "cancel"),
        "finished": ("edit",),
        "failed": ("resume", "edit"),
        "cancelled": ("resume", "edit"),
    }
    return {
        "run": run,
        "name": STATUS_NAMES[run.status],
        "line": words.begun(_status_line(run, view, position)),
        "still": run.status in STANDS_STILL,
        "ended": run.status in ENDED,
        "actions": [
            action
            for action in possible[run.status]
            if refines
            and (edits or action not in ("edit", "pause"))
            and (judged or action != "edit" or run.status == "running")
        ],
        "again": refines and run.status in STANDS_STILL,
        "instead": instead,
        "commands": words.commands_in(run.error or ""),
        # A form that is sent twice is one run.
        "key": secrets.token_hex(12),
        "seed": secrets.randbelow(10**6) + 1,
    }


def _status_line(run: Run, view: RunRecord, position: int | None) -> str:
    if run.status == "queued":
        return f"{words.count(position, 'run')} before it" if position else "it is next"
    if run.status == "running":
        stage = stage_of(view)
        if run.wants == "pause":
            return f"{stage}; it pauses before the next round"
        return f"{stage}; it stops now" if run.wants == "cancel" else stage
    if run.status == "paused":
        return "it waits for you: correct what you see, or go on"
    if run.status == "finished":
        return words.stop_line(view)
    if not view.drawn:
        return "nothing has been drawn; it can go on"
    return "what was drawn is kept, and it can go on"


def stage_of(view: RunRecord) -> str:
    """Return in words what a running run does now."""
    if not view.rounds:
        return "writing the prompt"
    if view.finished is not None:
        return "going on"
    newest = view.rounds[-1]
    name = f"round {newest.index}: "
    if newest.candidate is None:
        plan = newest.plan
        waits = plan is not None and plan.reference is not None and newest.reference is None
        return name + ("drawing what is missing" if waits else "drawing the scene")
    if "loop" not in newest.cards:
        return name + "the judges look at it"
    if any(call.role == "report" for r in view.rounds for call in r.calls):
        return "the report judges look at the pictures"
    return name + "deciding what comes next"


def picture_of(view: RunRecord, shown: Round) -> Picture | None:
    """Return the candidate of a round by its address; none if its file is not there."""
    if shown.candidate is None:
        return None
    show = linked(f"/v1/refinements/{view.folder.name}/images")
    return show(view.image_path(shown.candidate.image), 512)


def alt_of(view: RunRecord, shown: Round) -> str:
    """Return the alternative text of a round's candidate."""
    return f"Round {shown.index}: {words.scene_words(view.scene)}. {held_line(view, shown)}."


def held_line(view: RunRecord, shown: Round) -> str:
    """Return how many facts hold in a round's candidate."""
    return words.verdict_line(shown.shown_card, view.asked(shown.index).scene)

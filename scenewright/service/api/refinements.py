"""Runs: asked for, listed, watched, paused, cancelled, edited, resumed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from sqlalchemy.exc import SQLAlchemyError
from sse_starlette import EventSourceResponse, ServerSentEvent

from scenewright.service.api.common import (
    Core,
    LargeBodyRoute,
    Reader,
    Refiner,
    RunId,
    event_stream,
    large_reply,
)
from scenewright.service.core.errors import ServiceError, Unprocessable, problem
from scenewright.service.core.identity import Identity
from scenewright.service.core.schemas import (
    Door,
    EditRequest,
    IdempotencyKey,
    Refinement,
    RefinementList,
    RefinementRequest,
    Status,
)
from scenewright.service.core.service import Service, remove
from scenewright.service.core.store import MAX_LISTED, Run, brief_of
from scenewright.service.core.worker_thread import size_of_request

router = APIRouter(prefix="/v1/refinements", tags=["refinements"], route_class=LargeBodyRoute)

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events of the run (`id`: number, `event`: type, `data`: JSON); `step`, "
        "`partial_image`, `retrying`, `status` and `problem` (what went wrong, in words) have no "
        "id. Ends when the run ends or pauses.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.post("", summary="Ask for a run", status_code=202, response_model=Refinement)
async def create(
    asked: RefinementRequest,
    service: Core,
    identity: Refiner,
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
    sec_fetch_site: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Ask for a run.

    The same idempotency key with the same request gives the run that is there, with status 200.
    """
    if idempotency_key is not None:
        if asked.idempotency_key not in (None, idempotency_key):
            raise Unprocessable("the header and the body have different idempotency keys: use one")
        asked = asked.model_copy(update={"idempotency_key": idempotency_key})
    # A browser says so of the requests that our own pages make.
    door: Door = "page" if sec_fetch_site == "same-origin" else "api"
    run, new = await service.submit(identity, asked, door)
    place = {"Location": f"/v1/refinements/{run.id}"}
    return await _shown(service, run, 202 if new else 200, place)


@router.get("", summary="List your runs", response_model=RefinementList)
async def listed(
    service: Core,
    identity: Reader,
    status: Annotated[list[Status] | None, Query(description="Only runs that stand so.")] = None,
    words: Annotated[
        str, Query(max_length=200, description="Words that the title must contain.")
    ] = "",
    before: Annotated[
        str | None, Query(max_length=60, description="`next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="Most runs.")] = 50,
) -> RefinementList:
    """Your runs, newest first."""
    runs, following = await service.store.list(
        identity.tenant, status=status or (), words=words, before=before, limit=limit, brief=True
    )
    return RefinementList(items=tuple(map(brief_of, runs)), next=following)


@router.get("/{run_id}", summary="See a run", response_model=Refinement)
async def one(run_id: RunId, service: Core, identity: Reader) -> Response:
    """Return a run with its rounds, scores and what is missing."""
    return await _shown(service, await service.run(identity, run_id), 200)


@router.delete("/{run_id}", summary="Take a run away", status_code=204, response_model=None)
async def taken_away(run_id: RunId, service: Core, identity: Refiner) -> Response:
    """Take a run away for good, with its pictures. What it has cost stays counted."""
    await remove(service, identity, run_id)
    return Response(status_code=204)


@router.get(
    "/{run_id}/events", summary="Watch a run", response_class=EventSourceResponse, responses=_EVENTS
)
async def events(
    run_id: RunId,
    service: Core,
    identity: Reader,
    last_event_id: Annotated[
        str | None, Header(description="Number of the last event that was heard.")
    ] = None,
    after: Annotated[
        int | None, Query(ge=-1, lt=2**31, description="The same, for those who set no headers.")
    ] = None,
) -> EventSourceResponse:
    """Stream the events of the run: the missed ones first, then as they happen."""
    run = await service.run(identity, run_id)
    heard = -1 if after is None else after
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdecimal()) or len(last_event_id) > 9:
            raise Unprocessable(
                f"Last-Event-ID is {last_event_id[:40]!r}: send the number of the last event of "
                "this run that you have heard, or leave the header out to hear all of them"
            )
        heard = int(last_event_id)
    return event_stream(service, _stream(service, identity, run, heard))


async def _stream(
    service: Service, identity: Identity, run: Run, after: int
) -> AsyncGenerator[ServerSentEvent, None]:
    try:
        stored = await service.stored_events(run) if after >= 0 else 0
        if after >= stored and after >= 0:
            # The log may have been cut after a power cut: what its client knows is no longer so.
            yield _problem(
                404,
                f"this run has no event {after}, it has {stored} so far: all events follow, from "
                "number 0. Forget those that you have heard",
            )
            after = -1
        async with aclosing(service.follow(identity, run, after, watching=True)) as heard:
            async for told in heard:
                if told is not None:
                    number = None if told.number is None else str(told.number)
                    yield ServerSentEvent(told.data, event=told.kind, id=number)
    except ServiceError as error:
        yield _problem(error.status, service.disclosure.text(error))
    except (SQLAlchemyError, OSError) as error:
        # A client that loses the stream comes again with the number of what it has heard.
        away = service.storage.error_of(error)
        if away is None:
            raise
        yield _problem(away.status, away.detail)


def _problem(status: int, detail: str) -> ServerSentEvent:
    """Return an error in a stream that has begun."""
    return ServerSentEvent(json.dumps(problem(status, detail)), event="problem")


@router.post("/{run_id}/pause", summary="Pause a run", status_code=202, response_model=Refinement)
async def pause(run_id: RunId, service: Core, identity: Refiner) -> Response:
    """Have a running run wait for you before its next round."""
    return await _shown(service, await service.pause(identity, run_id))


@router.post("/{run_id}/cancel", summary="Cancel a run", status_code=202, response_model=Refinement)
async def cancel(run_id: RunId, service: Core, identity: Refiner) -> Response:
    """Stop a run. What it has is kept, and it can be resumed."""
    return await _shown(service, await service.cancel(identity, run_id))


@router.post("/{run_id}/resume", summary="Resume a run", status_code=202, response_model=Refinement)
async def resume(run_id: RunId, service: Core, identity: Refiner) -> Response:
    """Go on with a paused, failed or cancelled run."""
    return await _shown(service, await service.resume(identity, run_id))


@router.post("/{run_id}/edits", summary="Correct a run", status_code=202, response_model=Refinement)
async def edit(run_id: RunId, given: EditRequest, service: Core, identity: Refiner) -> Response:
    """Correct a paused or ended run; it goes on from there."""
    return await _shown(service, await service.edit(identity, run_id, given))


async def _shown(
    service: Service, run: Run, status: int = 202, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the reply that shows ``run``."""
    found, size = await service.view(run), size_of_request(run.request)
    return await large_reply(service, size, found, status_code=status, headers=headers)

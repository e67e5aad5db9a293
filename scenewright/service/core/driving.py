"""One run driven to where it stands still, everything that happens told and kept."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scenewright.config.profiles import DIRECTOR
from scenewright.core.flushing import write_text
from scenewright.graphs.errors import EditError, ModelsChangedError
from scenewright.graphs.events import (
    STREAMED,
    Edit,
    Event,
    Finished,
    Generated,
    Judged,
    PartialImage,
    Paused,
)
from scenewright.graphs.initial_image import load_initial_image
from scenewright.runs.api import stream_plan
from scenewright.runs.folder import EVENTS, PARTIAL_IMAGE, WATCHED, RunBusy, RunFolder
from scenewright.runs.plan import RunPlan, plan_again, plan_run
from scenewright.runs.record import record_of
from scenewright.runs.report.words import differ, outcome_line
from scenewright.runs.result import RunResult, load_run, result_of
from scenewright.service.core.artifacts.base import Working
from scenewright.service.core.errors import NotFound, ServiceError
from scenewright.service.core.event_broadcast import BroadcastEvent, read_lines
from scenewright.service.core.observing.observers import Observability, RunObserver
from scenewright.service.core.parts import Models, ServiceParts
from scenewright.service.core.requests import AGENT, profile_of, run_arguments
from scenewright.service.core.schemas import RefinementRequest, Status, Summary
from scenewright.service.core.store import Run, save_run_progress

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunControl:
    """Requests to a run at work."""

    pause: bool = False
    """Stop before the next round is planned and wait for a person."""
    cancel: bool = False
    """Stop at once."""
    drain: bool = False
    """Stop after the step at work: the server ends."""


@dataclass(frozen=True, slots=True)
class DriveResult:
    """State of a run now."""

    status: Status
    """Its status; ``queued`` where it is to go on later."""
    error: str | None = None
    """Why it failed."""
    summary: Mapping[str, Any] | None = None
    """Progress; none where that is not known here."""
    tried: bool = True
    """Whether this counts among the attempts to drive it: not where it was left to go on later."""


class Driver:
    """Drives runs; what they do is told by the broadcaster and kept in the store."""

    def __init__(
        self,
        parts: ServiceParts,
        models: Models | None = None,
        observing: Observability | None = None,
    ) -> None:
        """Drive runs of the service of ``parts``; the others take the places of its own."""
        self._parts = parts
        self._models = models or parts.replaced
        self._observing = observing or parts.observing

    async def drive(self, run: Run, control: RunControl) -> DriveResult:
        """Drive ``run`` until it ends, pauses or is stopped by ``control``.

        Cancelling the task stops it at once; what is done is kept.
        """
        parts = self._parts
        profile = str(run.request.get("profile") or parts.base.profile)
        with self._observing.run(run, profile) as watch:
            try:
                if run.request.get("strategy") == AGENT:
                    done = await self._stand_by(run)
                else:
                    owned = functools.partial(self._owned, run)
                    async with parts.artifacts.working(run.id, owned) as working:
                        done = await self._stepped(run, control, watch, working)
            except asyncio.CancelledError:
                watch.status = "cancelled" if control.cancel else "queued"
                raise
            except RunBusy:
                watch.status = "queued"
                raise
            except Exception as error:
                watch.error = type(error).__name__
                raise
            watch.status = done.status
            return done

    async def _stepped(
        self, run: Run, control: RunControl, watch: RunObserver, working: Working
    ) -> DriveResult:
        # A server that was killed leaves the partial image of a picture that is begun anew.
        await asyncio.to_thread(self._show_partial, run.id, None)
        known = (await asyncio.to_thread(read_lines, self._parts.folder(run.id) / EVENTS, None, 0))[
            0
        ]
        told = known[0] if known is not None else 0
        events: list[Event] = []
        try:
            plan = await asyncio.to_thread(self._plan, run, control)
            async with (
                aclosing(stream_plan(plan)) as stream,
                save_run_progress(
                    self._parts.store,
                    run,
                    lambda: self._summary(run, events),
                    self._parts.storage.note,
                ) as further,
            ):
                async for event in stream:
                    if isinstance(event, STREAMED):
                        line = event.model_dump_json()
                        self._parts.broadcaster.tell(run.id, BroadcastEvent(event.type, line))
                        if isinstance(event, PartialImage):
                            await asyncio.to_thread(self._show_partial, run.id, line)
                        continue
                    if isinstance(event, Generated):
                        await asyncio.to_thread(self._show_partial, run.id, None)
                    number = len(events)
                    events.append(event)
                    # Nobody hears what would be lost with this machine.
                    await working.push()
                    line = event.model_dump_json()
                    self._parts.broadcaster.tell(run.id, BroadcastEvent(event.type, line, number))
                    if number >= told:
                        watch.event(event)
                    if number >= told and isinstance(event, Generated | Judged | Finished):
                        further()
        except EditError as error:
            # What was asked cannot be done; the run itself stands where it stood.
            result = await asyncio.to_thread(load_run, self._parts.folder(run.id))
            return DriveResult(
                "paused" if result.paused else "finished", self._parts.disclosure.text(error)
            )
        except ModelsChangedError as error:
            # The command line's remedies, a folder and an option, are not a client's.
            raise ServiceError(
                f"the run was begun with other models: {error.differences}. Draw it again as a "
                "new run; with the models of its beginning it can be resumed"
            ) from error
        finally:
            self._show_partial(run.id, None)
            with suppress(OSError):
                (self._parts.folder(run.id) / WATCHED).unlink(missing_ok=True)
        last = events[-1] if events else None
        # A server that was killed just after an event has not kept what that changed.
        summary = await asyncio.to_thread(self._summary, run, events) if events else None
        if isinstance(last, Paused):
            return DriveResult("paused", summary=summary)
        if isinstance(last, Finished):
            return DriveResult("finished", summary=summary)
        return DriveResult("queued", summary=summary, tried=False)

    def _show_partial(self, run: str, line: str | None) -> None:
        """Keep the newest partial image where the pages of other processes find it."""
        place = self._parts.folder(run) / PARTIAL_IMAGE
        try:
            if line is None:
                place.unlink(missing_ok=True)
            else:
                write_text(place, line)
        except OSError as error:
            if self._parts.storage.note(error):
                return
            log.warning("the partial image of run %s is not shown elsewhere: %s", run, error)

    async def _stand_by(self, run: Run) -> DriveResult:
        """Return a run that an agent directs waits for its next tool, or is over.

        Nothing is driven.
        """
        log = await self._parts.artifacts.log(run.id) / EVENTS
        lines = (await asyncio.to_thread(read_lines, log, None, 0))[1]
        over = any(json.loads(line)["type"] == "finished" for line in lines[-1:])
        told = "an agent directs this run over MCP: it cannot be edited" if run.edit else None
        return DriveResult("finished" if over else "paused", told)

    async def _owned(self, run: Run) -> bool:
        """Whether the run's row still says that ``run.owner`` drives it."""
        try:
            found = await self._parts.store.get(run.id)
        except NotFound:
            return False
        except (SQLAlchemyError, OSError) as error:
            # Nothing is spoilt if it is not: its files here are no longer the run's then.
            if not self._parts.storage.note(error):
                log.warning("whether run %s is driven here cannot be asked: %s", run.id, error)
            return True
        return found.status == "running" and found.owner == run.owner

    def _plan(self, run: Run, control: RunControl) -> RunPlan:
        """Return the run's plan: that of the run folder's manifest, if the run has begun."""
        request = RefinementRequest.model_validate(run.request)
        given = dict(self._models(request))
        folder, profile = self._parts.folder(run.id), profile_of(request, self._parts.base)
        given |= {
            "edit": None if run.edit is None else Edit.model_validate(run.edit),
            # The director itself decides each step, and cannot be asked to wait.
            "pause": None if profile.strategy == DIRECTOR else (lambda: control.pause),
            "checkpoints": self._parts.checkpoints,
            "settings": self._parts.base,
        }
        sent = (request.start, request.mask)
        uploads = self._parts.uploads
        pictures = load_initial_image(
            *(uploads.find(run.tenant, digest) if digest else None for digest in sent)
        )
        if RunFolder(folder).manifest() is not None:
            # A kill may have come before they were kept in the run folder.
            plan = replace(plan_again(folder, **given), pictures=pictures)
        else:
            given |= {"start": pictures.start, "mask": pictures.mask, "out": folder}
            plan = plan_run(**run_arguments(request, self._parts.base), **given)
        return replace(
            plan,
            drain=lambda: control.drain,
            watched=lambda: self._parts.broadcaster.watched(run.id, folder),
        )

    def _summary(self, run: Run, events: list[Event]) -> dict[str, Any]:
        return summary_of(result_of(record_of(events, self._parts.folder(run.id)))).model_dump(
            mode="json"
        )


def summary_of(result: RunResult) -> Summary:
    """Return a run at a glance."""
    totals = result.totals
    loop, report = result.loop_card, result.report_card
    return Summary(
        rounds=len(result.rounds),
        best_round=result.best_round,
        image=result.best.image if result.best is not None else None,
        stop_reason=result.stop_reason,
        limit=result.limit,
        satisfied=loop.satisfied if loop is not None else None,
        confirmed=not differ(loop, report) if loop is not None and report is not None else None,
        verdict=outcome_line(loop, result.scene, result.facts, report, result.reporting)
        if loop is not None
        else "",
        loop_score=result.score("loop"),
        report_score=result.score("report"),
        reporting=result.reporting.kind,
        usd=totals["usd"],
        images=int(totals["images"]),
        judge_calls=int(totals["judge_calls"]),
        seconds=totals["seconds"],
    )

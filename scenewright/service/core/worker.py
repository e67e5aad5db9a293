"""Runs driven: one to where it stands still, and as many at once as the worker may.

Everything that happens in a run is told and kept; the worker says that it is alive.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import math
import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scenewright.config.profiles import DIRECTOR
from scenewright.core.error_text import is_own
from scenewright.core.flushing import write_text
from scenewright.graphs.errors import EditError, ModelsChangedError, RunInterrupted
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
from scenewright.runs.record import record_of, shown_role
from scenewright.runs.report.words import differ, outcome_line
from scenewright.runs.result import RunResult, load_run, result_of
from scenewright.service.core.artifacts.base import Push
from scenewright.service.core.errors import NotFound, ServiceError
from scenewright.service.core.event_broadcast import BroadcastEvent, count_lines, read_lines
from scenewright.service.core.jobs.base import set_within
from scenewright.service.core.observing.observers import Observability, RunObserver
from scenewright.service.core.parts import Models, ServiceParts
from scenewright.service.core.requests import AGENT, profile_of, run_arguments
from scenewright.service.core.schemas import RefinementRequest, Status, Summary
from scenewright.service.core.storage import problem_of
from scenewright.service.core.store import Run, save_run_progress

log = logging.getLogger(__name__)

MOST_TRIES = 20
"""Number of claims of a run without progress before it is given up."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""Between two looks at what other servers and their people have done."""
_PROCESS = secrets.token_hex(6)
"""Number that separates this process from an earlier one of the same number."""


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
                    async with parts.artifacts.working(run.id, owned) as push:
                        done = await self._stepped(run, control, watch, push)
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
        self, run: Run, control: RunControl, watch: RunObserver, push: Push
    ) -> DriveResult:
        parts, folder = self._parts, self._parts.folder(run.id)

        def summary() -> dict[str, Any]:
            found = result_of(record_of(events, folder))
            return summary_of(found).model_dump(mode="json")

        # A server that was killed leaves the partial image of a picture that is begun anew.
        await asyncio.to_thread(self._show_partial, run.id, None)
        told = await asyncio.to_thread(count_lines, folder / EVENTS)
        events: list[Event] = []
        try:
            plan = await asyncio.to_thread(self._plan, run, control)
            async with (
                aclosing(stream_plan(plan)) as stream,
                save_run_progress(parts.store, run, summary, parts.storage.note) as further,
            ):
                async for event in stream:
                    if isinstance(event, STREAMED):
                        line = event.model_dump_json()
                        parts.broadcaster.tell(run.id, BroadcastEvent(event.type, line))
                        if isinstance(event, PartialImage):
                            await asyncio.to_thread(self._show_partial, run.id, line)
                        continue
                    if isinstance(event, Generated):
                        await asyncio.to_thread(self._show_partial, run.id, None)
                    number = len(events)
                    events.append(event)
                    # Nobody hears what would be lost with this machine.
                    await push()
                    line = event.model_dump_json()
                    parts.broadcaster.tell(run.id, BroadcastEvent(event.type, line, number))
                    if number >= told:
                        watch.event(event)
                    if number >= told and isinstance(event, Generated | Judged | Finished):
                        further()
        except EditError as error:
            # What was asked cannot be done; the run itself stands where it stood.
            result = await asyncio.to_thread(load_run, folder)
            status: Status = "paused" if result.paused else "finished"
            return DriveResult(status, parts.disclosure.text(error))
        except ModelsChangedError as error:
            # The command line's remedies, a folder and an option, are not a client's.
            raise ServiceError(
                f"the run was begun with other models: {error.differences}. Draw it again as a "
                "new run; with the models of its beginning it can be resumed"
            ) from error
        finally:
            self._show_partial(run.id, None)
            with suppress(OSError):
                (folder / WATCHED).unlink(missing_ok=True)
        last = events[-1] if events else None
        # A server that was killed just after an event has not kept what that changed.
        kept = await asyncio.to_thread(summary) if events else None
        if isinstance(last, Paused):
            return DriveResult("paused", summary=kept)
        if isinstance(last, Finished):
            return DriveResult("finished", summary=kept)
        return DriveResult("queued", summary=kept, tried=False)

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


def summary_of(result: RunResult) -> Summary:
    """Return a run at a glance."""
    totals = result.totals
    loop, report = result.loop_card, result.report_card
    shown = report if shown_role(loop, report) == "report" else loop
    return Summary(
        rounds=len(result.rounds),
        best_round=result.best_round,
        image=result.best.image if result.best is not None else None,
        stop_reason=result.stop_reason,
        limit=result.limit,
        unscored=shown.unscored if shown is not None else 0,
        satisfied=loop.satisfied if loop is not None else None,
        confirmed=not differ(loop, report) if loop is not None and report is not None else None,
        verdict=outcome_line(loop, result.scene, result.facts, report) if loop is not None else "",
        loop_score=result.score("loop"),
        report_score=result.score("report"),
        reporting=result.reporting.kind,
        usd=totals["usd"],
        images=int(totals["images"]),
        judge_calls=int(totals["judge_calls"]),
        seconds=totals["seconds"],
    )


@dataclass(slots=True)
class _Work:
    run: Run
    control: RunControl = field(default_factory=RunControl)
    task: asyncio.Task[bool] | None = None
    driving: bool = False
    """Whether it is driven just now: what begins it and what keeps its end is not cut off."""

    def stop(self) -> None:
        """Stop it where it is, if it is driven."""
        if self.driving and self.task is not None:
            self.task.cancel()


class Worker:
    """Drives runs until it is drained. One event loop uses it."""

    def __init__(self, parts: ServiceParts) -> None:
        """Drive the runs that the jobs of ``parts`` bring.

        No run begins while something is wrong with its storage.
        """
        self._storage, self._store, self._jobs = parts.storage, parts.store, parts.jobs
        self._broadcaster, self._client_text = parts.broadcaster, parts.disclosure.text
        self.note = parts.storage.note
        self._driver = Driver(parts)
        self.running = parts.settings.running
        """Runs that it drives at once."""
        self._lease = parts.settings.lease_seconds
        """Seconds of silence after which others take its runs over."""
        self.owner = "|".join(
            (socket.gethostname()[:60], str(os.getpid()), _PROCESS, secrets.token_hex(4))
        )
        """Name of the worker in the database."""
        self._work: dict[str, _Work] = {}
        self._claiming = 0
        self._ended = asyncio.Event()
        self._look_now = asyncio.Event()
        self._draining = False
        self._looked = self._judges_from = 0.0
        """When the database was looked at; from when on others may be called silent."""
        self.ready = asyncio.Event()
        """Set once the runs of a server that was killed are in line again."""

    @property
    def active(self) -> int:
        """Runs that are driven now."""
        return len(self._work)

    @property
    def draining(self) -> bool:
        """Whether it takes no further runs."""
        return self._draining

    @property
    def has_room(self) -> bool:
        """Whether it may begin a further run."""
        return len(self._work) + self._claiming < self.running

    async def room(self) -> None:
        """Return once there is room for a further run, or none is taken any more."""
        while not self.has_room and not self._draining:
            self._ended.clear()
            await self._ended.wait()

    def wake(self) -> None:
        """Look at the queue: a run waits."""
        self._look_now.set()
        self._jobs.wake()

    def request(self, run: str, *, pause: bool = False, cancel: bool = False) -> None:
        """Tell a run at work here what is wanted of it; another server finds it in the database."""
        work = self._work.get(run)
        if work is None:
            return
        work.control.pause |= pause
        if cancel:
            work.control.cancel = True
            work.stop()

    async def run(self) -> None:
        """Work until :meth:`drain`."""
        self._looked = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_on())
            group.create_task(self._jobs.bring(self))

    async def begin(self, run: str | None = None) -> asyncio.Task[bool] | None:
        """Claim a run and drive it: ``run``, or the one that has waited longest. See ``Taker``."""
        if self._storage.problem is not None:
            return None
        self._claiming += 1
        try:
            found = await self._store.claim(self.owner, self._lease, run)
        finally:
            self._claiming -= 1
            self._ended.set()
        if found is None:
            return None
        work = self._work[found.id] = _Work(found)
        work.control.pause = found.wants == "pause"
        work.task = asyncio.create_task(self._attend(work), name=f"run {found.id}")
        return work.task

    async def drain(self, seconds: float) -> None:
        """Take no further runs; let those at work finish their step, and stop them after that.

        After ``seconds`` they are stopped where they are: the step is done again later.
        """
        self._draining = True
        self._jobs.stop()
        self._ended.set()
        for work in self._work.values():
            work.control.drain = True
        end = asyncio.get_running_loop().time() + seconds
        while self._work or self._claiming:
            tasks = [work.task for work in self._work.values() if work.task is not None]
            if not tasks:
                # What is being claimed just now is given back.
                self._ended.clear()
                await self._ended.wait()
                continue
            wait = max(0.0, end - asyncio.get_running_loop().time())
            if (await asyncio.wait(tasks, timeout=wait))[1]:
                for work in self._work.values():
                    work.stop()
                await asyncio.wait(tasks)
        self._look_now.set()

    async def _attend(self, work: _Work) -> bool:
        """Drive a run and keep how it ended; whether it is in line again."""
        run, control = work.run, work.control
        done = DriveResult("queued", tried=False)
        try:
            self._broadcaster.tell(run.id, BroadcastEvent("status", ""))
            if self._draining:
                # It was claimed just as the drain began.
                pass
            elif control.cancel or run.wants == "cancel":
                # The server that was to stop it was killed before it did.
                done = DriveResult("cancelled")
            elif run.attempts > MOST_TRIES:
                done = DriveResult(
                    "failed",
                    f"the service ended {MOST_TRIES} times while it drove this run, and the run "
                    "came no further: look at the service's log, then resume it",
                )
            else:
                work.driving = True
                done = await self._driven(run, control)
                work.driving = False
            kept = await self._store.end(
                run, done.status, error=done.error, summary=done.summary, tried=done.tried
            )
            if not kept:
                log.warning("run %s is no longer driven here", run.id)
            return kept and done.status == "queued"
        except (SQLAlchemyError, OSError) as error:
            # It stays claimed until the next look at the database, or until the lease runs out.
            self._look_now.set()
            if not self.note(error):
                log.exception("run %s cannot be kept", run.id)
            return False
        finally:
            del self._work[run.id]
            self._broadcaster.tell(run.id, BroadcastEvent("status", ""))
            self._ended.set()
            self._jobs.wake()

    async def _driven(self, run: Run, control: RunControl) -> DriveResult:
        """Drive the run; what stands in its way for a moment only leaves it in line."""
        about = {
            "run": run.id, "tenant": run.tenant, "door": run.door, "attempt": run.attempts,
            "profile": run.request.get("profile"),
        }  # fmt: skip
        log.info("run begins", extra=about)
        try:
            try:
                done = await self._driver.drive(run, control)
            except Exception as error:
                problem = problem_of(error)
                full = problem is not None and problem.kind == "disk"
                passing = full or isinstance(error, RunInterrupted)
                if isinstance(error, RunBusy):
                    # A server that is about to end still holds the folder.
                    done = DriveResult("queued", tried=False)
                elif passing and run.attempts < MOST_TRIES:
                    if not self.note(error):
                        log.warning("run %s is interrupted and tried again: %s", run.id, error)
                    done = DriveResult("queued", problem.detail if problem and full else None)
                else:
                    unforeseen = not is_own(error)
                    told = "run fails" if unforeseen else f"run fails: {error}"
                    log.warning("%s", told, extra=about | {"status": "failed"}, exc_info=unforeseen)
                    return DriveResult("failed", self._client_text(error))
                await asyncio.sleep(_RETRY_SECONDS)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return DriveResult("cancelled" if control.cancel else "queued", tried=False)
        log.info("run has ended or paused", extra=about | {"status": done.status})
        return done

    async def _look_on(self) -> None:
        """Look at the database now and then, for as long as a run is at work here."""
        while not self._draining or self._work:
            self._look_now.clear()
            now = asyncio.get_running_loop().time()
            if now > self._looked + self._lease / 2:
                # The database was away, or this process stood still. The others may not have been
                # able to give a sign of life either: they get the time to do so.
                self._judges_from = now + self._lease
            try:
                if self._draining:
                    await self._hold()
                else:
                    silent = 0.0 if now >= self._judges_from else math.inf
                    freed = await self._store.recover(self._dead, silent)
                    self.ready.set()
                    await self._hold()
                    await self._jobs.look(freed)
                self._looked = now
                wait = min(_LOOK_SECONDS, self._lease / 3)
            except (SQLAlchemyError, OSError) as error:
                if not self.note(error):
                    log.exception("the database cannot be used; the worker tries again")
                wait = _RETRY_SECONDS
            await set_within(self._look_now, wait)

    async def _hold(self) -> None:
        """Say that the worker is alive, and hear what is wanted of its runs."""
        mine = list(self._work.values())
        held = await self._store.hold(self.owner, self._lease)
        for work in mine:
            run = work.run.id
            if run not in held and self._work.get(run) is work and work.driving:
                log.warning("run %s is another worker's now: it stops here", run)
                work.stop()
        for run, wants in held.items():
            if run not in self._work:
                lost = await self._store.get(run)
                if lost.owner != self.owner or run in self._work or self._claiming:
                    continue
                # Its end could not be kept: it goes on from where its folder stands.
                if await self._store.end(lost, "queued"):
                    await self._jobs.waits(run)
            elif wants:
                self.request(run, pause=wants == "pause", cancel=wants == "cancel")

    def _dead(self, owner: str) -> bool:
        """Whether a server of this machine has gone: its process is not there any more."""
        host, number, process, _ = owner.split("|")
        mine, pid, _, _ = self.owner.split("|")
        if host != mine or process == _PROCESS:
            return False
        if number == pid:
            return True
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

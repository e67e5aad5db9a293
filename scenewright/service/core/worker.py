"""The worker: drives as many runs at once as it may, and says that it is alive."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from scenewright.core.error_text import is_own
from scenewright.graphs.errors import RunInterrupted
from scenewright.runs.folder import RunBusy
from scenewright.service.core.driving import Driver, DriveResult, RunControl
from scenewright.service.core.event_broadcast import BroadcastEvent
from scenewright.service.core.jobs.base import set_within
from scenewright.service.core.parts import ServiceParts
from scenewright.service.core.storage import problem_of
from scenewright.service.core.store import Run

log = logging.getLogger(__name__)

MOST_TRIES = 20
"""Number of claims of a run without progress before it is given up."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""Between two looks at what other servers and their people have done."""
_PROCESS = secrets.token_hex(6)
"""Number that separates this process from an earlier one of the same number."""


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
                run,
                done.status,
                error=done.error,
                summary=done.summary,
                tried=done.tried,
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

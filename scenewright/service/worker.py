"""The worker: claims waiting runs and drives as many at once as it may."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from scenewright.graphs.errors import RunInterrupted
from scenewright.runfolder import RunBusy
from scenewright.service.driving import Driven, Driver, Wishes
from scenewright.service.live import Live, Told
from scenewright.service.store import Run, RunStore

log = logging.getLogger(__name__)

MOST_TRIES = 20
"""How often a run is claimed without coming any further before it is given up."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""Between two looks at what other servers and their people have done."""
_PROCESS = secrets.token_hex(6)
"""Tells this process from an earlier one of the same number."""


@dataclass(slots=True)
class _Work:
    run: Run
    wishes: Wishes = field(default_factory=Wishes)
    task: asyncio.Task[None] | None = None


class Worker:
    """Drives runs until it is drained. One event loop uses it."""

    def __init__(
        self,
        store: RunStore,
        live: Live,
        driver: Driver,
        *,
        running: int = 4,
        lease: float = 30.0,
    ) -> None:
        """``running``: runs driven at once; ``lease``: seconds after which others take over."""
        self._store = store
        self._live = live
        self._driver = driver
        self._running = running
        self._lease = lease
        self.owner = "|".join(
            (socket.gethostname()[:60], str(os.getpid()), _PROCESS, secrets.token_hex(4))
        )
        """How the worker is called in the database."""
        self._work: dict[str, _Work] = {}
        self._woken = asyncio.Event()
        self._draining = False
        self._next_look = 0.0
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

    def wake(self) -> None:
        """Look at the queue: a run waits."""
        self._woken.set()

    def wish(self, run: str, *, pause: bool = False, cancel: bool = False) -> None:
        """Tell a run at work here what is wanted of it; another server finds it in the database."""
        work = self._work.get(run)
        if work is None:
            return
        work.wishes.pause |= pause
        if cancel:
            work.wishes.cancel = True
            if work.task is not None:
                work.task.cancel()

    async def run(self) -> None:
        """Work until :meth:`drain`."""
        clock = asyncio.get_running_loop().time
        while not self._draining:
            try:
                # Before the queue is looked at: a run that comes meanwhile wakes it again.
                self._woken.clear()
                if clock() >= self._next_look:
                    await self._store.recover(self._dead)
                    self.ready.set()
                    await self._hold()
                    self._next_look = clock() + min(_LOOK_SECONDS, self._lease / 3)
                while len(self._work) < self._running and not self._draining:
                    found = await self._store.claim(self.owner, self._lease)
                    if found is None:
                        break
                    self._begin(found)
                wait = max(0.0, self._next_look - clock())
            except (SQLAlchemyError, OSError):
                log.exception("the database cannot be used; the worker tries again")
                self._next_look, wait = 0.0, _RETRY_SECONDS
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def drain(self, seconds: float) -> None:
        """Take no further runs; let those at work finish their step, and stop them after that.

        After ``seconds`` they are stopped where they are: the step is done again later.
        """
        self._draining = True
        self._woken.set()
        for work in self._work.values():
            work.wishes.drain = True
        tasks = [work.task for work in self._work.values() if work.task is not None]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _begin(self, run: Run) -> None:
        work = self._work[run.id] = _Work(run)
        work.wishes.pause = run.wants == "pause"
        work.task = asyncio.create_task(self._attend(work), name=f"run {run.id}")

    async def _attend(self, work: _Work) -> None:
        run, wishes = work.run, work.wishes
        try:
            self._live.tell(run.id, Told("status", ""))
            if run.wants == "cancel":
                # The server that was to stop it was killed before it did.
                done = Driven("cancelled")
            elif run.attempts > MOST_TRIES:
                done = Driven(
                    "failed",
                    f"the service ended {MOST_TRIES} times while it drove this run, and the run "
                    "came no further: look at the service's log, then resume it",
                )
            else:
                done = await self._driven(run, wishes)
            kept = await self._store.end(
                run,
                done.status,
                error=done.error,
                summary=done.summary,
                tried=done.tried,
            )
            if not kept:
                log.warning("run %s is no longer driven here", run.id)
        except (SQLAlchemyError, OSError):
            # It stays claimed until the next look at the database, or until the lease runs out.
            self._next_look = 0.0
            log.exception("run %s cannot be kept", run.id)
        finally:
            del self._work[run.id]
            self._live.tell(run.id, Told("status", ""))
            self._woken.set()

    async def _driven(self, run: Run, wishes: Wishes) -> Driven:
        about = {
            "run": run.id, "tenant": run.tenant, "door": run.door, "attempt": run.attempts,
            "profile": run.request.get("profile"),
        }  # fmt: skip
        log.info("run begins", extra=about)
        try:
            done = await self._tried(run, wishes)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return Driven("cancelled" if wishes.cancel else "queued", tried=False)
        except Exception as error:
            log.warning("run fails", extra=about | {"status": "failed"}, exc_info=True)
            return Driven("failed", str(error) or type(error).__name__)
        log.info("run stands still", extra=about | {"status": done.status})
        return done

    async def _tried(self, run: Run, wishes: Wishes) -> Driven:
        """Drive the run; what stands in its way for a moment only leaves it in line."""
        try:
            return await self._driver.drive(run, wishes)
        except RunBusy:
            # A server that is about to end still holds the folder.
            await asyncio.sleep(_RETRY_SECONDS)
            return Driven("queued", tried=False)
        except RunInterrupted as error:
            if run.attempts >= MOST_TRIES:
                raise
            log.warning("run %s is interrupted and tried again: %s", run.id, error)
            await asyncio.sleep(_RETRY_SECONDS)
            return Driven("queued")

    async def _hold(self) -> None:
        """Say that the worker is alive, and hear what is wanted of its runs."""
        for run, wants in (await self._store.hold(self.owner, self._lease)).items():
            if run not in self._work:
                # Its end could not be kept: it goes on from where its folder stands.
                lost = await self._store.get(run)
                if lost.owner == self.owner:
                    await self._store.end(lost, "queued")
            elif wants:
                self.wish(run, pause=wants == "pause", cancel=wants == "cancel")

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

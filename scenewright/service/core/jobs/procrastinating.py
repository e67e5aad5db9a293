"""Waiting runs brought to the workers of all processes by Procrastinate, in PostgreSQL.

A job only brings a run: the run's row says whether it waits, and who drives it. So a job too many
ends at once, one too few is made up for by the next look, and no run is driven twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import procrastinate
from procrastinate import exceptions
from procrastinate.jobs import Job, Status
from procrastinate.worker import Worker
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.providers.connection_worker import driver_url
from scenewright.service.core.database import READING, SCHEMA
from scenewright.service.core.jobs.base import JobError, Note, Taker, set_within
from scenewright.service.core.settings import ServiceSettings

log = logging.getLogger(__name__)

QUEUE = "runs"
TASK = "drive"
_FIRST = 1
"""Priority of a run that goes back in line: it had come to its turn before all that wait."""
_POLL_SECONDS = 1.0
"""Between two looks for jobs that nobody is told of, such as those that go back in line."""
_RETRY_SECONDS = 1.0
_AWAY_SECONDS = 10.0
_MOST_FOUND = 500
_WITHOUT_JOB = text(
    f"""SELECT id FROM runs WHERE status = 'queued'
    AND NOT EXISTS (SELECT FROM {SCHEMA}.procrastinate_jobs
                    WHERE queueing_lock = runs.id AND status = 'todo')
    AND NOT EXISTS (SELECT FROM {SCHEMA}.procrastinate_jobs
                    WHERE lock = runs.id AND status = 'doing')
    ORDER BY queued, id LIMIT {_MOST_FOUND}"""
)
_STATUS = text("SELECT status FROM runs WHERE id = :run")


class ProcrastinateJobs:
    """Brings runs as jobs of Procrastinate; see :func:`procrastinate_jobs`."""

    def __init__(
        self, app: procrastinate.App, engine: AsyncEngine, lease: float, note: Note
    ) -> None:
        """Bring runs as jobs of ``app``, which is open.

        ``engine``: the database of the rows; ``lease``: seconds of silence after which a worker's
        jobs are brought to another; ``note`` is told of errors of the database.
        """
        self._note = note
        self._app = app
        self._rows = engine.execution_options(**READING)
        self._lease = lease
        self._taker: Taker | None = None
        self._bringing: Worker | None = None
        self._stopped = asyncio.Event()
        app.task(name=TASK, queue=QUEUE)(self._drive)

    async def waits(self, run: str) -> None:
        """See ``Jobs``."""
        try:
            await self._defer(run)
        except exceptions.ConnectorException as error:
            if not self._note(error):
                log.exception("run %s gets its job later: the database cannot be used", run)

    def wake(self) -> None:
        """See ``Jobs``: Procrastinate hears of new jobs by itself."""

    def stop(self) -> None:
        """See ``Jobs``."""
        self._stopped.set()
        if self._bringing is not None:
            # The jobs at work end as their runs do.
            self._bringing.shutdown_graceful_timeout = None
            self._bringing.stop()  # type: ignore[no-untyped-call]

    async def bring(self, worker: Taker) -> None:
        """See ``Jobs``."""
        self._taker = worker
        while not self._stopped.is_set():
            self._bringing = Worker(
                self._app,
                queues=[QUEUE],
                concurrency=worker.running,
                fetch_job_polling_interval=_POLL_SECONDS,
                # Where the database fails it ends; the runs at work go on without it.
                shutdown_graceful_timeout=0.0,
                delete_jobs="always",
                install_signal_handlers=False,
                update_heartbeat_interval=self._lease / 3,
                stalled_worker_timeout=self._lease,
            )
            try:
                await self._bringing.run()  # type: ignore[no-untyped-call]
            except exceptions.ProcrastinateException as error:
                if not self._note(error):
                    log.exception("the job queue cannot be used; the worker tries again")
            finally:
                self._bringing = None
            await set_within(self._stopped, _RETRY_SECONDS)

    async def look(self, freed: Sequence[str]) -> None:
        """See ``Jobs``."""
        try:
            manager = self._app.job_manager
            for run in freed:
                # Its worker is gone: the job need not wait until that has been silent for long.
                for job in await manager.list_jobs_async(lock=run, status=Status.DOING.value):
                    await self._again(job)
            for job in await manager.get_stalled_jobs(
                task_name=TASK, seconds_since_heartbeat=self._lease
            ):
                async with self._rows.connect() as connection:
                    status = await connection.scalar(_STATUS, {"run": job.lock})
                if status == "queued":
                    await self._again(job)
                elif status != "running":
                    await self._end(job)
            async with self._rows.connect() as connection:
                found = list(await connection.scalars(_WITHOUT_JOB))
            for run in found:
                await self._defer(run)
        except exceptions.ConnectorException as error:
            raise JobError(f"the job queue cannot be used: {error.__cause__ or error}") from error

    async def _drive(self, run: str) -> None:
        """Return the job: drive ``run``, if it waits; a job more where it is in line again."""
        taker = self._taker
        assert taker is not None
        try:
            await taker.room()
            if taker.draining:
                await self._defer(run, _FIRST)
                return
            task = await taker.begin(run)
            # Who ends the job does not end the run.
            if task is not None and await asyncio.shield(task):
                await self._defer(run, _FIRST)
        except (SQLAlchemyError, OSError, exceptions.ConnectorException) as error:
            if not self._note(error):
                log.exception("run %s gets another job later: the database cannot be used", run)

    async def _defer(self, run: str, priority: int = 0) -> None:
        """Return a job for ``run``, unless one waits already."""
        task = self._app.configure_task(
            TASK, queue=QUEUE, lock=run, queueing_lock=run, priority=priority
        )
        try:
            await task.defer_async(run=run)
        except exceptions.AlreadyEnqueued:
            log.debug("run %s has a job already", run)

    async def _again(self, job: Job) -> None:
        """Have a job whose worker is gone brought to another."""
        assert job.id is not None
        log.warning("run %s is brought to another worker: its own is gone", job.lock)
        try:
            await self._app.job_manager.retry_job(job)
        except exceptions.UniqueViolation:
            # A new one waits already.
            await self._end(job)
        except exceptions.ConnectorException:
            if await self._is(job, Status.DOING):
                raise

    async def _end(self, job: Job) -> None:
        try:
            await self._app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
        except exceptions.ConnectorException:
            if await self._is(job, Status.DOING):
                raise

    async def _is(self, job: Job, status: Status) -> bool:
        """Whether a job still is as it was: another process may have been first."""
        found = await self._app.job_manager.list_jobs_async(id=job.id, status=status.value)
        return bool(list(found))


@asynccontextmanager
async def procrastinate_jobs(
    settings: ServiceSettings, engine: AsyncEngine, note: Note
) -> AsyncIterator[ProcrastinateJobs]:
    """Return the jobs in the database of ``settings``, whose tables are there.

    Closed at the end. ``note``: what is told of errors of the database.
    """
    url = driver_url(settings.url)
    given = str(conninfo_to_dict(url).get("options") or "")
    connector = procrastinate.PsycopgConnector(
        conninfo=url,
        kwargs={"options": f"{given} -c search_path={SCHEMA}".strip()},
        min_size=1,
        max_size=4,
        timeout=_AWAY_SECONDS,
    )
    app = procrastinate.App(connector=connector)
    async with app.open_async():
        yield ProcrastinateJobs(app, engine, settings.lease_seconds, note)

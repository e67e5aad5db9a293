"""Jobs of Procrastinate: every waiting run is brought to one worker, whatever was left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate.manager import JobManager
from sqlalchemy import text, update

from scenewright.config.profiles import SettingsError
from scenewright.service.core import database as databases
from scenewright.service.core.database import RUNS, SCHEMA
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.jobs.procrastinating import QUEUE, TASK, ProcrastinateJobs
from scenewright.service.core.lifespan import running
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run
from tests.service.databases import kept
from tests.service.working import Studio, begin, stands, still, twice, until

_SECONDS = 60.0


@pytest.fixture
def studio() -> Studio:
    return Studio()


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[ServiceSettings]:
    """Settings of servers on one PostgreSQL."""
    async with kept("postgresql", tmp_path) as settings:
        yield settings


def idle(settings: ServiceSettings) -> ServiceSettings:
    """The same without a worker."""
    return settings.model_copy(update={"work": False})


def manager_of(service: Service) -> JobManager:
    assert isinstance(service.jobs, ProcrastinateJobs)
    return service.jobs._app.job_manager


async def jobs(service: Service, run: Run) -> list[str]:
    """What state each job of a run is in."""
    return [str(job.status) for job in await manager_of(service).list_jobs_async(lock=run.id)]


async def no_jobs(service: Service, run: Run) -> None:
    """Return once a run has no job any more."""
    async with asyncio.timeout(_SECONDS):
        while await jobs(service, run):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def change(service: Service, run: Run, **values: Any) -> None:
    """Write a run's row as another process would have left it."""
    async with service.engine.begin() as connection:
        await connection.execute(update(RUNS).where(RUNS.c.id == run.id).values(**values))


async def test_a_server_without_a_worker_leaves_its_runs_to_another(
    shared: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    async with running(idle(shared), models=studio.models) as api:
        assert api.worker.ready.is_set()
        first, second = await begin(api, 1), await begin(api, 2)
        assert [(await api.store.get(run.id)).status for run in (first, second)] == ["queued"] * 2
        assert await jobs(api, first) == ["todo"]
        told = asyncio.create_task(_kinds(api, first))
        async with studio.service(shared) as worker:
            done = [await still(api, run) for run in (first, second)]
            assert {run.status for run in done} == {"finished"}
            await no_jobs(worker, first)
        assert "finished" in await told
        assert api.worker.active == 0
    assert not twice(studio.done("generate"))


async def _kinds(service: Service, run: Run) -> set[str]:
    """Kinds of all that a listener hears of a run."""
    async with asyncio.timeout(_SECONDS):
        return {t.kind async for t in service.follow(LOCAL, run) if t is not None}


async def test_a_run_that_waits_has_one_job_however_often_that_is_said(
    shared: ServiceSettings, studio: Studio
) -> None:
    async with running(idle(shared), models=studio.models) as api:
        run = await begin(api)
        await asyncio.gather(*(api.jobs.waits(run.id) for _ in range(4)))
        assert await jobs(api, run) == ["todo"]


async def test_a_run_without_a_job_is_found(shared: ServiceSettings, studio: Studio) -> None:
    studio.backend.gate.set()
    async with studio.service(shared) as service:
        pattern = await begin(service)
        await still(service, pattern)
        request = {**pattern.request, "seed": 7}
        run, _ = await service.store.create("local", request, title="no job")
        assert (await still(service, run)).status == "finished"


async def test_a_job_whose_run_does_not_wait_ends_and_draws_nothing(
    shared: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    async with running(idle(shared), models=studio.models) as api:
        run = await begin(api)
        await api.cancel(LOCAL, run.id)
        assert await jobs(api, run) == ["todo"]
        async with studio.service(shared) as worker:
            await no_jobs(worker, run)
            assert (await worker.store.get(run.id)).status == "cancelled"
            assert not studio.book.lines
            # And the run is none the worse for it.
            await api.resume(LOCAL, run.id)
            assert (await still(api, run)).status == "finished"


@pytest.mark.parametrize("fetched", ["before it was claimed", "and claimed", "and ended"])
async def test_the_job_of_a_worker_that_fell_silent_is_brought_to_another(
    shared: ServiceSettings, studio: Studio, fetched: str
) -> None:
    studio.backend.gate.set()
    async with running(idle(shared), models=studio.models) as api:
        run = await begin(api)
        manager = manager_of(api)
        job = await manager.fetch_job([QUEUE], await manager.register_worker())
        assert job is not None
        assert (job.task_name, job.lock, job.queueing_lock) == (TASK, run.id, run.id)
        async with api.engine.begin() as connection:
            await connection.execute(
                text(f"UPDATE {SCHEMA}.procrastinate_workers SET last_heartbeat = to_timestamp(0)")
            )
        if fetched == "and claimed":
            gone = f"{'x' * 12}|1|dead|0"
            await change(api, run, status="running", owner=gone, lease=time.time() - 1)
        elif fetched == "and ended":
            await change(api, run, status="failed")
        async with studio.service(shared) as worker:
            if fetched == "and ended":
                await no_jobs(worker, run)
                assert not studio.book.lines
            else:
                assert (await still(worker, run)).status == "finished"
                await no_jobs(worker, run)
    assert not twice(studio.done("generate"))


async def test_a_run_that_another_worker_has_taken_over_stops_here(
    shared: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(shared.model_copy(update={"lease_seconds": 1})) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        other = f"{'x' * 12}|1|other|0"
        await change(service, run, owner=other, lease=time.time() + 3600)
        await until(lambda: studio.backend.waiting == 0 and service.worker.active == 0)
        found = await service.store.get(run.id)
        assert (found.status, found.owner) == ("running", other)
    assert not studio.done("generate")


async def test_a_drained_worker_leaves_its_run_to_the_others(shared: ServiceSettings) -> None:
    first, second = Studio(), Studio()
    second.backend.gate.set()
    async with (
        running(idle(shared), models=first.models) as api,
        first.service(shared) as leaving,
    ):
        run = await begin(api)
        await until(lambda: first.backend.waiting == 1)
        async with second.service(shared) as staying:
            draining = asyncio.create_task(leaving.worker.drain(_SECONDS))
            await until(lambda: leaving.worker.draining)
            first.backend.gate.set()
            await draining
            assert len(first.done("generate")) == 1
            done = await still(api, run)
            assert done.status == "finished"
            assert done.summary is not None
            calls = [*first.done("generate"), *second.done("generate")]
            assert len(calls) == done.summary["images"]
            await no_jobs(staying, run)


@pytest.mark.slow
async def test_runs_that_come_while_connections_break_are_all_driven(
    shared: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    url = str(shared.database)
    async with running(idle(shared), models=studio.models) as api, studio.service(shared):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            runs = []
            for seed in range(4):
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                runs.append(await begin(api, seed))
        done = [await stands(api, run, "finished", "failed") for run in runs]
    assert [(run.status, run.error) for run in done] == [("finished", None)] * 4
    assert not twice(studio.done("generate"))


async def test_tables_of_an_older_procrastinate_are_brought_up_to_date(
    shared: ServiceSettings,
) -> None:
    step = "03.03.00_01_pre_priority_lock_fetch_job.sql"
    made = text("SELECT count(*) FROM pg_proc WHERE proname = 'procrastinate_fetch_job_v2'")
    async with databases.open_database(shared) as engine:
        async with engine.begin() as connection:
            known = await connection.execute(
                text(f"DELETE FROM {SCHEMA}.applied_migrations WHERE name = :step"), {"step": step}
            )
            assert known.rowcount == 1
            await connection.execute(text(f"DROP FUNCTION {SCHEMA}.procrastinate_fetch_job_v2"))
        async with engine.connect() as connection:
            assert await connection.scalar(made) == 0
        for _ in range(2):
            await databases.migrate(engine)
            async with engine.connect() as connection:
                assert await connection.scalar(made) == 1


async def test_a_server_without_a_worker_needs_the_database_of_one(
    settings: ServiceSettings,
) -> None:
    with pytest.raises(SettingsError, match="PostgreSQL"):
        async with running(idle(settings)):
            pass

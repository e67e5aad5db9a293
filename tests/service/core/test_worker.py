"""Runs driven by a service: as many as may at once, each to its end; none lost or drawn twice."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import JudgeError
from scenewright.runs.folder import RunFolder
from scenewright.service.core.database import RUNS
from scenewright.service.core.errors import Conflict
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.schemas import EditRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.worker import MOST_TRIES
from tests.service.databases import KINDS, kept
from tests.service.working import Studio, begin, stands, still, twice, until


@pytest.fixture
def studio() -> Studio:
    return Studio()


@pytest.fixture(params=KINDS)
async def either(request: Any, tmp_path: Path) -> AsyncIterator[ServiceSettings]:
    """Settings of a service on each kind of database."""
    async with kept(request.param, tmp_path) as settings:
        yield settings


async def result_of(service: Service, run: Any) -> dict[str, Any]:
    """What a run came to, without what differs from one folder to another."""
    result = await service.result(run)
    assert result is not None
    return {
        "rounds": [(r.image, r.prompt, r.loop_card, r.report_card) for r in result.rounds],
        "best": result.best_round,
        "reason": result.stop_reason,
        "images": result.totals["images"],
        "judge_calls": result.totals["judge_calls"],
    }


async def test_as_many_runs_as_allowed_are_driven_at_once(
    settings: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(settings.model_copy(update={"running": 2})) as service:
        runs = [await begin(service, seed) for seed in range(5)]
        await until(lambda: studio.backend.waiting == 2)
        counts = await service.store.counts()
        assert (counts["running"], counts["queued"], service.worker.active) == (2, 3, 2)
        studio.backend.gate.set()
        done = [await still(service, run) for run in runs]
    assert {run.status for run in done} == {"finished"}
    assert studio.backend.most == 2
    assert not twice(studio.done("generate"))


async def test_one_run_is_judged_while_another_is_drawn(
    settings: ServiceSettings, studio: Studio
) -> None:
    asked: list[GenerationRequest] = []

    def first(request: GenerationRequest) -> bool:
        asked.append(request)
        return asked[0] is request

    studio.backend.holds = first
    async with studio.service(settings.model_copy(update={"running": 2})) as service:
        slow = await begin(service, 1)
        await until(lambda: studio.backend.waiting == 1)
        quick = await still(service, await begin(service, 2))
        assert quick.status == "finished"
        assert studio.done("answer")
        assert (await service.store.get(slow.id)).status == "running"
        studio.backend.gate.set()
        assert (await still(service, slow)).status == "finished"


async def test_a_drain_ends_the_step_at_work_and_keeps_it(
    either: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(either) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        draining = asyncio.create_task(service.worker.drain(20))
        await until(lambda: service.worker.draining)
        studio.backend.gate.set()
        await draining
        left = await service.store.get(run.id)
        assert (left.status, left.owner, left.attempts) == ("queued", None, 0)
        assert len(studio.done("generate")) == 1
    again = Studio()
    again.backend.gate.set()
    async with again.service(either) as service:
        assert (await still(service, run)).status == "finished"
        ended = await result_of(service, run)
        calm = await still(service, await begin(service, idempotency_key="calm"))
        assert await result_of(service, calm) == ended
    # Without the calm run's, which are the same as those of the run that was drained.
    calls = [*studio.done("generate"), *again.done("generate")]
    assert len(calls) == 2 * ended["images"]


async def test_a_drain_that_takes_too_long_loses_nothing(
    settings: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(settings) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        async with asyncio.timeout(60):
            await service.worker.drain(0.05)
        assert (await service.store.get(run.id)).status == "queued"
        assert studio.backend.waiting == 0
        assert not studio.done("generate")
    studio.backend.gate.set()
    async with studio.service(settings) as service:
        assert (await still(service, run)).status == "finished"
    assert not twice(studio.done("generate"))


async def test_a_run_at_work_is_paused_edited_and_goes_on(
    either: ServiceSettings, studio: Studio
) -> None:
    studio = Studio(rising=0)
    async with studio.service(either) as service:
        run = await begin(service, patience=5)
        await until(lambda: studio.backend.waiting == 1)
        with pytest.raises(Conflict, match="pause it first"):
            await service.edit(LOCAL, run.id, EditRequest(rounds=1))
        await service.pause(LOCAL, run.id)
        studio.backend.gate.set()
        paused = await still(service, run)
        assert (paused.status, paused.wants) == ("paused", "")
        result = await service.result(paused)
        assert result is not None
        assert len(result.rounds) == 1
        card = result.rounds[0].loop_card
        assert card is not None
        fact = next(v.fact_id for v in card.verdicts if v.state == "no")
        await service.edit(
            LOCAL, run.id, EditRequest.model_validate({"verdicts": {fact: "yes"}, "rounds": 1})
        )
        done = await still(service, run)
        assert (done.status, done.error) == ("finished", None)
        ended = await service.result(done)
        assert ended is not None
        assert ended.rounds[0].image == result.rounds[0].image
        assert len(ended.rounds) > 1
    assert not twice(studio.done("generate"))


async def test_a_paused_run_just_goes_on(settings: ServiceSettings, studio: Studio) -> None:
    studio = Studio(rising=0)
    async with studio.service(settings) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        await service.pause(LOCAL, run.id)
        studio.backend.gate.set()
        assert (await still(service, run)).status == "paused"
        await service.resume(LOCAL, run.id)
        assert (await still(service, run)).status == "finished"
    assert not twice(studio.done("generate"))


async def test_a_run_at_work_is_cancelled_at_once_and_resumed(
    settings: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(settings) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        await service.cancel(LOCAL, run.id)
        stopped = await still(service, run)
        assert (stopped.status, stopped.error) == ("cancelled", None)
        assert studio.backend.waiting == 0
        assert service.worker.active == 0
        studio.backend.gate.set()
        await service.resume(LOCAL, run.id)
        assert (await still(service, run)).status == "finished"
    assert not twice(studio.done("generate"))


@pytest.mark.parametrize("error", [BackendError, JudgeError])
async def test_a_run_that_fails_says_what_to_do_and_can_be_resumed(
    settings: ServiceSettings, studio: Studio, error: type[Exception]
) -> None:
    studio.backend.gate.set()
    studio.backend.failing = lambda request: error("the account is empty: fill it, then resume")
    async with studio.service(settings) as service:
        run = await begin(service)
        failed = await still(service, run)
        assert failed.status == "failed"
        assert "fill it, then resume" in (failed.error or "")
        assert failed.ended is not None
        studio.backend.failing = lambda request: None
        await service.resume(LOCAL, run.id)
        done = await still(service, run)
        assert (done.status, done.error) == ("finished", None)


async def test_a_run_of_other_models_is_refused_in_words_of_the_service(
    settings: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    studio.backend.failing = lambda request: BackendError("busy") if request.references else None
    async with studio.service(settings) as service:
        run = await begin(service)
        assert (await still(service, run)).status == "failed"
        studio.backend.failing = lambda request: None
        studio.backend.version = "2"
        await service.resume(LOCAL, run.id)
        told = (await still(service, run)).error or ""
        assert "the image model scripted:backend has other weights" in told
        assert "Draw it again as a new run" in told
        assert not any(word in told for word in ("--fresh", "resume=", "folder", run.id))
        studio.backend.version = "1"
        await service.resume(LOCAL, run.id)
        assert (await still(service, run)).status == "finished"


@pytest.mark.slow
async def test_two_services_share_the_runs_of_one_database(either: ServiceSettings) -> None:
    first, second = Studio(), Studio()
    one = either.model_copy(update={"running": 2})
    async with first.service(one) as here, second.service(one) as there:
        runs = [await begin(here, seed) for seed in range(6)]
        there.worker.wake()
        await until(lambda: first.backend.waiting == second.backend.waiting == 2)
        owners = {(await here.store.get(run.id)).owner for run in runs} - {None}
        assert owners == {here.worker.owner, there.worker.owner}
        first.backend.gate.set()
        second.backend.gate.set()
        done = [await still(here, run) for run in runs]
    assert {run.status for run in done} == {"finished"}
    calls = [*first.done("generate"), *second.done("generate")]
    assert not twice(calls)
    assert len(calls) == sum(run.summary["images"] for run in done if run.summary)


async def test_what_is_wanted_of_a_run_reaches_the_server_that_drives_it(
    either: ServiceSettings,
) -> None:
    first, second = Studio(), Studio()
    async with first.service(either.model_copy(update={"lease_seconds": 1})) as here:
        run = await begin(here)
        await until(lambda: first.backend.waiting == 1)
        async with second.service(either) as there:
            await there.cancel(LOCAL, run.id)
            assert (await stands(there, run, "cancelled")).status == "cancelled"
            assert first.backend.waiting == 0


async def test_a_server_that_falls_silent_is_taken_over(
    either: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    async with studio.service(either.model_copy(update={"lease_seconds": 1})) as service:
        store = service.store
        run, _ = await store.create("local", await _request(service), title="silent")
        elsewhere = f"{'x' * 12}|1|dead|0"
        async with store.engine.begin() as connection:
            await connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run.id)
                .values(status="running", owner=elsewhere, lease=time.time() + 0.5, attempts=1)
            )
        done = await stands(service, run, "finished", "failed")
        assert (done.status, done.error) == ("finished", None)


async def test_the_runs_of_a_server_that_was_killed_go_on_at_once(
    settings: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    async with studio.service(settings) as service:
        run, _ = await service.store.create("local", await _request(service), title="killed")
        gone = f"{socket.gethostname()[:60]}|{_dead_process()}|dead|0"
        async with service.store.engine.begin() as connection:
            await connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run.id)
                .values(status="running", owner=gone, lease=time.time() + 3600, attempts=1)
            )
        assert (await stands(service, run, "finished", "failed")).status == "finished"


async def test_a_run_whose_server_was_killed_before_it_could_stop_is_cancelled(
    settings: ServiceSettings, studio: Studio
) -> None:
    async with studio.service(settings) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        await service.worker.drain(0.05)
        async with service.store.engine.begin() as connection:
            await connection.execute(update(RUNS).where(RUNS.c.id == run.id).values(wants="cancel"))
    async with studio.service(settings) as service:
        assert (await still(service, run)).status == "cancelled"
    assert not studio.done("generate")


async def test_a_run_that_ends_its_server_again_and_again_is_given_up(
    settings: ServiceSettings, studio: Studio
) -> None:
    studio.backend.gate.set()
    async with studio.service(settings) as service:
        run, _ = await service.store.create(
            "local", await _request(service), title="deadly", status="paused"
        )
        async with service.store.engine.begin() as connection:
            await connection.execute(
                update(RUNS).where(RUNS.c.id == run.id).values(status="queued", attempts=MOST_TRIES)
            )
        before = list(studio.book.lines)
        service.worker.wake()
        failed = await still(service, run)
        assert failed.status == "failed"
        assert f"ended {MOST_TRIES} times" in (failed.error or "")
        assert studio.book.lines == before
        await service.resume(LOCAL, run.id)
        assert (await still(service, run)).status == "finished"


async def test_a_database_that_is_started_anew_loses_no_run(tmp_path: Path, studio: Studio) -> None:
    async with kept("postgresql", tmp_path) as settings, studio.service(settings) as service:
        runs = [await begin(service, seed) for seed in range(4)]
        await until(lambda: studio.backend.waiting == 4)
        url = str(settings.database)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for _ in range(3):
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                studio.backend.gate.set()
                await asyncio.sleep(0)
        done = [await stands(service, run, "finished", "failed") for run in runs]
    assert [(run.status, run.error) for run in done] == [("finished", None)] * 4
    assert not twice(studio.done("generate"))


async def test_a_database_that_refuses_for_a_while_loses_no_run(
    settings: ServiceSettings, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with studio.service(settings) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        away, refused = True, set()

        def refusing(name: str) -> Any:
            method = getattr(service.store, name)

            async def call(*args: Any, **more: Any) -> Any:
                if away:
                    refused.add(name)
                    raise OperationalError(name, None, OSError("the database is away"))
                return await method(*args, **more)

            return call

        for name in ("told", "end", "hold", "claim", "recover"):
            monkeypatch.setattr(service.store, name, refusing(name))
        studio.backend.gate.set()
        await until(lambda: {"told", "end", "recover"} <= refused)
        assert (await service.store.get(run.id)).status == "running"
        away = False
        done = await stands(service, run, "finished", "failed")
        assert (done.status, done.error) == ("finished", None)
        assert done.summary is not None
        assert done.summary["images"] == len(studio.done("generate"))
    assert not twice(studio.done("generate"))


@pytest.mark.slow
async def test_a_full_disk_holds_a_run_up_and_no_other(
    settings: ServiceSettings, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = os.write, ""

    def limited(handle: int, data: Any) -> int:
        if full and os.readlink(f"/proc/self/fd/{handle}").endswith(full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    async with studio.service(settings) as service:
        run, other = await begin(service, 1), await begin(service, 2)
        await until(lambda: studio.backend.waiting == 2)
        monkeypatch.setattr(os, "write", limited)
        full = f"{run.id}/events.jsonl"
        studio.backend.gate.set()
        assert (await still(service, other)).status == "finished"
        held = await stands(service, run, "queued")
        assert "disk is full" in (held.error or "")
        full = ""
        done = await stands(service, run, "finished", "failed")
        assert (done.status, done.error) == ("finished", None)
    assert not twice(studio.done("generate"))


async def test_a_run_whose_folder_another_process_holds_waits_for_it(
    settings: ServiceSettings, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.backend.gate.set()
    async with studio.service(settings) as service:
        run, _ = await service.store.create(
            "local", await _request(service), title="held", status="paused"
        )
        end, ended = service.store.end, asyncio.Event()
        stood: list[tuple[str, bool]] = []

        async def noted(*given: Any, **named: Any) -> Any:
            found = await end(*given, **named)
            # It is taken up again at once: who looks now and then may never see it in line.
            stood.append((given[1], named["tried"]))
            ended.set()
            return found

        monkeypatch.setattr(service.store, "end", noted)
        with RunFolder(service.folder(run.id)).locked():
            await service.resume(LOCAL, run.id)
            async with asyncio.timeout(60):
                await ended.wait()
            assert stood[0] == ("queued", False)
        assert (await still(service, run)).status == "finished"


async def _request(service: Service) -> dict[str, Any]:
    """The row's request of a run as the core writes it."""
    run = await begin(service, 99, idempotency_key="pattern")
    await still(service, run)
    return {**run.request, "seed": 100}


def _dead_process() -> int:
    """The number of a process that has ended."""
    number = os.fork()
    if not number:
        os._exit(0)
    os.waitpid(number, 0)
    return number

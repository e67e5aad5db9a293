"""Disk and database: private, watched, told once, and back again without a run lost."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError, OperationalError

from scenewright.graphs.errors import LogError
from scenewright.runs.folder import RunError
from scenewright.service.app import create_app
from scenewright.service.core import storage as module
from scenewright.service.core.database import make_private, open_database
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.storage import problem_of
from tests.service.gated import Gate, gated
from tests.service.serving import scripted, serving

SCENE = {"triplets": "red ball on table", "rounds": 1}


def mode(place: Path) -> str:
    return f"{place.stat().st_mode & 0o777:o}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the storage often."""
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)


@pytest.fixture
async def app(settings: ServiceSettings, quick: None) -> Any:
    return create_app(settings, models=scripted())


@pytest.fixture
async def client(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as made,
    ):
        yield made


async def until(ready: Any) -> None:
    async with asyncio.timeout(60):
        while not await ready():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def ended(client: httpx2.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    await client.get(run["links"]["events"])
    return dict((await client.get(run["links"]["self"])).json())


def outages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log tells of the storage, and whatever has a traceback."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("scenewright") and (record.exc_info or record.levelno > 30)
    ]


async def test_folder_and_database_are_their_owners_alone(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path / "new" / "data")
    before = os.umask(0o000)
    try:
        async with open_database(settings) as engine:
            async with engine.begin() as connection:
                await connection.execute(text("SELECT 1"))
            files = sorted(settings.data.iterdir())
            assert [place.name for place in files] == [
                "service.sqlite", "service.sqlite-shm", "service.sqlite-wal",
            ]  # fmt: skip
            assert {mode(place) for place in files} == {"600"}
    finally:
        os.umask(before)
    assert mode(settings.data) == "700"


def test_what_is_there_is_mended_and_its_content_kept(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path)
    tmp_path.chmod(0o755)
    files = [tmp_path / f"service.sqlite{ending}" for ending in ("", "-wal", "-shm")]
    for file in files:
        file.write_bytes(b"content")
        file.chmod(0o664)
    assert make_private(settings) == []
    assert mode(tmp_path) == "700"
    assert {mode(file) for file in files} == {"600"}
    assert {file.read_bytes() for file in files} == {b"content"}


def test_what_cannot_be_mended_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServiceSettings(data=tmp_path)
    (tmp_path / "service.sqlite").touch(0o644)
    tmp_path.chmod(0o755)

    def refused(self: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "chmod", refused)
    told = make_private(settings)
    assert len(told) == 2
    assert told[0].startswith(f"the data folder {tmp_path} can be read by other accounts")
    assert told[0].endswith("have its owner run chmod 700")
    assert "chmod 600" in told[1]


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "homework.txt").touch()
    told = make_private(ServiceSettings(data=tmp_path))
    assert len(told) == 1
    assert "choose a folder of its own with --data" in told[0]
    assert mode(tmp_path) == "755"
    assert mode(tmp_path / "service.sqlite") == "600"


def test_an_error_says_what_is_wrong_with_the_storage_however_deep_it_is() -> None:
    def caused(cause: BaseException) -> RunError:
        try:
            try:
                raise LogError("no space left for /secret/events.jsonl") from cause
            except LogError as error:
                raise RunError(str(error)) from error
        except RunError as error:
            return error

    def kind(error: BaseException) -> str | None:
        found = problem_of(error)
        return None if found is None else found.kind

    assert kind(caused(OSError(errno.ENOSPC, "full"))) == "disk"
    assert kind(caused(OSError(errno.EROFS, "read-only"))) == "disk"
    assert kind(caused(OSError(errno.ENOENT, "not there"))) is None
    assert kind(OperationalError("x", None, OSError("gone"))) == "database"
    assert kind(IntegrityError("x", None, sqlite3.IntegrityError("twice"))) is None
    assert kind(ValueError("x")) is None
    found = problem_of(caused(OSError(errno.ENOSPC, "full")))
    assert found is not None
    assert "secret" not in found.detail
    assert found.error().status == 507


async def test_a_database_that_takes_no_more_is_told_once_and_is_used_again(
    app: Any, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    before = (await client.post("/v1/refinements", json=SCENE)).json()
    assert (await ended(client, before))["status"] == "finished"
    engine = app.state.service.engine.sync_engine
    limit = "16"

    def full(connection: Any, record: Any, proxy: Any) -> None:
        # SQLite itself says then that the disk is full.
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA max_page_count={limit}")
        cursor.close()

    event.listen(engine, "checkout", full)
    big = {**SCENE, "negative_prompt": "x" * 19_000}
    replies = [await client.post("/v1/refinements", json={**big, "seed": n}) for n in range(12)]
    assert {reply.status_code for reply in replies} <= {202, 507}
    refused = [reply for reply in replies if reply.status_code == 507]
    assert len(refused) > 5
    assert refused[0].headers["retry-after"] == "30"
    assert "the service's disk is full" in refused[0].json()["detail"]
    page = await client.post("/runs", data={"text": "a ball"}, headers={"Accept": "text/html"})
    assert page.status_code == 507
    assert "disk is full" in page.text
    ready = await client.get("/readyz")
    assert (ready.status_code, "disk is full" in ready.text) == (503, True)
    assert (await client.get("/healthz")).status_code == 200
    # What is there can be read.
    assert (await client.get(before["links"]["self"])).json()["status"] == "finished"
    told = outages(caplog)
    assert len(told) == 1, told
    assert told[0].startswith("the service's disk is full")
    limit = "1000000"

    async def back() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await until(back)
    assert "the disk can be used again" in caplog.text
    for reply in replies:
        if reply.status_code == 202:
            assert (await ended(client, reply.json()))["status"] == "finished"
    again = await client.post("/v1/refinements", json={**SCENE, "seed": 99})
    assert (await ended(client, again.json()))["status"] == "finished"
    assert len(outages(caplog)) == 1


async def test_a_lost_database_file_takes_no_runs_and_is_used_again_when_it_is_back(
    settings: ServiceSettings,
    client: httpx2.AsyncClient,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = (await client.post("/v1/refinements", json=SCENE)).json()
    assert (await ended(client, run))["status"] == "finished"
    file, aside = settings.data / "service.sqlite", tmp_path / "aside.sqlite"
    source, target = sqlite3.connect(file), sqlite3.connect(aside)
    source.backup(target)
    source.close()
    target.close()
    for ending in ("", "-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)

    async def ready(status: int) -> bool:
        return (await client.get("/readyz")).status_code == status

    await until(lambda: ready(503))
    assert "database is lost" in (await client.get("/readyz")).json()["detail"]
    for seed in range(5):
        lost = await client.post("/v1/refinements", json={**SCENE, "seed": seed})
        assert lost.status_code == 503
        assert "database is lost" in lost.json()["detail"]
        assert str(file) not in lost.text
    # No empty one was made in its place.
    assert not file.exists()
    shutil.copy(aside, file)
    await until(lambda: ready(200))
    assert (await client.get(run["links"]["self"])).json()["status"] == "finished"
    more = (await client.post("/v1/refinements", json={**SCENE, "seed": 7})).json()
    assert (await ended(client, more))["status"] == "finished"
    with sqlite3.connect(file) as found:
        assert found.execute("SELECT count(*) FROM runs").fetchone() == (2,)
    assert len(outages(caplog)) == 1


async def test_a_full_disk_holds_runs_up_and_loses_none(
    settings: ServiceSettings,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write, usage, full, looks, gate = os.write, shutil.disk_usage, False, 0, Gate()

    def limited(handle: int, data: Any) -> int:
        if full and os.readlink(f"/proc/self/fd/{handle}").endswith("events.jsonl"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    def free(place: Any) -> Any:
        nonlocal looks
        looks += 1
        return SimpleNamespace(free=0) if full else usage(place)

    monkeypatch.setattr(os, "write", limited)
    monkeypatch.setattr(shutil, "disk_usage", free)
    async with (
        serving(create_app(settings, models=gated(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        runs = [
            (await client.post("/v1/refinements", json={**SCENE, "seed": seed})).json()
            for seed in range(3)
        ]
        await gate.waiting(3)
        full = True
        gate.open()

        async def queued() -> bool:
            listed = (await client.get("/v1/refinements")).json()["items"]
            return {item["status"] for item in listed} == {"queued"}

        await until(queued)
        shown = (await client.get(runs[0]["links"]["self"])).json()
        assert "the service's disk is full" in shown["error"]
        more = await client.post("/v1/refinements", json={**SCENE, "seed": 9})
        assert more.status_code == 507
        # It waits, and does not try again and again.
        drawn, looked = gate.came, looks

        async def looked_again() -> bool:
            return looks >= looked + 5

        await until(looked_again)
        assert gate.came == drawn
        assert await queued()
        full = False
        for run in runs:
            done = await ended(client, run)
            assert (done["status"], done["error"]) == ("finished", None)
            assert done["summary"]["images"] == 1
        assert gate.came == drawn == 3
    assert len(outages(caplog)) == 1


async def test_a_database_that_is_away_is_logged_once_for_all_requests(
    app: Any,
    client: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, engine = app.state.service.store, app.state.service.engine.sync_engine
    away = True

    def refused(*args: Any) -> None:
        if away:
            raise OperationalError("SELECT", None, sqlite3.OperationalError("disk I/O error"))

    event.listen(engine, "before_cursor_execute", refused)
    for _ in range(10):
        reply = await client.get("/v1/refinements")
        assert reply.status_code == 503
        assert reply.headers["retry-after"]
        assert "the database does not answer" in reply.json()["detail"]
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 503
    told = outages(caplog)
    assert len(told) == 1, told
    away = False

    async def back() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await until(back)
    assert (await client.get("/v1/refinements")).status_code == 200
    assert store.engine.sync_engine is engine
    assert [r for r in caplog.records if r.levelno == logging.WARNING and "again" in r.message]

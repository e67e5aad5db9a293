"""Runs that go from server to server with no disk in common, and are read by another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from PIL import Image
from sqlalchemy import update

from scenewright.runs.folder import ANSWERS, EVENTS, IMAGES
from scenewright.service.core.artifacts.objects import Objects, objects_at
from scenewright.service.core.artifacts.store_layout import claims_among
from scenewright.service.core.database import RUNS
from scenewright.service.core.errors import NotFound, Unprocessable
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.schemas import EditRequest
from scenewright.service.core.service import Service, remove
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run
from scenewright.service.web.run_page import with_record
from tests.service.core.artifacts.places import KINDS, lost, machine, place
from tests.service.working import Studio, begin, still, twice, until


@pytest.fixture(params=KINDS)
def url(request: Any, tmp_path: Path) -> Iterator[str]:
    """Each kind of store."""
    with place(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def folder_url(tmp_path: Path) -> Iterator[str]:
    """A store."""
    with place("folder", tmp_path) as found:
        yield found


def stopped() -> Studio:
    """Models that draw two pictures and then wait."""
    studio = Studio()
    studio.backend.holds = lambda request: len(studio.done("generate")) >= 2
    return studio


def waits(studio: Studio) -> bool:
    """Whether a picture is being drawn that comes only when it may."""
    return studio.backend.waiting == 1 and len(studio.done("generate")) == 2


def open_studio() -> Studio:
    """Models that wait for nothing."""
    studio = Studio()
    studio.backend.gate.set()
    return studio


def calls(*studios: Studio) -> list[str]:
    """Pictures and answers that were paid for."""
    return [line for studio in studios for line in studio.book.lines if line.startswith("end ")]


async def left_at(studio: Studio, settings: ServiceSettings, **more: Any) -> Run:
    """A run that a server leaves while a picture is being drawn; the server's disk is lost."""
    async with studio.service(settings) as service:
        run = await begin(service, **more)
        await until(lambda: waits(studio))
        await service.worker.drain(0.05)
    lost(settings)
    return run


async def ended(service: Service, run: Run) -> Run:
    """The run, which must come to its good end."""
    done = await still(service, run)
    assert (done.status, done.error) == ("finished", None)
    return done


async def numbered(service: Service, run: Run) -> list[tuple[int, str]]:
    """Number and type of each event as a reader hears them."""
    found = await service.store.get(run.id)
    return [
        (told.number, told.kind)
        async for told in service.follow(LOCAL, found)
        if told is not None and told.number is not None
    ]


async def test_a_run_is_begun_ended_and_read_on_three_machines(url: str, tmp_path: Path) -> None:
    first, second = stopped(), open_studio()
    run = await left_at(first, machine(tmp_path, "first", None, url))
    async with second.service(machine(tmp_path, "second", None, url)) as service:
        done = await ended(service, run)
        wanted = await service.result(done)
        heard = await numbered(service, run)
    assert wanted is not None
    assert first.done("generate")
    assert not twice(calls(first, second))
    lost(machine(tmp_path, "second", None, url))
    async with Studio().service(machine(tmp_path, "third", None, url)) as service:
        found = await service.result(done)
        assert found is not None
        assert [r.image for r in found.rounds] == [r.image for r in wanted.rounds]
        assert (found.stop_reason, found.totals) == (wanted.stop_reason, wanted.totals)
        assert await numbered(service, run) == heard
        assert [number for number, _ in heard] == list(range(len(heard)))
        image = found.rounds[0].image
        assert (await service.artifacts.image(run.id, image)).is_file()
        assert not (await service.artifacts.image(run.id, "0" * 64)).exists()
        view, events = await with_record(service, done, lambda view, events: (view, events))
        assert events == len(heard)
        assert all(view.image_path(r.image) is not None for r in found.rounds)
        # It is shown here, and driven nowhere.
        assert not service.folder(run.id).exists()


async def test_a_person_corrects_a_run_on_another_machine(folder_url: str, tmp_path: Path) -> None:
    first, second = open_studio(), open_studio()
    async with first.service(machine(tmp_path, "first", None, folder_url)) as service:
        run = await ended(service, await begin(service, rounds=1))
    lost(machine(tmp_path, "first", None, folder_url))
    async with second.service(machine(tmp_path, "second", None, folder_url)) as service:
        await service.edit(LOCAL, run.id, EditRequest(rounds=1, note="again"))
        await ended(service, run)
        result = await service.result(run)
    assert result is not None
    assert len(result.rounds) == 2
    assert not twice(calls(first, second))


async def test_a_server_that_has_lost_its_run_spoils_nothing(
    folder_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, heir = stopped(), open_studio()
    objects = objects_at(folder_url)
    async with zombie.service(machine(tmp_path, "first", None, folder_url)) as service:
        run = await begin(service)
        await until(lambda: waits(zombie))
        await until(lambda: log_of(objects, run) == (service.folder(run.id) / EVENTS).read_bytes())
        # It hangs, and does not look at the database: its lease runs out.
        monkeypatch.setattr(service.store, "hold", AsyncMock(return_value={run.id: ""}))
        before = log_of(objects, run)
        async with service.store.engine.begin() as connection:
            await connection.execute(
                update(RUNS).where(RUNS.c.id == run.id).values(status="queued", owner=None)
            )
        async with heir.service(machine(tmp_path, "second", None, folder_url)) as other:
            await ended(other, run)
            log = log_of(objects, run)
            assert log.startswith(before)
            drawn = len(zombie.done("generate"))
            zombie.backend.gate.set()
            await until(lambda: service.worker.active == 0)
            assert len(zombie.done("generate")) == drawn + 1
            assert log_of(objects, run) == log
            assert (await service.store.get(run.id)).status == "finished"
            # Where it was driven last, and where it was lost: both show what became of it.
            assert await numbered(service, run) == await numbered(other, run)


async def test_a_picture_that_the_store_has_spoilt_is_drawn_again(
    folder_url: str, tmp_path: Path
) -> None:
    first, second = stopped(), open_studio()
    run = await left_at(first, machine(tmp_path, "first", None, folder_url))
    objects = objects_at(folder_url)
    image = next(key for key in objects.list(f"runs/{run.id}/images"))
    whole = objects.get(image)
    assert whole is not None
    objects.put(image, whole[:-7])
    async with second.service(machine(tmp_path, "second", None, folder_url)) as service:
        await ended(service, run)
    assert objects.get(image) == whole
    assert len(twice(calls(first, second))) >= 1


async def test_a_run_taken_away_leaves_nothing_in_the_store(
    folder_url: str, tmp_path: Path
) -> None:
    objects = objects_at(folder_url)
    async with open_studio().service(machine(tmp_path, "first", None, folder_url)) as service:
        run = await ended(service, await begin(service))
        assert objects.list(f"runs/{run.id}")
        await remove(service, LOCAL, run.id)
        assert not objects.list("runs")
        assert not service.folder(run.id).exists()
        with pytest.raises(NotFound):
            await service.run(LOCAL, run.id)


async def test_a_sent_picture_is_found_on_every_machine(folder_url: str, tmp_path: Path) -> None:
    picture = Image.new("RGB", (16, 16), (9, 8, 7))
    async with Studio().service(machine(tmp_path, "first", None, folder_url)) as service:
        digest = await asyncio.to_thread(service.uploads.keep, "me", picture)
    lost(machine(tmp_path, "first", None, folder_url))
    async with open_studio().service(machine(tmp_path, "second", None, folder_url)) as service:
        place = await asyncio.to_thread(service.uploads.find, "me", digest)
        assert Image.open(place).getpixel((0, 0)) == (9, 8, 7)
        with pytest.raises(Unprocessable):
            await asyncio.to_thread(service.uploads.find, "you", digest)
        await asyncio.to_thread(service.uploads.forget, "me", digest)
        with pytest.raises(Unprocessable):
            await asyncio.to_thread(service.uploads.find, "me", digest)


async def test_a_machine_that_comes_back_goes_on_from_what_it_had(
    folder_url: str, tmp_path: Path
) -> None:
    settings = machine(tmp_path, "first", None, folder_url)
    first, again = stopped(), open_studio()
    async with first.service(settings) as service:
        run = await begin(service)
        await until(lambda: waits(first))
        await service.worker.drain(0.05)
    # The store is as it was when the first picture was not there yet.
    objects = objects_at(folder_url)
    for key in objects.list(f"runs/{run.id}/images"):
        objects.delete([key])
    claims = claims_among(objects.list(f"runs/{run.id}/events"))
    log = log_of(objects, run)
    objects.put(max(claims.values()), log[: log.index(b"\n") + 1])
    async with again.service(settings) as service:
        await ended(service, run)
        folder = service.folder(run.id)
        assert log_of(objects, run) == (folder / EVENTS).read_bytes()
        assert (folder / ANSWERS).is_file()
        kept = {Path(key).name for key in objects.list(f"runs/{run.id}/images")}
        assert kept == {path.name for path in (folder / IMAGES).glob("*.png")}
    assert not twice(calls(first, again))


def log_of(objects: Objects, run: Run) -> bytes:
    """The event log that the store has."""
    claims = claims_among(objects.list(f"runs/{run.id}/events"))
    found = objects.get(claims[max(claims, key=lambda claim: claim.number)])
    assert found is not None
    return found

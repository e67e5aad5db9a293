"""A store or a disk that fails while runs are driven and read."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from scenewright.service.core.artifacts.base import LocalArtifacts
from scenewright.service.core.artifacts.objects import StoreAway
from scenewright.service.core.artifacts.stored import StoredArtifacts
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.settings import ServiceSettings
from tests.service.core.artifacts.places import Held, machine
from tests.service.working import Studio, begin, stands, still, twice, until

AWAY = StoreAway("the store of artifacts memory cannot be used: gone for lunch")


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Held:
    """The store of every service; what is interrupted is tried again at once, and a few times."""
    found = Held()
    monkeypatch.setattr("scenewright.service.core.artifacts.stored.objects_at", lambda url: found)
    monkeypatch.setattr("scenewright.service.core.worker._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("scenewright.service.core.worker.MOST_TRIES", 6)
    monkeypatch.setattr("scenewright.service.core.storage._RETRY_SECONDS", 0.01)
    return found


async def test_a_store_that_is_away_for_a_while_loses_and_repeats_nothing(
    objects: Held, tmp_path: Path
) -> None:
    studio = Studio()
    studio.backend.holds = lambda request: len(studio.done("generate")) >= 1
    async with studio.service(machine(tmp_path, "one", None, "held://")) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1 and bool(studio.done("generate")))
        objects.failing = AWAY
        tries = 0

        def told(*args: Any) -> Any:
            nonlocal tries
            tries += 1
            # It comes back after some tries.
            if tries == 4:
                objects.failing = None
            return Held.list(objects, *args)

        objects.list = told  # type: ignore[method-assign]
        studio.backend.gate.set()
        assert (await still(service, run)).status == "finished"
        assert tries >= 4
    assert not twice(studio.done("generate"))
    assert not twice([line for line in studio.book.lines if line.startswith("end ")])


async def test_a_store_that_stays_away_fails_a_run_clearly_and_it_can_be_resumed(
    objects: Held, tmp_path: Path
) -> None:
    studio = Studio()
    studio.backend.gate.set()
    objects.failing = AWAY
    async with studio.service(machine(tmp_path, "one", None, "held://")) as service:
        run = await begin(service)
        failed = await stands(service, run, "failed")
        assert "gone for lunch" in (failed.error or "")
        with pytest.raises(Unavailable, match="gone for lunch"):
            await service.result(failed)
        objects.failing = None
        await service.resume(LOCAL, run.id)
        assert (await still(service, run)).status == "finished"
    assert not twice(studio.done("generate"))


async def test_a_full_disk_fails_a_run_clearly_and_it_can_be_resumed(
    objects: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Studio(), Studio()
    second.backend.gate.set()
    first.backend.holds = lambda request: len(first.done("generate")) >= 1
    rows: ServiceSettings = machine(tmp_path, "one", None, "held://")
    async with first.service(rows) as service:
        run = await begin(service)
        await until(lambda: first.backend.waiting == 1 and bool(first.done("generate")))
        await service.worker.drain(0.05)

    def full(place: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("scenewright.service.core.artifacts.working_copy.place_file", full)
        async with second.service(machine(tmp_path, "two", None, "held://")) as service:
            failed = await stands(service, run, "failed", "finished")
            assert "disk not full" in (failed.error or "")
            patched.undo()
            await service.resume(LOCAL, run.id)
            assert (await still(service, run)).status == "finished"
    assert not twice([*first.done("generate"), *second.done("generate")])


async def test_readers_are_told_that_the_cache_is_full(
    objects: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = Studio()
    studio.backend.gate.set()
    async with studio.service(machine(tmp_path, "one", None, "held://")) as service:
        run = await still(service, await begin(service))
        artifacts = StoredArtifacts(objects, tmp_path / "other" / "runs")

        def full(place: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("scenewright.service.core.artifacts.stored.place_file", full)
            with pytest.raises(Unavailable, match="No space left"):
                await artifacts.log(run.id)
        assert (await artifacts.log(run.id) / "events.jsonl").is_file()
        artifacts.close()


async def test_a_log_that_is_as_it_was_is_not_fetched_again(
    objects: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = Studio()
    studio.backend.gate.set()
    async with studio.service(machine(tmp_path, "one", None, "held://")) as service:
        run = await still(service, await begin(service))
    artifacts = StoredArtifacts(objects, tmp_path / "other" / "runs")
    got: list[str] = []
    get = objects.get

    def counted(key: str, default: Any = None) -> Any:
        got.append(key)
        return get(key)

    objects.get = counted  # type: ignore[method-assign]
    await artifacts.log(run.id)
    assert [key.split("/")[2] for key in got] == ["events", "manifest.json"]
    await artifacts.log(run.id)
    assert len(got) == 2
    assert run.summary is not None
    image = run.summary["image"]
    path = await artifacts.image(run.id, image)
    assert await artifacts.image(run.id, image) == path
    assert len(got) == 3
    artifacts.close()


async def test_nothing_is_copied_where_the_disk_is_shared(tmp_path: Path) -> None:
    artifacts = LocalArtifacts(lambda run: tmp_path / run)

    async def owned() -> bool:
        raise AssertionError("nobody is asked")

    async with artifacts.working("r", owned) as push:
        await push()
    assert await artifacts.log("r") == await artifacts.whole("r") == tmp_path / "r"
    assert await artifacts.image("r", "h") == tmp_path / "r" / "images" / "h.png"
    assert not list(tmp_path.iterdir())
    (tmp_path / "r").mkdir()
    await artifacts.remove("r")
    assert not list(tmp_path.iterdir())

"""Events told to who listens: all that is numbered once, in order, whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.runs.folder import PARTIAL_IMAGE, WATCHED
from scenewright.service.core.event_broadcast import BroadcastEvent, EventBroadcaster, read_lines


class Log:
    """An event log that is written by hand, and where its run stands."""

    def __init__(self, folder: Path, broadcaster: EventBroadcaster) -> None:
        self.folder, self.broadcaster = folder, broadcaster
        self.path = folder / "events.jsonl"
        self.count = 0
        self.status, self.still = "running", False

    def write(self, tell: bool = True) -> None:
        line = json.dumps({"type": "generated", "n": self.count})
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if tell:
            self.broadcaster.tell("run", BroadcastEvent("generated", line, self.count))
        self.count += 1

    def step(self) -> None:
        self.broadcaster.tell("run", BroadcastEvent("step", "{}"))

    def stop(self) -> None:
        self.status, self.still = "finished", True
        self.broadcaster.tell("run", BroadcastEvent("status", ""))

    async def where(self) -> tuple[str, bool]:
        return self.status, self.still

    async def heard(self, after: int = -1) -> list[BroadcastEvent]:
        async with aclosing(self.broadcaster.follow("run", self.folder, self.where, after)) as told:
            return [item async for item in told if item is not None]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path, EventBroadcaster(look_seconds=0.05))


def numbers(told: list[BroadcastEvent]) -> list[int]:
    return [item.number for item in told if item.number is not None]


async def listening(log: Log, count: int = 1) -> None:
    async with asyncio.timeout(60):
        while log.broadcaster.listeners < count:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_what_was_missed_comes_first_then_what_happens(log: Log) -> None:
    for _ in range(3):
        log.write()
    task = asyncio.create_task(log.heard())
    await listening(log)
    for _ in range(3):
        log.write()
        await asyncio.sleep(0)
    log.stop()
    told = await task
    assert numbers(told) == list(range(6))
    assert [json.loads(t.data)["n"] for t in told if t.kind == "generated"] == list(range(6))
    assert [t.data for t in told if t.kind == "status"] == ["running", "finished"]
    assert log.broadcaster.listeners == 0


async def test_who_comes_again_hears_only_what_follows(log: Log) -> None:
    for _ in range(5):
        log.write()
    log.stop()
    assert numbers(await log.heard(after=2)) == [3, 4]
    assert numbers(await log.heard(after=4)) == []


async def test_a_run_of_another_process_is_read_from_its_log(log: Log) -> None:
    task = asyncio.create_task(log.heard())
    await listening(log)
    for _ in range(4):
        log.write(tell=False)
        await asyncio.sleep(0)
    log.status, log.still = "finished", True
    assert numbers(await task) == [0, 1, 2, 3]


async def test_a_slow_listener_loses_steps_but_no_event(log: Log) -> None:
    async with aclosing(log.broadcaster.follow("run", log.folder, log.where)) as heard:
        first = await anext(heard)
        assert first is not None
        assert first.kind == "status"
        for _ in range(100):
            for _ in range(10):
                log.step()
            log.write()
        log.stop()
        rest = [item async for item in heard if item is not None]
    assert numbers(rest) == list(range(100))
    assert log.broadcaster.dropped > 0
    assert sum(item.kind == "step" for item in rest) < 1000


async def test_who_comes_while_a_picture_is_drawn_hears_its_latest_step(log: Log) -> None:
    log.write()
    log.broadcaster.tell("run", BroadcastEvent("step", "1"))
    log.broadcaster.tell("run", BroadcastEvent("step", "2"))
    told: list[BroadcastEvent] = []
    async with (
        aclosing(log.broadcaster.follow("run", log.folder, log.where)) as heard,
        asyncio.timeout(60),
    ):
        async for item in heard:
            if item is None:
                continue
            told.append(item)
            if item.kind == "step":
                log.write()
                log.stop()
    assert [item.data for item in told if item.kind == "step"] == ["2"]
    assert numbers(told) == [0, 1]


async def test_who_comes_later_hears_the_latest_of_each_kind(log: Log) -> None:
    log.write()
    for kind in ("step", "partial_image"):
        for data in ("first", "second"):
            log.broadcaster.tell("run", BroadcastEvent(kind, data))
    told: list[tuple[str, str]] = []
    async with (
        aclosing(log.broadcaster.follow("run", log.folder, log.where)) as heard,
        asyncio.timeout(60),
    ):
        async for item in heard:
            if item is None or item.number is not None:
                continue
            told.append((item.kind, item.data))
            if item.kind == "partial_image":
                log.write()
                log.stop()
    assert told[1:-1] == [("step", "second"), ("partial_image", "second")]


async def test_a_partial_image_of_another_process_is_read_from_the_folder(log: Log) -> None:
    place = log.folder / PARTIAL_IMAGE
    place.write_text('"first"\n')
    told: list[str] = []
    async with (
        aclosing(log.broadcaster.follow("run", log.folder, log.where)) as heard,
        asyncio.timeout(60),
    ):
        async for item in heard:
            if item is None or item.kind != "partial_image":
                continue
            told.append(item.data)
            if len(told) == 1:
                place.write_text('"second"\n')
            else:
                place.unlink()
                log.write(tell=False)
                log.stop()
    assert told == ['"first"', '"second"']


async def test_a_run_is_watched_while_somebody_who_looks_follows(log: Log) -> None:
    def watched() -> bool:
        return log.broadcaster.watched("run", log.folder)

    def following(looks: bool) -> asyncio.Task[None]:
        async def follow() -> None:
            told = log.broadcaster.follow("run", log.folder, log.where, watching=looks)
            async with aclosing(told) as heard:
                async for _ in heard:
                    pass

        return asyncio.create_task(follow())

    waiting = following(looks=False)
    await listening(log)
    assert not watched()
    looking = [following(looks=True) for _ in range(2)]
    await listening(log, 3)
    assert watched()
    looking[0].cancel()
    await asyncio.wait(looking[:1])
    assert watched()
    log.stop()
    await asyncio.gather(waiting, looking[1])
    assert not watched()
    assert not (log.folder / WATCHED).exists()


async def test_another_process_finds_that_somebody_looks(log: Log) -> None:
    page = EventBroadcaster(look_seconds=0.02, marks=True)
    assert not log.broadcaster.watched("run", log.folder)
    async with aclosing(page.follow("run", log.folder, log.where, watching=True)) as heard:
        async for told in heard:
            if told is None:
                break
    assert log.broadcaster.watched("run", log.folder)
    # A page that was closed without a word is forgotten after a while.
    long_ago = (log.folder / WATCHED).stat().st_mtime - 60
    os.utime(log.folder / WATCHED, (long_ago, long_ago))
    assert not log.broadcaster.watched("run", log.folder)


async def test_a_step_of_a_picture_that_is_drawn_is_told_no_more(log: Log) -> None:
    log.step()
    log.write()
    heard = asyncio.create_task(log.heard())
    await listening(log)
    log.stop()
    assert "step" not in [item.kind for item in await heard]


async def test_two_who_listen_hear_the_same(log: Log) -> None:
    tasks = [asyncio.create_task(log.heard()) for _ in range(2)]
    await listening(log, 2)
    for _ in range(20):
        log.write()
    log.stop()
    first, second = await asyncio.gather(*tasks)
    assert numbers(first) == numbers(second) == list(range(20))


async def test_the_end_of_the_service_lets_everybody_go(log: Log) -> None:
    task = asyncio.create_task(log.heard())
    await listening(log)
    log.broadcaster.close()
    async with asyncio.timeout(60):
        assert numbers(await task) == []


@given(
    lines=st.lists(st.text(alphabet="abc é", max_size=6), max_size=8),
    torn=st.booleans(),
    count=st.integers(0, 10),
    earlier=st.integers(0, 10),
)
def test_reading_on_gives_what_reading_anew_gives(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    torn: bool,
    count: int,
    earlier: int,
) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    whole = [f"[{line}]" for line in lines]
    path.write_text("".join(f"{line}\n" for line in whole[:earlier]), encoding="utf-8")
    place, _ = read_lines(path, None, 0)
    path.write_text(
        "".join(f"{line}\n" for line in whole) + ("torn" if torn else ""), encoding="utf-8"
    )
    _, anew = read_lines(path, None, count)
    assert anew == whole[count:]
    assert read_lines(path, place, count)[1] == anew


def test_a_run_that_has_not_begun_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "events.jsonl", None, 0) == (None, [])

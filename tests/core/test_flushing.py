"""Flushing beside the work: all that was noted, in order, soon, and no failure in silence."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from scenewright.core import flushing
from scenewright.core.flushing import Flusher, in_thread


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    paths: list[Path] = []
    monkeypatch.setattr(flushing, "flush", paths.append)
    return paths


def test_noted_files_are_flushed_soon_in_their_order_each_once(flushed: list[Path]) -> None:
    flusher = Flusher(delay=0.05)
    flusher.note(Path("a"), Path("folder"))
    flusher.note(Path("b"), Path("folder"))
    until(lambda: bool(flushed))
    assert flushed == [Path("a"), Path("b"), Path("folder")]
    flusher.note(Path("c"))
    until(lambda: len(flushed) == 4)
    flusher.close()
    assert flushed[3:] == [Path("c")]


def test_flush_and_close_wait_for_no_delay(flushed: list[Path]) -> None:
    flusher = Flusher(delay=3600)
    flusher.note(Path("a"))
    flusher.flush()
    assert flushed == [Path("a")]
    flusher.note(Path("b"))
    flusher.close()
    assert flushed == [Path("a"), Path("b")]
    with pytest.raises(ValueError, match="closed"):
        flusher.note(Path("c"))


def test_flush_waits_for_one_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        begun.set()
        go_on.wait(20)
        done.set()

    monkeypatch.setattr(flushing, "flush", slow)
    flusher = Flusher(delay=0)
    flusher.note(Path("a"))
    assert begun.wait(20)
    threading.Timer(0.05, go_on.set).start()
    flusher.flush()
    assert done.is_set()
    flusher.close()


def test_a_failure_beside_the_work_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    met = threading.Event()

    def fail(path: Path) -> None:
        met.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(flushing, "flush", fail)
    flusher = Flusher(delay=0)
    flusher.note(Path("a"))
    assert met.wait(20)
    until(lambda: flusher._failure is not None)
    with pytest.raises(OSError, match="Input/output"):
        flusher.note(Path("b"))
    flusher.close()


def test_real_files_and_folders_are_flushed_and_lost_ones_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, int]] = []
    fsync = os.fsync

    def seen(handle: int) -> None:
        found = os.fstat(handle)
        flushed.append((found.st_dev, found.st_ino))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    file = tmp_path / "file"
    file.write_text("x")
    flusher = Flusher(delay=3600)
    flusher.note(file, tmp_path / "gone", tmp_path)
    flusher.close()
    places = [path.stat() for path in (file, tmp_path)]
    assert flushed == [(place.st_dev, place.st_ino) for place in places]


def test_closing_while_the_thread_is_about_to_flush_ends(tmp_path: Path) -> None:
    flusher = Flusher(delay=0.001)
    clear, closing = flusher._waiting.clear, threading.Thread(target=flusher.close, daemon=True)

    def closed_just_before() -> None:
        if not closing.is_alive():
            closing.start()
            assert flusher._closed.wait(5)
            assert flusher._waiting.wait(5)
        clear()

    flusher._waiting.clear = closed_just_before  # type: ignore[method-assign]
    (tmp_path / "file").write_text("x")
    flusher.note(tmp_path / "file")
    assert flusher._thread is not None
    flusher._thread.join(5)
    assert not flusher._thread.is_alive()


class _Slow:
    """A context manager that waits in its thread until it is told to go on."""

    def __init__(self) -> None:
        self.entering, self.leaving = threading.Event(), threading.Event()
        self.told: list[str] = []
        self.threads: set[int] = set()

    def __enter__(self) -> _Slow:
        self.told.append("entering")
        self.threads.add(threading.get_ident())
        assert self.entering.wait(10)
        self.told.append("entered")
        return self

    def __exit__(self, kind: type[BaseException] | None, *about: object) -> bool:
        self.threads.add(threading.get_ident())
        self.told.append(f"leaving {kind.__name__ if kind else 'well'}")
        assert self.leaving.wait(10)
        self.told.append("left")
        return kind is KeyError


async def _told(slow: _Slow, word: str) -> None:
    async with asyncio.timeout(60):
        while word not in slow.told:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_what_waits_for_the_disk_waits_aside() -> None:
    slow = _Slow()
    slow.entering.set()
    slow.leaving.set()
    async with in_thread(lambda: slow) as found:
        assert found is slow
    assert slow.told == ["entering", "entered", "leaving well", "left"]
    assert threading.get_ident() not in slow.threads


@pytest.mark.parametrize(("error", "through"), [(ValueError, True), (KeyError, False)])
async def test_who_waits_aside_is_told_of_errors(error: type[Exception], through: bool) -> None:
    slow = _Slow()
    slow.entering.set()
    slow.leaving.set()
    with pytest.raises(error) if through else nullcontext():
        async with in_thread(lambda: slow):
            raise error
    assert slow.told[2:] == [f"leaving {error.__name__}", "left"]


async def test_a_cancellation_waits_until_all_is_closed() -> None:
    slow = _Slow()

    async def use() -> None:
        async with in_thread(lambda: slow):
            await asyncio.Event().wait()

    early = asyncio.create_task(use())
    await _told(slow, "entering")
    early.cancel()
    await asyncio.sleep(0)
    assert not early.done()
    slow.entering.set()
    await _told(slow, "leaving well")
    assert not early.done()
    slow.leaving.set()
    with pytest.raises(asyncio.CancelledError):
        await early
    assert slow.told == ["entering", "entered", "leaving well", "left"]
    slow.told.clear()
    late = asyncio.create_task(use())
    await _told(slow, "entered")
    await asyncio.sleep(0)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert slow.told[-1] == "left"

"""Flushing beside the work: all that was noted, in order, soon, and no failure in silence."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scenewright import flushing
from scenewright.flushing import Flusher


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
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

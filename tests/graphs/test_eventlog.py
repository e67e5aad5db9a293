"""The event log: each key once, durable, repaired after a cut."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.facts import Recall, ScoreCard
from scenewright.core.flushing import Flusher
from scenewright.graphs.errors import LogError
from scenewright.graphs.eventlog import EventLog, read_events
from scenewright.graphs.events import Composed, Finished, Generated, Resumed, Step
from scenewright.graphs.record import active_seconds


def composed(number: int, at: float = 0.0, prompt: str = "a dog") -> Composed:
    return Composed(key=f"k{number}", at=at, round=0, purpose="candidate", prompt=prompt)


def test_a_key_is_stored_once_and_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        assert log.append(composed(1)) is True
        assert log.append(composed(1, at=9.0)) is False
        assert log.append(composed(2)) is True
    with closing(EventLog(path)) as log:
        assert log.append(composed(2)) is False
        assert [event.key for event in log.record.events] == ["k1", "k2"]
        assert log.record.get("k1", Composed) == composed(1)
        assert log.record.get("k9", Composed) is None
    assert path.read_text().count("\n") == 2


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(min_value=1, max_value=400), prompt=st.text(min_size=1))
def test_any_cut_of_the_last_line_is_repaired(
    tmp_path_factory: pytest.TempPathFactory, cut: int, prompt: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    with closing(EventLog(path)) as log:
        log.append(composed(1, prompt=prompt))
        kept = path.stat().st_size
        log.append(composed(2, prompt=prompt))
    data = path.read_bytes()
    last = len(data) - kept
    path.write_bytes(data[: len(data) - min(cut, last)])
    assert [event.key for event in read_events(path)] == ["k1"]
    with closing(EventLog(path)) as log:
        assert log.append(composed(2, prompt=prompt)) is True
    assert path.read_bytes() == data


def test_damage_before_the_last_line_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        for number in range(3):
            log.append(composed(number))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{]\n" + lines[2])
    before = path.read_bytes()
    with pytest.raises(LogError, match="line 2"):
        EventLog(path)
    assert path.read_bytes() == before


def test_wrong_type_and_steps_are_refused(tmp_path: Path) -> None:
    with closing(EventLog(None)) as log:
        log.append(composed(1))
        with pytest.raises(LogError, match="is a Composed"):
            log.record.get("k1", Generated)
        step = Step(key="s", at=0.0, round=0, purpose="candidate", step=1, of=2)
        with pytest.raises(LogError, match="not stored"):
            log.append(step)


def test_a_missing_log_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no event log"):
        read_events(tmp_path / "events.jsonl")


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond ``size`` bytes: a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        log.append(composed(1))
        size = path.stat().st_size
        with file_limit(size + 20), pytest.raises(LogError, match="no space left"):
            log.append(composed(2))
        assert path.stat().st_size == size
        assert "k2" not in log.record
        assert log.append(composed(2)) is True
    assert [event.key for event in read_events(path)] == ["k1", "k2"]


def test_time_between_two_sittings_does_not_count() -> None:
    events = [
        composed(1, at=10.0),
        composed(2, at=13.0),
        Resumed(key="resumed:1", at=1000.0, after="k2"),
        composed(3, at=1004.0),
    ]
    assert active_seconds(events) == 7.0


def test_a_cut_forgets_the_last_events_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        for number in range(4):
            log.append(composed(number, prompt="ä" * number))
    with closing(EventLog(path)) as log:
        log.cut(9)
        assert len(log.record) == 4
        log.cut(2)
        assert "k2" not in log.record
        assert log.append(composed(3)) is True
        assert [event.key for event in log.record.events] == ["k0", "k1", "k3"]
    assert [event.key for event in read_events(path)] == ["k0", "k1", "k3"]
    with closing(EventLog(path)) as log:
        log.cut(0)
        assert len(log.record) == 0
    assert path.read_bytes() == b""


def finished() -> Finished:
    nothing = Recall()
    return Finished(
        key="finished",
        at=0.0,
        reason="rounds",
        best_round=0,
        image="0" * 64,
        loop_card=ScoreCard(verdicts=(), objects=nothing, attributes=nothing, relations=nothing),
        report_card=None,
        totals={},
    )


@pytest.mark.parametrize("beside", [False, True])
def test_events_are_flushed_at_once_or_beside_and_the_last_one_always_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    path = tmp_path / "events.jsonl"
    flushed: list[int] = []
    fsync = os.fsync

    def seen(handle: int) -> None:
        flushed.append(os.fstat(handle).st_size)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    flusher = Flusher(delay=3600) if beside else None
    with closing(EventLog(path, flusher=flusher)) as log:
        log.append(composed(1))
        one = path.stat().st_size
        assert flushed == ([] if beside else [one])
        log.append(finished())
        # What was told before is flushed before the end is written.
        assert flushed == [one, path.stat().st_size]
    if flusher is not None:
        flusher.close()


def test_an_event_that_could_not_be_flushed_beside_leaves_the_log_as_it_was(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    flusher = Flusher(delay=3600)
    with closing(EventLog(path, flusher=flusher)) as log:
        log.append(composed(1))
        flusher._failure = OSError(errno.ENOSPC, "full")
        with pytest.raises(LogError, match="no space left"):
            log.append(composed(2))
        assert "k2" not in log.record
        assert [event.key for event in read_events(path)] == ["k1"]
        assert log.append(composed(2)) is True
    flusher.close()

"""Tasks in processes, and the line that tells how far they are."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import pytest

from benchmarks._harness import Progress, duration
from benchmarks._rows import PoolError, unordered

_offset = 0


def prepare(offset: int) -> None:
    global _offset
    _offset = offset


def shifted(number: int) -> tuple[int, int]:
    if number < 0:
        os._exit(9)
    return number + _offset, os.getpid()


@pytest.mark.slow
def test_every_task_is_done_by_prepared_processes_and_a_killed_one_is_told_of() -> None:
    found = list(unordered(shifted, range(6), 1, prepare, (100,)))
    assert sorted(value for value, _ in found) == [100, 101, 102, 103, 104, 105]
    assert os.getpid() not in {process for _, process in found}
    with pytest.raises(PoolError, match="same command"):
        list(unordered(shifted, [-1], 1, prepare, (0,)))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock(*times: float) -> Callable[[], float]:
    return iter(times).__next__


def test_time_left_is_by_the_speed_of_this_sitting() -> None:
    out = Terminal()
    progress = Progress(10, out, before=4, clock=clock(0.0, 10.0, 30.0))
    progress.step("scene 4")
    assert out.getvalue().endswith("5 of 10, 50 s left  scene 4")
    progress.step()
    assert out.getvalue().endswith("6 of 10, 60 s left")


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end() -> None:
    out = io.StringIO()
    progress = Progress(4, out, clock=clock(0.0, 10.0, 31.0, 32.0, 33.0))
    for _ in range(4):
        progress.step()
    assert out.getvalue().splitlines() == ["2 of 4, 31 s left", "4 of 4, 0 s left"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(5.4, "5 s"), (89, "89 s"), (120, "2 min"), (7500, "2 h 05 min")]
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration(seconds) == words

"""The rates of the benchmark of scale: what counts as the steady state."""

from __future__ import annotations

import pytest

from benchmarks.scale import Point, Sat, figures_of, reached_rate, steady_rate


def test_the_rate_is_of_the_time_in_which_all_are_at_work() -> None:
    # One a second while workers load, then four at once every two seconds, the last one alone.
    loading = [float(at) for at in range(10)]
    steady = [10.0 + 2 * turn + step for turn in range(1, 6) for step in (0.0, 0.0, 0.1, 0.1)]
    assert steady_rate([*loading, *steady, 60.0], ready=10.0, at_work=4) == pytest.approx(
        13 / (20.0 - 12.1)
    )


def test_too_few_items_have_no_rate() -> None:
    with pytest.raises(ValueError, match="too few"):
        steady_rate([1.0, 2.0, 3.0, 4.0], ready=0.0, at_work=2)


def test_the_rate_that_is_reached_is_that_of_whole_windows() -> None:
    # 10 in each window of 5 s, at 120 a minute; the last window is not whole.
    arrived = [window * 5.0 + number * 0.1 + 0.05 for window in range(5) for number in range(10)]
    assert reached_rate(arrived, 0.0, 5.0, 120) == pytest.approx(1.0)
    assert reached_rate(arrived, 5.0, 5.0, 240) == pytest.approx(0.5)
    assert reached_rate(arrived, 18.0, 5.0, 120) is None
    assert reached_rate([], 0.0, 5.0, 120) is None


def test_figures_name_what_was_measured() -> None:
    def sat(rate: float, reached: float | None = None, over: int = 0) -> Sat:
        return Sat(rate, 5.0, (100.0, 110.0), reached, over)

    found = {
        Point("miniature", 9, 2, 0): [sat(2.0), sat(2.0)],
        Point("miniature", 9, 2, 1): [sat(1.0), sat(2.0)],
        Point("api", 9, 2, 1): [sat(4.0), sat(4.0)],
        Point("api", 9, 2, 4): [sat(9.0, 0.97, 1), sat(9.0, 0.99)],
        Point("instant", 9, 2, 0): [sat(100.0), sat(100.0)],
        Point("instant", 9, 2, 1): [sat(50.0), sat(50.0)],
    }
    figures = figures_of(found)
    assert figures["items_per_second.1"]["mean"] == 1.5
    assert figures["ray_overhead"]["mean"] == 1.5
    assert figures["ray_ms_per_item"]["mean"] == pytest.approx(10.0)
    assert figures["rate_reached"]["mean"] == pytest.approx(0.98)
    assert figures["over_limit"] == 1
    assert figures["mib_per_worker"]["mean"] == 105.0
    assert figures["startup_seconds.local"]["mean"] == 5.0

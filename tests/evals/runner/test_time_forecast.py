"""The bottleneck model: closed forms, and what can never happen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.evals.runner.measuring import goes_on
from scenewright.evals.runner.time_forecast import (
    SHARED,
    Course,
    Figures,
    Stage,
    expected_rounds,
)

KINDS = ("drawing", "judging", "cpu", "process", "device", "calls")


def stages() -> st.SearchStrategy[Stage]:
    seconds = st.floats(0, 100)
    servers = st.floats(0.5, 64)
    served = st.builds(Stage, st.sampled_from(KINDS), st.just("m"), seconds, servers)
    paced = st.builds(
        Stage,
        st.sampled_from(("requests", "tokens")),
        st.just("account"),
        seconds,
        st.just(1.0),
        st.floats(0, 60),
        st.just(True),
    )
    return st.one_of(served, paced)


def courses() -> st.SearchStrategy[Course]:
    return st.builds(
        Course,
        st.integers(0, 10**6),
        st.floats(0.001, 300),
        st.integers(1, 128),
        st.lists(stages(), max_size=6).map(tuple),
        st.floats(0, 100),
    )


def test_one_slow_server_takes_each_in_turn() -> None:
    course = Course(10, 3.0, 4, (Stage("drawing", "m", 2.0),))
    # The last begins after nine others and takes its two seconds and one more elsewhere.
    assert course.seconds() == pytest.approx(10 * 2.0 + 1.0)
    assert course.throughput() == pytest.approx(0.5)
    assert course.binding().kind == "drawing"


def test_with_few_items_at_work_their_own_time_counts() -> None:
    course = Course(12, 3.0, 4, (Stage("drawing", "m", 0.1),))
    assert course.seconds() == pytest.approx(12 / 4 * 3.0)
    assert course.binding().kind == "items"
    many = Course(1000, 3.0, 4, course.stages)
    assert many.without(many.binding()).binding().kind == "drawing"


def test_a_limit_by_the_minute_lets_the_first_minute_through_at_once() -> None:
    # 60 requests a minute, one a cell: 60 go at once, and of 300 the rest takes 4 to 5 minutes.
    pace = Stage("requests", "a", 1.0, window=60.0, waits=True)
    assert Course(60, 2.0, 1000, (pace,)).seconds() == pytest.approx(2.0)
    assert Course(300, 2.0, 1000, (pace,)).seconds() == pytest.approx(2.0 + 300 - 30)


def test_machines_share_the_limits_of_an_account_and_nothing_else() -> None:
    course = Course(
        1000, 1.0, 10, (Stage("drawing", "m", 1.0), Stage("requests", "a", 0.25, waits=True))
    )
    assert [course.throughput(n) for n in (1, 2, 4, 8)] == pytest.approx([1, 2, 4, 4])
    assert [course.binding(n).kind for n in (1, 2, 8)] == ["drawing", "drawing", "requests"]


def test_the_deadline_says_how_many_machines_and_which_limit_is_too_low() -> None:
    course = Course(
        1000, 1.0, 10, (Stage("drawing", "m", 1.0), Stage("requests", "a", 0.25, waits=True))
    )
    assert course.workers_for(1000.0) == 1
    assert course.workers_for(500.5) == 2
    assert course.workers_for(200.0) is None
    ((stage, factor),) = course.too_slow(200.0)
    assert stage.kind == "requests"
    assert factor == pytest.approx(250 / 199)
    ((_, endless),) = course.too_slow(0.5)
    assert math.isinf(endless)


def test_nothing_to_do_takes_no_time() -> None:
    assert Course(0, 1.0, 1, (), 5.0).seconds() == 0.0
    assert Course(0, 1.0, 1, (), 5.0).most_seconds(3) == 0.0


@given(courses(), st.integers(1, 64), st.integers(1, 64))
def test_more_machines_are_never_slower(course: Course, few: int, more: int) -> None:
    assert course.seconds(few + more) <= course.seconds(few) * (1 + 1e-9)
    assert course.throughput(few + more) >= course.throughput(few) * (1 - 1e-9)


@given(courses(), st.integers(1, 64), st.floats(1, 50))
def test_a_higher_limit_is_never_slower(course: Course, workers: int, by: float) -> None:
    for at, stage in enumerate(course.stages):
        if stage.waits:
            faster = Stage(stage.kind, stage.of, stage.seconds / by, 1.0, stage.window, True)
        else:
            faster = Stage(stage.kind, stage.of, stage.seconds, stage.servers * by)
        changed = (*course.stages[:at], faster, *course.stages[at + 1 :])
        raised = Course(course.cells, course.alone, course.at_work, changed, course.startup)
        assert raised.seconds(workers) <= course.seconds(workers) * (1 + 1e-9)


@given(courses(), st.integers(1, 64))
def test_the_binding_stage_is_that_of_least_capacity(course: Course, workers: int) -> None:
    binding = course.binding(workers)
    assert binding.capacity(workers) == min(s.capacity(workers) for s in course.every)
    assert course.throughput(workers) == binding.capacity(workers)


@given(courses(), st.integers(1, 64))
def test_the_queueing_bound_lies_above_what_is_expected(course: Course, workers: int) -> None:
    assert course.slowest_throughput(workers) <= course.throughput(workers)
    assert course.most_seconds(workers) >= course.seconds(workers)
    # No study is faster than one cell alone, nor than its binding stage allows.
    if course.cells:
        assert course.seconds(workers) >= course.alone
        waits = max((stage.window for stage in course.stages), default=0.0)
        floor = course.cells / course.throughput(workers) if course.throughput(workers) else 0.0
        assert course.seconds(workers) >= (floor - waits) * (1 - 1e-9)


@given(courses(), st.floats(0.01, 10**6))
def test_fewest_machines_are_fewest(course: Course, seconds: float) -> None:
    found = course.workers_for(seconds)
    if found is None:
        assert course.seconds(10**6) > seconds
    else:
        assert course.seconds(found) <= seconds
        assert found == 1 or course.seconds(found - 1) > seconds


@pytest.mark.parametrize(
    ("go_on", "most", "rounds"), [(0.0, 3, 1.0), (1.0, 3, 3.0), (0.5, 3, 1.75), (0.5, 1, 1.0)]
)
def test_expected_rounds(go_on: float, most: int, rounds: float) -> None:
    assert expected_rounds(go_on, most) == pytest.approx(rounds)


@given(st.floats(0, 1), st.integers(1, 50))
def test_expected_rounds_are_the_sum_of_the_chances(go_on: float, most: int) -> None:
    assert expected_rounds(go_on, most) == pytest.approx(sum(go_on**k for k in range(most)))


def test_how_often_loops_went_on() -> None:
    # Three went on after 0, 1 and 2 of the rounds after which they could: 1, 2 and 2.
    assert goes_on([1, 2, 3], [3, 3, 3]) == pytest.approx(3 / 5)
    assert goes_on([], []) == 0.0
    assert goes_on([1, 1], [1, 1]) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"cores": 0},
        {"startup": -1.0},
        {"process": math.nan},
        {"models": {"m": {"does": "draws", "seconds": -1.0}}},
        {"models": {"m": {"does": "draws", "seconds": math.inf}}},
        {"go_on": 1.5},
        {"rounds": 0},
    ],
)
def test_figures_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    sound = {"models": {"m": {"does": "draws", "seconds": 1.0}}}
    assert Figures.model_validate(sound)
    with pytest.raises(ValidationError):
        Figures.model_validate(sound | wrong)


def test_names_tell_whose_stage_it_is() -> None:
    assert Stage("requests", "openai", 1.0).name == "requests a minute of openai"
    assert {"requests", "day", "tokens", "calls"} == SHARED

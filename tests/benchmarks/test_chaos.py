"""What the chaos benchmark counts: a run that ends otherwise, and whatever is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks._mock import PAINTER, PANEL, REPORTER
from benchmarks.chaos import Chaos, end_of, figures_of, request
from scenewright.core.formats import load_scene


def chaos(images: int = 6, calls: int = 9, **ends: str) -> Chaos:
    return Chaos(
        kills=3,
        ends={key: {"status": status} for key, status in ends.items()},
        executed={PAINTER: images, PANEL: calls, REPORTER: 2},
    )


def test_runs_that_end_the_same_are_not_lost() -> None:
    figures = figures_of(chaos(a="finished", b="finished"), chaos(b="finished", a="finished"))
    assert (figures["kills"], figures["runs"], figures["lost"]) == (3, 2, 0)
    assert (figures["images_twice"], figures["calls_twice"]) == (0, 0)
    assert (figures["images"], figures["calls"]) == (6, 11)


def test_a_run_that_ends_otherwise_is_lost_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    figures = figures_of(chaos(a="failed", b="finished"), chaos(a="finished", b="finished"))
    assert figures["lost"] == 1
    assert "failed" in capsys.readouterr().out


def test_what_was_done_more_often_than_undisturbed_is_counted() -> None:
    figures = figures_of(chaos(images=8, calls=12, a="finished"), chaos(a="finished"))
    assert (figures["images_twice"], figures["calls_twice"]) == (2, 3)


def test_requests_differ_and_are_the_same_each_time() -> None:
    asked = [request(number) for number in range(30)]
    assert asked == [request(number) for number in range(30)]
    assert len({one["triplets"] for one in asked}) > 25
    assert len({one["idempotency_key"] for one in asked}) == 30
    assert all(len(load_scene(one["triplets"]).objects) == 3 for one in asked)


def test_an_end_holds_what_was_made_and_no_times() -> None:
    round_: dict[str, Any] = {
        "prompt": "a ball", "image": {"hash": "1"}, "reference": None, "loop_card": {},
        "report_card": None, "missing": None, "does": "drawn", "at": 1.0,
    }  # fmt: skip
    view = {
        "id": "run_1", "status": "finished", "error": None, "summary": {"stop_reason": "rounds"},
        "best_round": 0, "rounds": [round_], "created": 5.0,
        "totals": {"images": 1, "judge_calls": 2, "seconds": 3.0},
    }  # fmt: skip
    other = {**view, "id": "run_2", "created": 6.0, "rounds": [{**round_, "at": 2.0}]}
    assert end_of(view) == end_of(other)
    changed = {**view, "rounds": [{**round_, "image": {"hash": "2"}}]}
    assert end_of(view) != end_of(changed)

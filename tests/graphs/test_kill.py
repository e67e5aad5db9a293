"""A run that is killed at any step and started again: nothing lost, nothing paid twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graphs.killing import cases_of, of

pytestmark = pytest.mark.slow

FACTS_OF_A_WAVE = 3 + 2
"""The three things, and the two facts of the picture as a whole."""
KINDS = {
    "RunFolder.write_manifest",
    "EventLog.append",
    "begin compose",
    "end compose",
    "begin generate",
    "end generate",
    "ImageStore.put",
    "ImageStore.remember",
    "begin answer",
    "end answer",
    "AnswerStore.put",
    "LoopCheckpoints.aput",
    "session.write_text",
}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """One line a case of the runner."""
    return cases_of()


def test_unbroken_run_pays_for_each_thing_once_and_uses_every_kind_of_step(
    cases: list[dict[str, Any]],
) -> None:
    (whole,) = of(cases, "whole")
    assert whole["each key once"]
    assert whole["last"] == "finished"
    assert len(whole["images"]) == 3
    assert sorted(whole["calls"]) == whole["stored"]
    assert {case["label"] for case in of(cases, "frozen")} == KINDS
    types = {event["type"] for event in whole["events"]}
    assert types == {
        "run_started",
        "composed",
        "generated",
        "answered",
        "judged",
        "missing",
        "planned",
        "finished",
    }


@pytest.mark.parametrize("way", ["frozen", "killed"])
def test_resumed_run_ends_as_the_unbroken_one(cases: list[dict[str, Any]], way: str) -> None:
    broken = [case for case in of(cases, way) if not case["ended"] or case["differs"]]
    assert of(cases, way)
    assert broken == []


@pytest.mark.parametrize("way", ["frozen", "killed"])
def test_nothing_stored_is_paid_again(cases: list[dict[str, Any]], way: str) -> None:
    again = [case for case in of(cases, way) if case["paid again"] or case["asked twice"]]
    assert again == []


def test_only_calls_in_flight_are_lost(cases: list[dict[str, Any]]) -> None:
    """An image, or the facts of one wave by each of the two judges."""
    lost = [case["in flight"] for way in ("frozen", "killed") for case in of(cases, way)]
    assert max(lost) <= 2 * FACTS_OF_A_WAVE
    assert any(lost)


def test_real_kills_happened_at_every_kind_of_step(cases: list[dict[str, Any]]) -> None:
    killed = of(cases, "killed")
    assert all(case["killed"] for case in killed)
    assert {case["label"] for case in killed} == KINDS


def test_a_run_killed_again_and_again_comes_to_the_same_end(cases: list[dict[str, Any]]) -> None:
    (often,) = of(cases, "often")
    assert often["kills"] >= 5
    assert often["differs"] == []


def test_the_loop_loads_no_model_library(cases: list[dict[str, Any]]) -> None:
    (heavy,) = of(cases, "heavy")
    assert heavy["loaded"] == []

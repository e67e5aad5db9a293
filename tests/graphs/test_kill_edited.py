"""A run that a person pauses and edits, killed at any step: nothing lost, nothing paid twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graphs.killing import cases_of, of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """One line a case of the runner."""
    return cases_of("edited")


def test_the_unbroken_run_is_paused_and_edited_twice(cases: list[dict[str, Any]]) -> None:
    (whole,) = of(cases, "whole")
    assert whole["each key once"]
    keys = {event["key"] for event in whole["events"]}
    assert keys >= {"paused:0", "edit:0", "finished:1", "edit:1", "finished:2"}
    assert whole["last"] == "finished:2"
    # A candidate and a reference for round 0, 2 and 4; the rounds of the edits drew nothing.
    assert len(whole["images"]) == 5
    assert sorted(whole["calls"]) == whole["stored"]


@pytest.mark.parametrize("way", ["frozen", "killed"])
def test_a_resumed_run_ends_as_the_unbroken_one(cases: list[dict[str, Any]], way: str) -> None:
    broken = [case for case in of(cases, way) if not case["ended"] or case["differs"]]
    assert len(of(cases, way)) > 10
    assert broken == []


@pytest.mark.parametrize("way", ["frozen", "killed"])
def test_nothing_stored_is_paid_again(cases: list[dict[str, Any]], way: str) -> None:
    again = [case for case in of(cases, way) if case["paid again"] or case["asked twice"]]
    assert again == []


def test_a_run_killed_again_and_again_comes_to_the_same_end(cases: list[dict[str, Any]]) -> None:
    (often,) = of(cases, "often")
    assert often["kills"] >= 5
    assert often["differs"] == []

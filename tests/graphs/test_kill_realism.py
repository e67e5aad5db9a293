"""A run whose judges tell realism, killed at any step: nothing lost, nothing paid twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graphs.killing import cases_of, of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """One line a case of the runner."""
    return cases_of("realism")


def test_the_unbroken_run_keeps_the_more_real_picture_and_pays_for_each_thing_once(
    cases: list[dict[str, Any]],
) -> None:
    (whole,) = of(cases, "whole")
    assert whole["each key once"]
    planned = [event for event in whole["events"] if event["type"] == "planned"]
    assert [plan["strategy"] for plan in planned] == ["best-of-n"] * 2
    assert whole["result"]["ocr"]["loop"]["before"] < whole["result"]["ocr"]["loop"]["after"]
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

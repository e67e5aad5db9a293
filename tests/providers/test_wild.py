"""Every shape of compatible servers' replies with every role that meets it."""

from __future__ import annotations

import pytest

from benchmarks._wild import ASK, SETTINGS, Bench, Outcome, Result, is_about_text
from scenewright.mock_providers import serving
from scenewright.mock_providers.wild import BY_NAME, ROLES, SHAPES, Role


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_makes_the_right_thing_of_every_shape(role: Role) -> None:
    async with serving(SETTINGS) as mock:
        bench = Bench(mock)
        shapes = [shape for shape in SHAPES if role in shape.roles]
        results = [await bench.try_shape(shape, role) for shape in shapes]
    assert [result.problem for result in results if result.problem] == []


def test_every_role_is_asked() -> None:
    assert set(ASK) == set(ROLES)
    assert len(SHAPES) >= 25
    assert is_about_text(BY_NAME["think-tags"])
    assert not is_about_text(BY_NAME["no-v1"])
    assert not is_about_text(BY_NAME["object-arguments"])


def result(name: str, outcome: Outcome, attempts: int, *, is_right: bool) -> Result:
    return Result(BY_NAME[name], "chat", outcome, attempts, is_right)


def test_what_is_wrong_is_told() -> None:
    named = Outcome(error="HTTP 402: Insufficient credits. Add more")
    assert result("credits-in-200", named, 1, is_right=True).problem == ""
    told = result("credits-in-200", named, 3, is_right=True).problem
    assert told.startswith("chat, credits-in-200 (final): 2 needless requests: HTTP 402")
    told = result("credits-in-200", Outcome(error="malformed reply"), 1, is_right=True).problem
    assert "no 'insufficient credits'" in told
    told = result("think-tags", Outcome("draft"), 1, is_right=False).problem
    assert told == "chat, think-tags (read): wrong end: answered draft"
    assert result("rate-limit-in-200", Outcome("hi"), 2, is_right=True).problem == ""

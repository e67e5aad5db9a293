"""Asking before work that costs more than it may, and how amounts are told."""

from __future__ import annotations

import io

import pytest
import typer

from scenewright.cli.costs import agree, count_range, dollar_range


class Terminal(io.StringIO):
    """Somebody at a keyboard, with what they type."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("usd", "limit", "yes"), [(5.0, 5.0, False), (9.0, None, False), (9.0, 5.0, True)]
)
def test_what_may_be_spent_is_not_asked_about(
    usd: float, limit: float | None, yes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    agree(usd, limit, yes, "take less")


def test_where_nobody_can_be_asked_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(typer.Exit) as left:
        agree(1234.5, 5.0, False, "take less")
    assert left.value.exit_code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "it may cost $1,234.50, the limit is $5.00: add --yes, or take less" in said


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_decides_and_saying_nothing_is_a_no(
    typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    if goes_on:
        agree(6.0, 5.0, False, "take less")
        return
    with pytest.raises(typer.Exit) as left:
        agree(6.0, 5.0, False, "take less")
    assert left.value.exit_code == 2


def test_ranges_shrink_to_one_number_and_unknown_prices_are_no_zero() -> None:
    assert count_range(1000, 1000) == "1,000"
    assert count_range(8, 1000) == "8–1,000"
    assert dollar_range(0.0, 0.0) == "$0"
    assert dollar_range(0.00021, 0.5) == "$0.00021–$0.50"
    assert dollar_range(0.0, None) == "?"

"""Asking before work that costs more than it may, and how amounts are told."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from scenewright.cli.costs import agree, agree_to_run, count_range, dollar_range
from scenewright.cli.main import app
from scenewright.evals.runner.forecast import forecast_run
from scenewright.graphs.events import Edit
from scenewright.runs.folder import RESULT
from scenewright.runs.plan import plan_run


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


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of nobody: models can be built, and a call would be refused by the closed network."""
    for name in ("OPENAI", "GEMINI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())


@pytest.mark.usefixtures("keys")
def test_a_run_that_may_cost_more_than_the_default_limit_is_not_begun(tmp_path: Path) -> None:
    place = tmp_path / "scenewright.toml"
    place.write_text("limit_usd = 0.01\n")
    done = CliRunner().invoke(app, ["refine", "red ball", "--profile", "openai"])
    assert done.exit_code == 2
    assert re.search(r"estimated cost: \$[\d.]+–\$[\d.]+, limit \$0.01 \(limit_usd", done.stderr)
    assert "add --yes, or lower --rounds, or set --max-usd or limit_usd in" in done.stderr
    assert not (tmp_path / "runs").exists()
    place.write_text('[profiles.mine]\nextends = "openai"\nlimit_usd = 0.02\n')
    done = CliRunner().invoke(app, ["refine", "red ball", "--profile", "mine"])
    assert "limit_usd of the profile mine" in done.stderr
    done = CliRunner().invoke(app, ["refine", "red ball", "-p", "mine", "--max-usd", "0.001"])
    assert "one round may cost" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("keys")
def test_who_agrees_to_a_cost_above_the_limit_is_not_stopped_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = plan_run("red ball", "openai")
    low = replace(planned, settings=planned.settings.model_copy(update={"limit_usd": 0.01}))
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert agree_to_run(low, None, False, True).options.budget.usd is None
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(typer.Exit):
        agree_to_run(low, None, False, True)


@pytest.mark.usefixtures("keys")
def test_the_limit_bounds_the_run_and_leaves_it_the_same_run() -> None:
    planned = plan_run("red ball", "openai", rounds=4)
    bounded = agree_to_run(planned, None, False, True)
    assert bounded.options.budget.usd == 5.0
    assert (bounded.config, bounded.folder) == (planned.config, planned.folder)
    assert agree_to_run(planned, None, True, True).options.budget.usd is None
    assert agree_to_run(planned, 2.0, False, True).options.budget.usd == 2.0
    edited = replace(planned, edit=Edit(key="one"))
    edited.folder.path.mkdir(parents=True)
    (edited.folder.path / RESULT).touch()
    assert agree_to_run(planned, None, False, True) is planned
    assert agree_to_run(edited, None, False, True).options.budget.usd == 5.0
    free = plan_run("red ball", "miniature")
    assert agree_to_run(free, None, False, True) is free


@pytest.mark.usefixtures("keys")
def test_more_rounds_cost_more_and_one_round_at_least_is_paid_for() -> None:
    short, long = (forecast_run(plan_run("red ball", "openai", rounds=n)) for n in (1, 5))
    assert short.least == long.least
    assert 0 < short.usd < long.usd
    roles = {line.what for line in long.lines}
    assert {"draws", "steers", "reports"} <= roles
    drawn = next(line for line in long.lines if line.what == "draws")
    assert (drawn.least.usage.images, drawn.most.usage.images) == (1, 9)

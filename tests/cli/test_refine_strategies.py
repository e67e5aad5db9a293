"""``refine --strategy`` and ``strategies`` on the shipped models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.graphs.strategies.registry import strategies

# The first picture of this seed lacks the lamp.
SCENE = (
    "red lamp under table; black cat inside green house; white ball on table; "
    "purple hat left of boat"
)


def called(*arguments: str) -> Any:
    """The JSON that a command prints; it must not fail."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def test_an_unknown_strategy_is_refused_before_anything_is_loaded() -> None:
    done = CliRunner().invoke(app, ["refine", SCENE, "--strategy", "best-of-m"])
    assert done.exit_code == 2
    assert "no strategy 'best-of-m'; did you mean 'best-of-n'?" in " ".join(done.stderr.split())
    assert "loading" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [*strategies(), "director"])
def test_every_strategy_runs_from_the_command_line(tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    found = called(
        *("refine", SCENE, "--strategy", name, "--rounds", "2", "--seed", "5"),
        *("--out", str(out), "--quiet"),
    )
    first, second = found["rounds"]
    assert first["strategy"] == ""
    assert second["strategy"] == name or name == "router"
    assert second["does"]
    assert second["image"] != first["image"]
    assert (out / "index.html").is_file()
    # The kept picture is never worse than the first one.
    assert found["change_from_round_0"]["loop"] >= 0


def test_strategies_are_listed_and_for_a_named_profile_with_what_its_model_lacks() -> None:
    rows = {row["name"]: row for row in called("strategies")["strategies"]}
    assert set(rows) == {*strategies(), "director"}
    assert [name for name, row in rows.items() if row["default"]] == ["feedback"]
    assert not any(row["lacks"] for row in rows.values())
    named = called("strategies", "--profile", "miniature")["strategies"]
    rows = {row["name"]: row for row in named}
    assert [name for name, row in rows.items() if row["lacks"]] == ["edit", "compose-edit"]


def test_an_unknown_strategy_is_a_clear_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["refine", SCENE, "--strategy", "magic", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code not in (0, 1), result.output
    assert "no strategy 'magic': there are best-of-n" in result.output
    assert not (tmp_path / "run").exists()

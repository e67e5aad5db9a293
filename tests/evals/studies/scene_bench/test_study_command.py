"""``scenewright study run``: what it says, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scenewright.cli.study import app
from scenewright.evals.studies.registry import STUDIES
from tests.evals.studies.scene_bench.study_results import Made


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_list_names_every_study() -> None:
    found = call("list")
    assert found.exit_code == 0
    for one in STUDIES.values():
        assert one.name in found.output
        assert one.number in found.output
    assert set(json.loads(call("list", "--json").output)) == set(STUDIES)


def test_the_plan_says_what_it_will_take_and_draws_nothing(tmp_path: Path) -> None:
    out = tmp_path / "made"
    found = call("run", "feedback", "judges", "--n", "3", "--plan", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "triplets, composition, feedback" in found.output
    # Three scenes, three seeds: one picture in two arms, up to three in the loop's.
    assert "27–45" in found.output
    assert "judge-eager" in found.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "unknown study 'nothing': use one of tables23"),
        (["feedback", "--seeds", "a"], "--seeds is 'a': write whole numbers from 0, such as 0,1,2"),
        (["feedback", "--seeds", "1,1"], "each once"),
        (["feedback", "--dataset", "imagenet"], "unknown set 'imagenet'"),
        (["feedback", "--profile", "none"], "'none'"),
        (["judges", "--judges", "judge-a"], "write 'kind:model'"),
    ],
)
def test_wrong_input_is_told_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    found = call("run", *arguments, "--out", str(tmp_path / "made"))
    assert found.exit_code == 2, found.output
    assert said in found.output.replace("\n", " ")
    assert not (tmp_path / "made").exists()


def test_results_are_told_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    monkeypatch.setattr("scenewright.evals.studies.running._perform", lambda *a: made(*a[4:]))
    found = call("run", "feedback", "--n", "10", "--json", "-q", "--out", str(tmp_path))
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert told["studies"][0]["study"] == "feedback"
    assert told["studies"][0]["verdicts"]["agrees"] > 0
    assert all(Path(file).is_file() for file in told["studies"][0]["files"])
    assert (tmp_path / "index.md").is_file()

"""``scenewright data``: list, options, show, stats and sample, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.datasets import miniature_scenes, tables
from scenewright.evals.datasets.base import CATALOGUE, FOLDER_VARIABLE
from tests.evals.datasets.test_prompt_sets import ROWS, dsg_file


@pytest.fixture(autouse=True)
def _empty_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "sets"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["data", *(str(each) for each in arguments)])


def said(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_all_sets_are_listed_with_source_licence_and_place(tmp_path: Path) -> None:
    place = tmp_path / "sets" / "dsg"
    place.mkdir(parents=True)
    listed = {entry["name"]: entry for entry in said("list")}
    assert set(listed) == set(CATALOGUE)
    assert listed["dsg"]["here"] == str(place)
    assert listed["tifa"]["here"] is None
    assert all(entry["source"] for entry in listed.values())
    text = run("list").stdout
    assert "Apache-2.0" in text
    assert f"here: {place}" in text
    assert text.count("not on this machine") + text.count("needs --path") == len(CATALOGUE) - 3


def test_options_are_explained() -> None:
    assert set(said("options", "dsg")) == {"split", "parse"}
    assert "where the scene comes from" in run("options", "dsg").stdout


def test_items_are_shown_with_scene_and_questions(tmp_path: Path) -> None:
    file = dsg_file(tmp_path / "a.csv", *ROWS)
    shown = run("show", "dsg", "--path", file, "-n", 1).stdout
    assert "vrd_1  Relations · vrd  simple" in shown
    assert "man.1 has hat.1" in shown
    assert "5 Are the dogs below?  after 1, 3" in shown
    assert "whoops_2" not in shown
    (row,) = said("show", "dsg", "--path", file, "--set", "split=whoops")
    assert row["id"] == "whoops_2"
    assert row["facts"][0]["question"] == "Is there a cat?"


def test_statistics_as_tables_and_files(tmp_path: Path) -> None:
    out = tmp_path / "plots"
    result = run("stats", "miniature", "--set", "n=12", "--out", out)
    assert result.exit_code == 0, result.output
    # The layout of the paper's Table 1.
    assert result.stdout.splitlines()[0].split() == (
        ["Dataset", "Images", "Obj.", "/", "Rel.", "Samples", "Triplets", "Balanced"]
    )
    assert "yes" in result.stdout.splitlines()[1]
    files = sorted(file.name for file in out.iterdir())
    assert {"complexity.svg", "cloud-objects.png", "cloud-relations.svg"} <= set(files)
    assert all(f"wrote {out / name}" in result.stdout for name in files)
    found = said("stats", "miniature", "--set", "n=12", "--limit", 6)
    assert (found["items"], found["levels"]) == (6, {"simple": 2, "medium": 2, "hard": 2})
    assert found["balanced"] is True


def test_a_sample_is_written_as_a_table_that_is_read_again(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    given = ("--set", "n=30", "--counts", "simple=2,medium=3,hard=1", "--seed", 5, "--out", out)
    assert said("sample", "miniature", *given) == {
        "file": str(out),
        "items": 6,
        "classes": {"hard": 1, "medium": 3, "simple": 2},
    }
    whole = {item.id: item for item in miniature_scenes.load(n=30)}
    drawn = list(tables.load_table(out))
    assert drawn == [whole[item.id] for item in drawn]
    before = out.read_bytes()
    assert "wrote 6 items" in run("sample", "miniature", *given).stdout
    assert out.read_bytes() == before


def test_too_few_items_are_refused_or_taken(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    given = ("sample", "miniature", "--set", "n=6", "--counts", "hard=5", "--out", out)
    refused = run(*given)
    assert refused.exit_code == 2
    assert "hard has 2, wanted 5" in refused.stderr
    assert not out.exists()
    assert run(*given, "--short", "take").exit_code == 0
    assert len(out.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nope"), "there is no set 'nope'"),
        (("show", "dsg"), "scenewright data get dsg"),
        (("show", "miniature", "--set", "n"), "write OPTION=VALUE"),
        (("show", "miniature", "--set", "m=1"), "no option 'm'"),
        (("show", "miniature", "--set", "n=0"), "use a whole number from 1"),
        (("sample", "miniature", "--counts", "hard", "--out", "a.jsonl"), "write CLASS=N"),
        (("sample", "miniature", "--out", "a.csv"), "must end in .jsonl"),
        (("sample", "miniature", "--short", "x", "--out", "a.jsonl"), "use error or take"),
        (("options", "nope"), "there is no set 'nope'"),
    ],
)
def test_wrong_usage_is_one_line_with_a_remedy(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.glob("a.*")) == []

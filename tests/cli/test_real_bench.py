"""``scenewright real-bench``: schemas made and checked, pictures scored, scores compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.studies.real.real_scorer import read_rows
from scenewright.miniature.painter import paint

SCHEMA = """
[[classes]]
name = "red dog"
existence = "Is there a dog in the image?"
[[classes.attributes]]
part = "dog"
description = "red"
[[classes.attributes]]
part = "ball"
description = "blue"
"""
EXISTENCE = 'existence = "Is there a dog in the image?"\n'


def scene(color: str) -> SceneGraph:
    things = (("dog", color), ("ball", "blue"))
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": value}))
            for name, value in things
        )
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "red dog"
    inside.mkdir()
    paint(scene("red"), seed=1).image.save(inside / "good.png")
    paint(scene("green"), seed=2).image.save(inside / "green.png")
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["real-bench", *map(str, arguments)])
    return done.exit_code, done.output


def test_pictures_are_scored_and_compared(folder: Path) -> None:
    out = folder / "rows.jsonl"
    asked = (
        *("score", folder / "red dog", "--schema", folder / "s.toml"),
        *("--weighting", "hard"),
        *("--judges", "local:miniature/judge-a", "--out", out, "--store", folder / "a.db"),
    )
    code, said = run(*asked)
    assert code == 0, said
    rows = {Path(row.image).name: row for row in read_rows(out)}
    assert rows["good.png"].s_att == 1.0
    assert rows["green.png"].s_att == 0.5
    assert rows["green.png"].wrong == ("dog is red",)
    assert "dog is red" in said
    code, said = run(*asked[:-4], "--out", out.with_suffix(".parquet"), "--json", "-q",
                     "--store", folder / "a.db")  # fmt: skip
    assert read_rows(out.with_suffix(".parquet")) == list(rows.values())
    (folder / "l.csv").write_text("image,label\ngood.png,1\ngreen.png,0\n")
    code, said = run("agree", out, folder / "l.csv")
    assert code == 0, said
    assert "s_att" in said


def test_wrong_input_is_told(folder: Path) -> None:
    base = ("score", folder / "red dog", "--schema", folder / "s.toml")
    for more, said in (
        (("--class", "cat"), "no class 'cat'"),
        (("--wording", "terse"), "published or plain"),
        (("--weighting", "soft"), "probability or hard"),
        (("--asking", "twice"), "waves or together"),
        (("--judges", "a:b", "--profile", "miniature"), "not both"),
        (("--out", folder / "rows.csv"), ".jsonl or .parquet"),
    ):
        code, output = run(*base, *more)
        assert code == 2, output
        assert said in output


def test_faults_of_schemas_are_named(folder: Path) -> None:
    code, said = run("schema", "check", folder / "s.toml")
    assert code == 0
    assert "2 attributes" in said
    (folder / "bad.json").write_text(json.dumps({"classes": [{"name": "cat"}, {"name": "dog"}]}))
    code, said = run("schema", "check", folder / "bad.json")
    assert code == 2
    assert "(cat): attributes: Field required" in said
    assert "(dog): attributes: Field required" in said


def test_schemas_of_annotations(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("1 001.Wren\n")
    (tmp_path / "attributes.txt").write_text("1 has_bill_color::red\n")
    (tmp_path / "image_class_labels.txt").write_text("1 1\n")
    (tmp_path / "image_attribute_labels.txt").write_text("1 1 1 4 0.5\n")
    code, said = run("schema", "cub", tmp_path, "--out", tmp_path / "s.json")
    assert code == 0, said
    assert "1 classes, 1 attributes" in said


def test_judges_with_few_words_are_asked_in_words_that_they_know(folder: Path) -> None:
    # The published question, of animals and plants, is not in their words.
    (folder / "s.toml").write_text(SCHEMA.replace(EXISTENCE, ""))
    out = folder / "rows.jsonl"
    asked = (
        *("score", folder / "red dog", "--schema", folder / "s.toml", "--out", out),
        *("--judges", "local:miniature/judge-a", "--store", folder / "a.db"),
    )
    code, output = run(*asked)
    assert code == 0, output
    assert all(row.s_att is not None and not row.unscored for row in read_rows(out))
    code, output = run(*asked, "--wording", "published")
    assert code == 2
    assert "no judge can be asked about the class 'red dog'" in output
    assert "'plant'" in output
    assert "take --wording plain" in output


def test_a_class_that_no_judge_knows_is_refused(folder: Path) -> None:
    (folder / "s.toml").write_text(
        SCHEMA.replace('"red dog"', '"heron"').replace(
            'existence = "Is there a dog in the image?"\n', ""
        )
    )
    code, output = run(
        *("score", folder / "red dog", "--schema", folder / "s.toml", "--class", "heron"),
        *("--judges", "local:miniature/judge-a", "--store", folder / "a.db"),
    )
    assert code == 2
    assert "do not know the word 'heron'; name judges that know any words" in output
    assert "--wording" not in output


def test_a_limit_that_an_unknown_price_breaks_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    judged = ("--judges", "openai:gpt-of-tomorrow", "--schema", folder / "s.toml")
    commands = (
        ("real-bench", "score", folder / "red dog", *judged, "--store", folder / "a.db"),
        ("real-bench", "filter", folder / "red dog", *judged, "--top", 1, "--out", folder / "kept"),
    )
    for command in commands:
        done = CliRunner().invoke(app, [*map(str, command)])
        told = " ".join(done.output.split())
        assert done.exit_code == 2
        assert told.count("no price is known for openai:gpt-of-tomorrow") == 1

"""``scenewright rate objects`` from the shell, up to the report and the exported set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.human_ratings.rated_objects import read_objects
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import StudyFolder
from tests.evals.human_ratings.rated import evaluation
from tests.evals.human_ratings.rated_objects import rate_next, rated_set


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    rated_set(tmp_path / "set", 4)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rate", *arguments])


def rate_all(folder: str, *names: str) -> None:
    store = RatingStore(StudyFolder(Path(folder)))
    for at, name in enumerate(names):
        rater = store.rater(name)
        while rate_next(store, rater, lambda _, at=at: (4 - at, 3 + at)):
            pass
    store.close()


def test_from_objects_to_a_report_and_a_set() -> None:
    done = call("objects", "set", "--whole", "0.5", "--seed", "3", "--out", "r")
    assert done.exit_code == 0, done.output
    assert "8 objects of 4 pictures from rated objects set" in done.stdout
    assert "scenewright rate serve r" in done.stdout
    rate_all("r", "Ann", "Bea")
    done = call("report", "r", "--resamples", "50")
    assert done.exit_code == 0, done.output
    for part in ("Cohen's κ", "paper", "0.34", "rate of re-evaluation", "Ann", "sdxl", "lamp"):
        assert part in done.stdout
    assert Path("r/report/index.html").is_file()
    data = json.loads(call("report", "r", "--resamples", "50", "--json").stdout)
    assert data["counts"]["finished"] == 8
    assert data["tables"]["raters"]["rows"][0]["bias_shape"]["value"] == 1.0
    done = call("export", "r", "rated")
    assert done.exit_code == 0, done.output
    assert "8 objects of 4 pictures written to rated" in done.stdout
    assert len(read_objects("rated")) == 8
    done = call("export", "r", "all.csv")
    assert done.exit_code == 0, done.output
    assert "36 ratings written to all.csv" in done.stdout


def test_objects_tells_machines_what_it_made() -> None:
    done = call("objects", "set", "-n", "5", "--raters", "3", "--apart", "2", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert (data["kind"], data["objects"]) == ("objects", 5)
    assert data["rule"] == {"raters": 3, "apart": 2}


def test_a_detector_finds_the_objects() -> None:
    evaluation(Path("e"), 2)
    files = {
        str(p): [{"name": "dog", "box": [4, 4, 60, 60]}] for p in Path("e/images").rglob("*.png")
    }
    Path("found.json").write_text(json.dumps(files), encoding="utf-8")
    done = call("objects", "e", "--detector", "json:found.json", "--images", ".", "--out", "r")
    assert done.exit_code == 0, done.output
    assert "8 objects of 8 pictures from evaluation e, objects by json:found.json" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("objects", "nothing"), "holds no objects"),
        (("objects", "set", "--labels", "dog"), "are for --detector"),
        (("objects", "set", "--detector", "magic"), "is not a detector"),
        (("objects", "bad.json"), "is not valid JSON"),
        (("make", "set", "--kind", "objects"), "scenewright rate objects"),
        (("export", "r"), "not the folder of a study"),
        (("export", "made", "a", "--out", "b"), "give one of them"),
        (("export", "made", "a.csv", "--fewest", "1"), "--fewest is for folders"),
        (("export", "made", "out"), "no object that is rated enough"),
        (("report", "made", "e"), "leave EVAL out"),
        (("report", "made"), "no ratings yet"),
        (("labels", "made"), "asks for objects"),
    ],
)
def test_wrong_input_is_one_line_with_a_remedy(arguments: tuple[str, ...], told: str) -> None:
    Path("bad.json").write_text("{", encoding="utf-8")
    if "made" in arguments:
        assert call("objects", "set", "--out", "made").exit_code == 0
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

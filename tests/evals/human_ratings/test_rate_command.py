"""``scenewright rate`` from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import StudyFolder
from scenewright.evals.human_ratings.table import read_csv
from tests.evals.human_ratings.rated import ARMS, evaluation


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    evaluation(tmp_path / "e", 5, {"sgscore": lambda i, a: a / 4}, same=(0,))
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rate", *arguments])


def rate_all(folder: str, *names: str) -> None:
    study = StudyFolder(Path(folder))
    store = RatingStore(study)
    for name in names:
        rater = store.rater(name)
        for number in range(1, store.progress(rater).total + 1):
            store.keep(rater, number, "", "1", seconds=1.0)
    store.close()


@pytest.mark.slow
def test_from_an_evaluation_to_a_report() -> None:
    done = call("make", "e", "--seed", "3", "--repeats", "0.5", "--out", "r")
    assert done.exit_code == 0, done.output
    assert "4 tasks (choice) from evaluation e" in done.stdout
    assert "left out  1 × two arms give the same picture" in done.stdout
    assert "scenewright rate serve r" in done.stdout
    rate_all("r", "Ann", "Bea")
    done = call("export", "r", "--out", "all.csv")
    assert done.exit_code == 0, done.output
    assert "12 ratings written" in done.stdout
    assert len(read_csv(Path("all.csv"))) == 12
    done = call("report", "r", "e", "--resamples", "50")
    assert done.exit_code == 0, done.output
    for part in ("Krippendorff", "share of raters", "sgscore", "r/report/index.html"):
        assert part in done.stdout
    again = call("report", "all.csv", "e", "--resamples", "50", "--out", "again", "--json")
    data = json.loads(again.stdout)["tables"]
    kept = json.loads(Path("r/report/report.json").read_text("utf-8"))["tables"]
    assert data["agreement"] == kept["agreement"]
    assert {row["arm"]: row for row in data["arms"]["rows"]} == {
        row["arm"]: row for row in kept["arms"]["rows"]
    }


def test_make_tells_machines_what_it_made() -> None:
    done = call("make", "e", "-k", "score", "--arms", "feedback,triplets", "-n", "4", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert (data["kind"], data["tasks"], data["arms"]) == ("score", 4, [ARMS[2], ARMS[0]])
    assert Path("ratings/study.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("make", "nothing"), "nothing does not exist"),
        (("make", "e", "--kind", "taste"), "unknown kind 'taste'"),
        (("make", "e", "--arms", "sdxl"), "is not one of the arms"),
        (("make", "e", "--arms", "feedback"), "between 2 and 8 arms"),
        (("make", "e", "--scale", "low"), "two texts"),
        (("serve", "e"), "not the folder of a study"),
        (("export", "e"), "not the folder of a study"),
        (("labels", "nothing"), "rate make"),
        (("report", "nothing.csv"), "cannot be read"),
        (("report", "t.csv", "--kind", "score", "--columns", "rater"), "write OURS=THEIRS"),
        (("report", "t.csv", "--kind", "score", "--columns", "x=y"), "unknown column x"),
    ],
)
def test_wrong_input_is_one_line_with_a_remedy(arguments: tuple[str, ...], told: str) -> None:
    Path("t.csv").write_text("rater,item,value\na,i,3\n", encoding="utf-8")
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_report_without_ratings_or_evaluation_says_so() -> None:
    call("make", "e", "--out", "r")
    done = call("report", "r")
    assert done.exit_code == 2
    assert "no ratings yet" in done.stderr
    rate_all("r", "Ann")
    assert call("report", "r", "nothing").exit_code != 0
    assert call("report", "r", "--kind", "score").exit_code == 2
    done = call("report", "r", "--resamples", "20")
    assert done.exit_code == 0, done.output


def test_a_guessable_token_is_refused() -> None:
    call("make", "e", "--out", "r")
    done = call("serve", "r", "--host", "0.0.0.0", "--port", "0", "--token", "abc")
    assert done.exit_code == 2
    assert "can be guessed" in done.stderr

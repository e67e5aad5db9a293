"""Ratings of facts become labels, and labels a calibration of judges."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.panel.rates import load_calibration
from scenewright.cli.main import app
from scenewright.evals.human_ratings.labels import write_labels
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import RatingError, StudyFolder, is_done, next_asked
from scenewright.evals.human_ratings.table import ratings_of
from scenewright.evals.judge_reports.labelled_facts import read_labels
from tests.evals.human_ratings.rated import evaluation, study_in

DOG, BALL, RED, LEFT = "o:dog.1", "o:ball.1", "a:dog.1:color", "r:dog.1|left of|ball.1"


def say(folder: StudyFolder, rater: str, place: int, **values: str) -> None:
    """What ``rater`` says at a place, by the names of the facts above."""
    store = RatingStore(folder)
    who = store.rater(rater)
    showing = store.showing(who, place)
    assert showing is not None
    for name, value in values.items():
        fact = globals()[name]
        store.keep(who, place, fact, value, lambda v: is_done("facts", showing.task, v))
    store.close()


def labels_in(path: Path) -> dict[str, tuple[str, str, str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["question"]: (row["holds"], row["votes_yes"], row["votes_no"], row["cannot_tell"])
            for row in csv.DictReader(file)
        }


@pytest.fixture
def one(tmp_path: Path) -> StudyFolder:
    source = evaluation(tmp_path / "e", 1)
    return study_in(tmp_path / "s", source, kind="facts", arms=("triplets",))


def test_the_majority_is_the_label(one: StudyFolder, tmp_path: Path) -> None:
    say(one, "Ann", 1, DOG="yes", BALL="yes", RED="no", LEFT="yes")
    say(one, "Bea", 1, DOG="yes", BALL="no", RED="cannot tell")
    say(one, "Carlo", 1, DOG="yes", BALL="yes", RED="cannot tell", LEFT="no")
    count = write_labels(one, ratings_of(one), tmp_path / "labels.csv")
    assert count.model_dump() == {
        "labels": 3, "holds": 2, "ties": 1, "undecided": 0, "too_few": 0, "absent": 0,
    }  # fmt: skip
    questions = {fact.id: fact.question for fact in one.study.tasks[0].facts}
    assert labels_in(tmp_path / "labels.csv") == {
        questions[DOG]: ("1", "3", "0", "0"),
        questions[BALL]: ("1", "2", "1", "0"),
        questions[RED]: ("0", "0", "1", "2"),
    }
    found = {known.fact.question: known for known in read_labels(tmp_path / "labels.csv")}
    assert {q: known.holds for q, known in found.items()} == {
        questions[DOG]: True, questions[BALL]: True, questions[RED]: False,
    }  # fmt: skip
    assert found[questions[RED]].fact.kind == "attribute"
    assert found[questions[DOG]].picture.load().size == (64, 64)


def test_what_is_about_an_absent_thing_is_no_label(one: StudyFolder, tmp_path: Path) -> None:
    say(one, "Ann", 1, DOG="no", BALL="yes")
    say(one, "Bea", 1, DOG="no", BALL="yes")
    say(one, "Carlo", 1, DOG="yes", BALL="yes", RED="yes", LEFT="yes")
    count = write_labels(one, ratings_of(one), tmp_path / "labels.csv")
    assert (count.labels, count.absent) == (2, 2)


def test_a_label_can_need_several_votes(one: StudyFolder, tmp_path: Path) -> None:
    say(one, "Ann", 1, DOG="yes", BALL="yes")
    say(one, "Bea", 1, DOG="yes")
    count = write_labels(one, ratings_of(one), tmp_path / "labels.csv", fewest=2)
    assert (count.labels, count.too_few) == (1, 1)


def test_one_picture_of_two_arms_is_one_label(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 1, same=(0,))
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets", "composition"))
    for place in (1, 2):
        say(folder, "Ann", place, DOG="yes", BALL="yes", RED="yes", LEFT="no")
    count = write_labels(folder, ratings_of(folder), tmp_path / "labels.csv")
    assert count.labels == 4
    assert len(read_labels(tmp_path / "labels.csv")) == 4
    assert all(row[1:] in {("1", "0", "0"), ("0", "1", "0")} for row in
               labels_in(tmp_path / "labels.csv").values())  # fmt: skip


def test_what_makes_no_labels_says_why(one: StudyFolder, tmp_path: Path) -> None:
    with pytest.raises(RatingError, match="rate serve"):
        write_labels(one, ratings_of(one), tmp_path / "labels.csv")
    other = study_in(tmp_path / "c", tmp_path / "e", kind="choice")
    with pytest.raises(RatingError, match="--kind facts"):
        write_labels(other, (), tmp_path / "labels.csv")
    assert not (tmp_path / "labels.csv").exists()


def test_ratings_calibrate_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole path: pages' ratings, labels, recorded answers of a judge, its error rates."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    source = evaluation(tmp_path / "e", 8)
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets", "feedback"))
    # People: every fact holds, but the ball is never left of the dog. The judge says yes to all.
    for rater in ("Ann", "Bea"):
        for place in range(1, 17):
            say(folder, rater, place, DOG="yes", BALL="yes", RED="yes", LEFT="no")
    done = CliRunner().invoke(app, ["rate", "labels", "s", "--out", "labels.csv", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["labels"] == 64
    with open("answers.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("image", "question", "answer"))
        for known in read_labels("labels.csv"):
            writer.writerow((known.picture.name, known.fact.question, known.fact.expected))
    arguments = ["judges", "calibrate", "-j", "replay:answers.csv", "--labels", "labels.csv"]
    done = CliRunner().invoke(app, [*arguments, "--out", "calibration.json", "-q"])
    assert done.exit_code == 0, done.output
    made = load_calibration("calibration.json")
    (judge,) = made.judges
    assert (judge.n_unscored, judge.judge_id) == (0, "replay:answers.csv")
    # It confirms all that holds, and all 16 relations that people deny.
    relations = judge.kinds["relation"]
    assert (relations.n_true, relations.n_false) == (0, 16)
    assert relations.specificity < 0.1
    assert judge.kinds["all"].sensitivity > 0.9


def test_every_fact_of_a_task_is_asked(one: StudyFolder) -> None:
    task = one.study.tasks[0]
    values: dict[str, str] = {}
    while (at := next_asked("facts", task, values)) is not None:
        values[task.facts[at].id] = "yes"
    assert set(values) == {DOG, BALL, RED, LEFT}
    assert is_done("facts", task, values)

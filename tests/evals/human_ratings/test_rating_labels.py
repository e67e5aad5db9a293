"""Ratings of facts become labels, and labels a calibration of judges."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.panel.rates import load_calibration
from scenewright.cli.main import app
from scenewright.core.questions import PROTOCOLS, Protocol, facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.human_ratings.labels import write_labels
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import (
    STUDY,
    RatingError,
    StudyFolder,
    void_facts,
)
from scenewright.evals.human_ratings.table import ratings_of
from scenewright.evals.judge_reports.labelled_facts import read_labels
from tests.evals.human_ratings.rated import evaluation, study_in

TWINS = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="dog.2", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
    ),
    relations=tuple(
        Relation(source=f"dog.{number}", predicate="left of", target="ball.1") for number in (1, 2)
    ),
)
DOG, BALL, RED, LEFT = "o:dog.1", "o:ball.1", "a:dog.1:color", "r:dog.1|left of|ball.1"


def say(folder: StudyFolder, rater: str, place: int, **values: str) -> None:
    """What ``rater`` says at a place, by the names of the facts above."""
    store = RatingStore(folder)
    who = store.rater(rater)
    showing = store.showing(who, place)
    assert showing is not None
    for name, value in values.items():
        fact = globals()[name]
        store.keep(who, place, fact, value)
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_rater_denied_is_asked_no_further(tmp_path: Path, protocol: Protocol) -> None:
    """Under every protocol; and an answer to it that came all the same is no vote."""
    source = evaluation(tmp_path / "e", 1, protocol=protocol)
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets",))
    (task,) = folder.study.tasks
    assert void_facts(task.facts, {DOG: "no"}) == {RED, LEFT}
    assert void_facts(task.facts, {BALL: "no"}) == {LEFT}
    assert folder.study.form(task).is_done({DOG: "no", BALL: "yes"})
    say(folder, "Ann", 1, RED="yes", LEFT="yes", DOG="no", BALL="yes")
    write_labels(folder, ratings_of(folder), tmp_path / "labels.csv")
    questions = {known.fact.question for known in read_labels(tmp_path / "labels.csv")}
    assert questions == {fact.question for fact in task.facts if fact.id in (DOG, BALL)}


def test_a_study_of_before_knows_what_its_facts_depend_on(tmp_path: Path) -> None:
    """Its sheet has no parents, and asks some questions twice."""
    source = evaluation(tmp_path / "e", 1, scene=TWINS, protocol="scene-bench")
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets",))
    facts = facts_of(TWINS, "scene-bench")
    assert not any(fact.parents for fact in facts)
    old = json.loads((folder.folder / STUDY).read_text("utf-8"))
    old["tasks"][0]["facts"] = [fact.model_dump(mode="json") for fact in facts]
    (folder.folder / STUDY).write_text(json.dumps(old), "utf-8")
    folder = StudyFolder(folder.folder)
    store = RatingStore(folder)
    who = store.rater("Ann")
    for fact in facts:
        said = "no" if fact.kind == "object" and fact.classes == ("ball",) else "yes"
        store.keep(who, 1, fact.id, said)
    store.close()
    count = write_labels(folder, ratings_of(folder), tmp_path / "labels.csv")
    found = {(k.fact.question, k.holds) for k in read_labels(tmp_path / "labels.csv")}
    assert found == {
        ("Is there a dog in the image?", True), ("Is the dog red?", True),
        ("Is there a ball in the image?", False),
    }  # fmt: skip
    assert count.labels == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_alike_objects_give_each_question_once(tmp_path: Path, protocol: Protocol) -> None:
    source = evaluation(tmp_path / "e", 1, scene=TWINS, protocol=protocol)
    (task,) = study_in(tmp_path / "s", source, kind="facts", arms=("triplets",)).study.tasks
    statements = [fact.statement for fact in task.facts]
    assert len(set(statements)) == len(statements)
    assert {"There is a dog.", "There is a ball."} <= set(statements)
    counted = {"There are at least two dogs.", "There are at least two red dogs."}
    assert counted <= set(statements) or protocol == "scene-bench"
    ids = {fact.id for fact in task.facts}
    relations = [fact for fact in task.facts if fact.kind == "relation"]
    assert len(relations) == (1 if protocol == "scene-bench" else 2)
    more = "At least two of the red dogs are left of the ball."
    assert (more in statements) == (protocol != "scene-bench")
    assert all(fact.parents and ids.issuperset(fact.parents) for fact in relations)
    dogs = [fact for fact in task.facts if fact.kind == "object" and fact.classes == ("dog",)]
    denied = {fact.id: "no" for fact in dogs}
    about = {fact.id for fact in task.facts if fact.kind != "object"}
    assert void_facts(task.facts, denied) >= about


def test_alike_objects_alone_are_counted(tmp_path: Path) -> None:
    """Nothing depends on them, which says nothing about the protocol."""
    two = SceneGraph(objects=tuple(SceneObject(id=f"dog.{n}", name="dog") for n in (1, 2)))
    source = evaluation(tmp_path / "e", 1, scene=two)
    (task,) = study_in(tmp_path / "s", source, kind="facts", arms=("triplets",)).study.tasks
    assert [f.statement for f in task.facts] == ["There is a dog.", "There are at least two dogs."]


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
    form = one.study.form(task)
    values: dict[str, str] = {}
    while (at := form.next_part(values)) is not None:
        values[task.facts[at].id] = "yes"
    assert set(values) == {DOG, BALL, RED, LEFT}
    assert form.is_done(values)

"""Numbers, exclusions, texts and wishes in evaluations, labels and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.core.facts import FACT_KINDS, Answer, Fact, reported_kinds
from scenewright.core.formats import load_scene
from scenewright.core.intent import Count, Exclusion, Global, Intent
from scenewright.core.questions import QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.human_ratings.labels import write_labels
from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.sources import read_source
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import StudyFolder
from scenewright.evals.human_ratings.table import ratings_of
from scenewright.evals.judge_reports.grading import Grading
from scenewright.evals.judge_reports.labelled_facts import LabelError, read_labels
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.doubles import CallBook, ScriptedJudge
from tests.evals.eval_sets import ListedSet, config, scripted

BESIDE = {"count", "text", "wish"}


def said() -> SceneGraph:
    """Two dogs on a rug and no person, as an oil painting with a text in it."""
    scene = load_scene("dog.1 on rug; dog.2 on rug")
    intent = Intent(
        sentence='an oil painting of two dogs on a rug, no people, with the words "HOME"',
        globals=(Global(kind="medium", text="oil painting"),),
        exclusions=(Exclusion(name="person", text="no people"),),
        counts=(Count(objects=("dog.1", "dog.2"), kind="exact", number=2),),
        texts=("HOME",),
    )
    return scene.said_as(intent)


def seeing(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
    """See all of the graph and the text, but also people and a third dog, and judge no wish."""
    found = []
    for fact in facts:
        told = {"fact_id": fact.id, "judge_id": judge.id}
        if fact.kind == "wish":
            found.append(Answer(**told, state="unscored", reason="no words for it"))
            continue
        holds = fact.kind != "count"
        choice = fact.expected if holds else next(o for o in fact.options if o != fact.expected)
        found.append(Answer(**told, state="yes" if holds else "no", choice=choice))
    return found


async def evaluated(folder: Path, **fields: object) -> Results:
    judge = ScriptedJudge("c", CallBook(), behave=seeing)
    given = scripted()
    judges = dict.fromkeys(given.judges, judge)
    return await run_eval(
        config(**fields),
        folder,
        given=replace(given, judges=judges),
        dataset=ListedSet([Item(id="said", scene=said())]),
    )


async def test_they_are_parts_of_the_score_and_rows_of_the_tables(tmp_path: Path) -> None:
    found = await evaluated(tmp_path / "e", protocol="grounded")
    parts = {row["part"]: row["value"] for row in found.rows("scores")}
    # One text of three holds: the number of dogs and the absence of people do not.
    assert parts["further"] == pytest.approx(1 / 3)
    assert parts["wishes"] is None
    assert parts[""] == 1.0
    facts = len(QuestionForm("grounded").facts(said()))
    assert parts["fact_recall"] == pytest.approx((facts - 1 - 2) / (facts - 1))
    kinds = {row["kind"] for row in found.rows("verdicts")}
    assert kinds == {"object", "relation", *BESIDE}
    # A wish that no judge answers is told, and is no reason to try again.
    assert not any(row["unscored"] for row in found.rows("scores"))
    page = build_report(found, resamples=50)
    assert "wish" in page.page.read_text("utf-8")
    data = "".join(one.read_text("utf-8") for one in (page.page.parent / "data").glob("*.js"))
    assert "a number, text or wish does not hold" in data
    assert "count: no people" in data or "no people" in data


async def test_the_strict_score_is_of_objects_and_relations_alone(tmp_path: Path) -> None:
    form = QuestionForm("scene-bench")
    assert form.facts(said()) == form.facts(said().graph)
    assert {fact.kind for fact in form.facts(said())} == {"object", "relation"}
    found = await evaluated(tmp_path / "e", protocol="scene-bench")
    assert {row["kind"] for row in found.rows("verdicts")} == {"object", "relation"}
    parts = {row["part"]: row["value"] for row in found.rows("scores")}
    assert parts[""] == 1.0
    assert not {"further", "wishes"} & parts.keys()


def labels(folder: Path, *rows: str) -> Path:
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    file = folder / "labels.csv"
    file.write_text("\n".join(["image,question,expected,holds,kind,subject", *rows, ""]), "utf-8")
    return file


async def test_people_rate_them_and_labels_come_of_it(tmp_path: Path) -> None:
    await evaluated(tmp_path / "e", protocol="grounded")
    source = read_source(tmp_path / "e")
    make_study(source, RatingStudySpec(kind="facts"), tmp_path / "s")
    folder = StudyFolder(tmp_path / "s")
    (task,) = folder.study.tasks
    assert [fact.statement for fact in task.facts if fact.kind in BESIDE] == [
        "There are exactly two dogs.",
        "There is no person.",
        'The text "HOME" is written in the picture.',
        '"oil painting" describes the picture.',
    ]
    store = RatingStore(folder)
    who = store.rater("Ann")
    for fact in task.facts:
        value = "no" if fact.statement == "There is no person." else "yes"
        store.keep(who, 1, fact.id, value)
    store.close()
    write_labels(folder, ratings_of(folder), tmp_path / "labels.csv")
    found = {one.fact.question: one for one in read_labels(tmp_path / "labels.csv")}
    people = found["Is there a person in the image?"]
    assert (people.fact.kind, people.fact.expected, people.holds) == ("count", "no", False)
    assert {one.fact.kind for one in found.values()} == {fact.kind for fact in task.facts}


ROWS = (
    "a.png,Is there a dog in the image?,yes,1,object,dog",
    "a.png,Is there a person in the image?,no,1,count,",
    "a.png,Is HOME written in the image?,yes,0,text,",
    "a.png,Is the image an oil painting?,yes,1,wish,",
)


def test_labels_may_be_of_these_kinds(tmp_path: Path) -> None:
    found = read_labels(labels(tmp_path, *ROWS))
    assert [one.fact.kind for one in found] == ["object", "count", "text", "wish"]
    assert (found[1].fact.expected, found[1].holds) == ("no", True)
    assert reported_kinds(one.fact.kind for one in found) == (*FACT_KINDS, "count", "text", "wish")
    graded = Grading(found)
    rows = graded.qualities("a", graded.truth, graded.truth)
    assert [row["judge"] for row in rows] == ["a", "a object", "a count", "a text", "a wish"]
    with pytest.raises(LabelError, match="a fact of the kind text needs its question"):
        read_labels(labels(tmp_path, "a.png,,yes,1,text,HOME"))
    with pytest.raises(LabelError, match=r"'realism': use one of object, .*, wish"):
        read_labels(labels(tmp_path, ROWS[0].replace(",object,", ",realism,")))


def test_a_calibration_is_of_the_graph_alone(tmp_path: Path) -> None:
    known = [
        LabelledAnswer.of(
            f"picture {at}",
            one.fact,
            Answer(fact_id=one.fact.id, judge_id="a", state="yes", choice="yes", probability=0.9),
            one.holds,
        )
        for at in range(30)
        for one in read_labels(labels(tmp_path, *ROWS))
    ]
    whole = calibrate(known, judges={"a": "1"}, about="all")
    graph = calibrate(
        [one for one in known if one.kind in FACT_KINDS], judges={"a": "1"}, about="all"
    )
    assert whole.judges == graph.judges

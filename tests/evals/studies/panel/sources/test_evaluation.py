"""Evaluations as tables of answers, with what people said of their pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.human_ratings.table import COLUMNS
from scenewright.evals.store.results import SCHEMAS, Results, Table
from scenewright.evals.studies.panel.sources.ratings import with_ratings
from scenewright.evals.studies.panel.sources.recorded import read_evaluation
from scenewright.evals.studies.panel.table import PanelStudyError

FACTS = facts_of(SceneGraph.model_validate({"objects": [
    {"id": "dog.1", "name": "dog", "attributes": {"color": "red"}}
]}))  # fmt: skip
DOG, RED = (fact.id for fact in FACTS)


def put(folder: Path, table: Table, rows: list[dict[str, Any]]) -> None:
    names = SCHEMAS[table].names
    whole = [{name: row.get(name) for name in names} for row in rows]
    pq.write_table(pa.Table.from_pylist(whole, schema=SCHEMAS[table]), folder / f"{table}.parquet")


def arm(condition: str, round: int = 0, item: str = "i", **more: Any) -> dict[str, Any]:
    name = f"miniature/{condition}/0"
    return {"item": item, "arm": name, "backend": "miniature", "condition": condition, "seed": 0,
            "round": round, "image": f"{condition}{round}{item}", **more}  # fmt: skip


def answer(base: dict[str, Any], judge: str, fact: str, state: str, **more: Any) -> dict[str, Any]:
    costs = {"tokens_in": 10, "tokens_out": 2, "seconds": 0.25, "usd": 0.01}
    return {**base, "panel": "p", "judge": judge, "fact": fact, "state": state, **costs, **more}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """One item: a loop of two rounds, the second kept, and an arm without a loop; two panels that
    share judge b."""
    folder = tmp_path / "evals"
    folder.mkdir()
    loop = [arm("feedback", 0, kept=False), arm("feedback", 1, kept=True)]
    plain = arm("prompt", 0, kept=True)
    failed = arm("prompt", 0, item="j", kept=None, state="failed") | {"image": None}
    put(folder, "items", [
        {"item": "i", "facts": json.dumps([fact.model_dump(mode="json") for fact in FACTS])}
    ])  # fmt: skip
    put(folder, "rounds", [{"state": "done", **row} for row in (*loop, plain)] + [failed])
    put(folder, "answers", [
        answer(loop[0], "a", DOG, "yes", probability=0.8),
        answer(loop[0], "a", RED, "unscored"),
        answer(loop[0], "b", DOG, "unscored"),
        answer(loop[0], "b", DOG, "yes", panel="q"),
        answer(loop[1], "a", DOG, "no", probability=0.1),
        answer(plain, "a", DOG, "yes", probability=0.6),
        answer(plain, "b", RED, "no"),
    ])  # fmt: skip
    manifest = {
        "name": "mine",
        "dataset": {"name": "table"},
        "models": {
            "arms": {
                "miniature/feedback/0": {"judges": [{"id": "b", "fingerprint": "fb"}]},
                "miniature/prompt/0": {"judges": []},
            },
            "panels": {
                "p": [{"id": "a", "fingerprint": "fa"}, {"id": "b", "fingerprint": "fb"}],
                "q": [{"id": "b", "fingerprint": "fb"}],
            },
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return Results(folder)


def test_every_judged_picture_is_an_image(results: Results) -> None:
    found = read_evaluation(results)
    table = found.table
    assert [image.id for image in table.images] == [
        "miniature/feedback/0/0/i",
        "miniature/feedback/0/1/i",
        "miniature/prompt/0/0/i",
    ]
    # An arm that does not loop has no rounds.
    assert [image.round for image in table.images] == [0, 1, None]
    assert [i.model for i in table.images] == ["miniature/feedback"] * 2 + ["miniature/prompt"]
    assert {image.item for image in table.images} == {"i"}
    assert found.loop_judges == ("b",)
    assert [(judge.id, judge.fingerprint) for judge in table.judges] == [("a", "fa"), ("b", "fb")]
    assert [fact.parents for fact in table.facts[:2]] == [(), (0,)]
    assert found.hashes == ("feedback0i", "feedback1i", "prompt0i")
    assert found.notes == ("1 drawings without answers (failed, or not judged) are left out.",)


def test_unscored_is_asked_and_void_is_not(results: Results) -> None:
    table = read_evaluation(results).table
    nan = np.nan
    np.testing.assert_array_equal(
        table.said,
        [[0.8, 1.0], [nan, nan], [0.1, nan], [nan, nan], [0.6, nan], [nan, 0.0]],
    )
    np.testing.assert_array_equal(table.asked, [[1, 1], [1, 0], [1, 0], [0, 0], [1, 0], [0, 1]])
    # The usable answer of the other panel stands for the lost one.
    assert table.votes[0, 1] == 1.0
    assert table.tokens[0, 0] == 12.0
    assert table.tokens[3].sum() == 0.0


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("arm", ["miniature/feedback/0", "miniature/prompt/0"]),
        ("condition", ["feedback", "prompt"]),
        ("backend", ["miniature"]),
    ],
)
def test_what_counts_as_the_model_can_be_chosen(
    results: Results, model: Any, names: list[str]
) -> None:
    table = read_evaluation(results, model).table
    assert list(dict.fromkeys(image.model for image in table.images)) == names


def test_several_versions_of_a_judge_are_told(results: Results) -> None:
    file = results.folder / "manifest.json"
    versions = [
        {"version": name, "answers": 2, "since": 1.0, "until": 2.0} for name in ("v1", "v2")
    ]
    told = {"on_model_change": "accept", "judges": {"a": versions}, "panels": {}}
    found = json.loads(file.read_text(encoding="utf-8")) | {"served": told}
    file.write_text(json.dumps(found), encoding="utf-8")
    notes = read_evaluation(Results(results.folder)).notes
    assert any(note.startswith("Model changed: a was served as v1 (2 answers") for note in notes)


def test_an_evaluation_without_judges_is_refused(results: Results) -> None:
    put(results.folder, "answers", [])
    with pytest.raises(PanelStudyError, match="holds no answers of judges: run the evaluation"):
        read_evaluation(results)


def rated(results: Results, text: str) -> tuple[Any, tuple[str, ...]]:
    file = results.folder / "ratings.csv"
    file.write_text(text, encoding="utf-8")
    found = read_evaluation(results)
    return with_ratings(found.table, found.shown, file)


def test_ratings_are_of_the_kept_picture_unless_they_name_a_round(results: Results) -> None:
    table, notes = rated(
        results,
        "item,arm,rater,rating,round\n"
        "i,miniature/feedback/0,x,4,\n"
        "i,miniature/feedback/0,y,2,\n"
        "i,miniature/feedback/0,x,1,\n"
        "i,miniature/feedback/0,x,5,0\n"
        "k,miniature/feedback/0,x,5,\n",
    )
    assert [image.ratings for image in table.images] == [(5.0,), (4.0, 2.0), ()]
    assert np.isnan(table.ratings[2])
    assert "1 of 5 rows of ratings.csv are of no picture" in notes[0]
    assert "line 6" in notes[0]
    assert "1 rows of ratings.csv repeat a rater's earlier one" in notes[1]


def test_ratings_by_model_and_without_raters(results: Results) -> None:
    table, notes = rated(results, "item,model,rating\ni,miniature/prompt,3\ni,miniature/prompt,4\n")
    assert [image.ratings for image in table.images] == [(), (), (3.0, 4.0)]
    assert notes == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,rating\ni,4\n", "line 2: i has 2 pictures: say which one by the columns arm"),
        ("item,arm,rating\ni,miniature/prompt/0,good\n", "line 2: rating is 'good': use a number"),
        ("item,arm,rating\n,miniature/prompt/0,1\n", "line 2: it names no item"),
        ("item,arm,rating\nk,x,1\n", "items are named like 'i', arms like 'miniature/feedback/0'"),
        ("arm,rating\nx,1\n", "lacks the columns item"),
        ("item,arm\ni,x\n", "lacks the columns rating"),
    ],
)
def test_ratings_that_do_not_fit_are_told(results: Results, text: str, said: str) -> None:
    with pytest.raises(PanelStudyError) as error:
        rated(results, text)
    assert said in str(error.value)


def exported(kind: str, *rows: tuple[str, str, str, str]) -> str:
    """What ``scenewright rate export`` writes, of (rater, fact, value, repeat)."""
    lines = [",".join(COLUMNS)]
    for rater, fact, value, repeat in rows:
        cells = {"rater": rater, "kind": kind, "item": "i", "arm": "miniature/prompt/0",
                 "shown": "miniature/prompt/0", "fact": fact, "value": value,
                 "repeat": repeat}  # fmt: skip
        lines.append(",".join(cells.get(name, "") for name in COLUMNS))
    return "\n".join(lines) + "\n"


def test_exported_scores_are_ratings(results: Results) -> None:
    table, _ = rated(
        results, exported("score", ("x", "", "4", "0"), ("y", "", "5", "0"), ("x", "", "1", "1"))
    )
    assert table.images[2].ratings == (4.0, 5.0)


def test_what_most_people_say_of_a_fact_is_its_truth(results: Results) -> None:
    table, notes = rated(
        results,
        exported(
            "facts",
            *(("x", DOG, "yes", "0"), ("y", DOG, "yes", "0"), ("z", DOG, "no", "0")),
            *(("x", RED, "yes", "0"), ("y", RED, "no", "0"), ("z", RED, "cannot tell", "0")),
        ),
    )
    np.testing.assert_array_equal(table.truth, [np.nan] * 4 + [1.0, np.nan])
    assert notes == ("1 facts have the truth that most raters said; ties have none.",)


def test_exported_choices_give_no_rating(results: Results) -> None:
    with pytest.raises(PanelStudyError, match="holds ratings of the kind choice"):
        rated(results, exported("choice", ("x", "", "1", "0")))

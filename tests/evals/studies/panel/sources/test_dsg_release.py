"""The DSG release: ratings, questions, answers, and the key of TIFA's questions."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from benchmarks._published import PUBLISHED, published_scores
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.studies.panel.sources.dsg_release import (
    JUDGES,
    QUESTIONS,
    Questions,
    load_dsg_release,
    read_answer,
)
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)

NAN = float("nan")
DATA = Path(__file__).resolve().parents[6] / "shared" / "data" / "dsg"
beside = pytest.mark.skipif(
    not DATA.is_dir(), reason="the DSG release is not beside the repository"
)


def table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def rating(worker: int, answer: object, item: str = "tifa160_1") -> dict[str, object]:
    return {
        "dsg_prompt_split": "tifa160",
        "t2i_model": "sd",
        "item_id": item,
        "source_id": "coco_1",
        "worker_id": worker,
        "question": "How consistent is the image with the text description?",
        "answer": answer,
    }


def answer(id_: object, depends: str, said: str, split: str = "tifa160") -> dict[str, object]:
    return {
        "dsg_prompt_split": split,
        "qg_model": "dsg",
        "t2i_model": "sd",
        "item_id": f"{split}_1",
        "question": f"Is it {id_}?",
        "question_id": id_,
        "dependency_id": depends,
        "answer": said,
    }


def category(id_: int, name: str) -> dict[str, object]:
    return {
        "item_id": "tifa160_1",
        "text": "Two dogs",
        "proposition_id": id_,
        "category_broad": name,
    }


ROWS = [
    answer(2, "1,3", "yes"),
    answer(1, "0", "no"),
    answer(3, "3", "1000"),
    answer(4, "2", "yes"),
]


def release(
    folder: Path,
    ratings: Sequence[Mapping[str, object]] = (rating(1, 3), rating(2, 4)),
    answers: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
) -> Path:
    table(folder / "tifa160-likert-anns.csv", ratings)
    names = ("attribute", "entity", "global", "relation")
    table(
        folder / "dsg-1k-anns.csv",
        [category(at, name) for at, name in zip((2, 1, 3, 4), names, strict=True)],
    )
    for judge in JUDGES:
        rows = (answers or {}).get(judge, ROWS)
        table(folder / "vqa_answers_release" / f"{judge}_dsg.csv", rows)
    return folder


def test_reads_ratings_questions_and_answers(tmp_path: Path) -> None:
    other = [answer(1, "0", "no bananas", split="vrd"), *ROWS[1:], answer(2, "1,3", "no bananas")]
    rated = (rating(1, 3), rating(2, 4), rating(3, 5, item="tifa160_2"))
    found = load_dsg_release(release(tmp_path, rated, {"pali17b": other}))
    assert [(one.item, one.model, one.ratings) for one in found.images] == [
        ("tifa160_1", "sd", (3, 4)),
        ("tifa160_2", "sd", (5,)),
    ]
    assert found.judge_ids == JUDGES
    assert {fact.image for fact in found.facts} == {0}
    at = {fact.id: row for row, fact in enumerate(found.facts)}
    assert found.facts[at["4"]].kind == found.facts[at["4"]].group == "relation"
    assert (found.facts[at["3"]].kind, found.facts[at["3"]].group) == ("object", "global")
    assert set(found.facts[at["2"]].parents) == {at["1"], at["3"]}
    assert found.facts[at["3"]].parents == ()
    np.testing.assert_array_equal(found.said[at["1"]], [0, 0, 0])
    np.testing.assert_array_equal(found.said[at["2"]], [1, 1, 0])
    assert np.isnan(found.said[at["3"]]).all()
    assert found.asked.all()
    assert np.isnan(found.truth).all()


def test_a_dependency_that_is_no_number_leaves_all_questions_independent(tmp_path: Path) -> None:
    rows = [*ROWS[:3], answer(4, "2, outside", "yes")]
    found = load_dsg_release(release(tmp_path, answers=dict.fromkeys(JUDGES, rows)))
    assert [fact.parents for fact in found.facts] == [()] * 4


def choice(question: str, said: str, model: str = "sd") -> dict[str, object]:
    return {**answer(1, "0", said), "question": question, "qg_model": "tifa", "t2i_model": model}


def tifa(folder: Path, mplug: Sequence[Mapping[str, object]]) -> Path:
    """A release whose prompt is "Two dogs" and whose questions are TIFA's."""
    release(folder)
    pali = [
        choice("Question: are there dogs? Choices: yes, no. Answer:", "no"),
        choice("Question: how many dogs? Choices: 1, 2, 3. Answer:", ""),
        choice("Question: is it Muse? Choices: yes, no. Answer:", "yes", model="muse"),
    ]
    for judge in JUDGES:
        rows = pali if judge == "pali17b" else mplug
        table(folder / "vqa_answers_release" / f"{judge}_tifa.csv", rows)
    return folder


MPLUG = [
    choice("are there dogs?", "yes"),
    choice("how many dogs?", "2"),
    choice("is it Muse?", "yes", model="muse"),
]


def test_answers_to_tifa_are_held_against_the_choice_of_the_prompt(tmp_path: Path) -> None:
    found = load_dsg_release(tifa(tmp_path, MPLUG), "tifa")
    assert [fact.question for fact in found.facts] == ["are there dogs?", "how many dogs?"]
    assert [fact.group for fact in found.facts] == ["yes or no", "choice"]
    np.testing.assert_array_equal(found.said, [[1, 1, 0], [1, 1, NAN]])
    # Images of a model that nobody rated are no part of the table.
    assert [image.model for image in found.images] == ["sd"]


def test_questions_that_do_not_fit_the_choices_are_refused(tmp_path: Path) -> None:
    folder = tifa(tmp_path, [MPLUG[1], MPLUG[0], MPLUG[2]])
    with pytest.raises(PanelStudyError, match=r"line 2: 'how many dogs\?' is not question 1 of"):
        load_dsg_release(folder, "tifa")


def test_unknown_questions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PanelStudyError, match="use one of dsg, tifa, vq2a"):
        load_dsg_release(tmp_path, "other")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [("yes", 1), (" Yes 100", 1), ("no bananas", 0), ("No\n<?", 0), ("", NAN), ("yesterday", NAN)],
)
def test_an_answer_is_read_by_its_first_word(text: str, value: float) -> None:
    np.testing.assert_equal(read_answer(text), value)


@pytest.mark.parametrize(
    ("ratings", "rows", "message"),
    [
        ([rating(1, 6)], ROWS, "line 2: the rating is '6', not 1 to 5"),
        ([rating(1, 3), rating(1, 4)], ROWS, "line 3: rater 1 rated the image twice"),
        ([{"item_id": "a"}], ROWS, "no column dsg_prompt_split, t2i_model, worker_id, answer"),
        ([rating(1, 3, item="tifa160_2")], ROWS, "has no rating"),
        ([rating(1, 3)], [*ROWS, ROWS[0]], "line 6: question 2 is answered twice"),
        ([rating(1, 3)], [answer("x", "0", "yes")], "question_id is 'x', not a number"),
        ([rating(1, 3)], [answer(1, "7", "yes")], "question 1 depends on 7, which is not there"),
        ([rating(1, 3)], [answer(1, "2", "no"), answer(2, "1", "no")], "in a circle"),
        ([rating(1, 3)], [answer(9, "0", "yes")], "question 9 of tifa160_1 has no category"),
        ([rating(1, 3)], [answer(1, "0", "yes", split="vrd")], "has no answers of the split"),
    ],
)
def test_malformed_files_are_refused(
    tmp_path: Path,
    ratings: list[dict[str, object]],
    rows: list[dict[str, object]],
    message: str,
) -> None:
    folder = release(tmp_path, ratings, dict.fromkeys(JUDGES, rows))
    with pytest.raises(PanelStudyError, match=message):
        load_dsg_release(folder)


def test_missing_and_torn_files_are_refused(tmp_path: Path) -> None:
    folder = release(tmp_path)
    place = folder / "vqa_answers_release" / "mplug_dsg.csv"
    place.write_text(place.read_text().rpartition(",")[0])
    with pytest.raises(PanelStudyError, match=r"mplug_dsg.csv, line 5 is cut off"):
        load_dsg_release(folder)
    place.unlink()
    with pytest.raises(PanelStudyError, match=r"mplug_dsg\.csv cannot be read: No such file"):
        load_dsg_release(folder)


def test_judges_that_were_asked_other_questions_are_refused(tmp_path: Path) -> None:
    folder = release(tmp_path, answers={"pali17b": ROWS[1:3]})
    with pytest.raises(PanelStudyError, match="pali17b and mplug were not asked the same"):
        load_dsg_release(folder)


def test_the_published_score_looks_at_the_parents_own_answers() -> None:
    # A child of a child stays: the published evaluation looks at the parent's own answer.
    images = (ImageRow("a", "p"), ImageRow("b", "p"))
    facts = tuple(
        FactRow(str(at), 0, parents=parents) for at, parents in enumerate([(), (0,), (1,)])
    )
    said = [[0, 1, NAN], [1, 0, 1], [1, 1, 1]]
    chain = AnswerTable("t", tuple(map(JudgeColumn, JUDGES)), images, facts, np.array(said))
    for judge in range(3):
        np.testing.assert_allclose(published_scores(chain, judge), [1 / 3, 0])


@beside
def test_the_key_of_tifas_questions_is_the_published_one() -> None:
    """p-values of Kendall's tau as the release's own script prints them, to nine digits."""
    printed = {
        "mplug": 3.654716643841926e-24,
        "instructblip": 8.780630004246874e-41,
        "pali17b": 4.304350427416642e-37,
    }
    table = load_dsg_release(DATA, "tifa")
    for at, judge in enumerate(JUDGES):
        found = kendalltau(published_scores(table, at), table.ratings)
        assert found.pvalue == pytest.approx(printed[judge], rel=1e-9)


@beside
@pytest.mark.parametrize("questions", QUESTIONS)
def test_the_published_correlations_come_out_to_three_decimals(questions: Questions) -> None:
    table = load_dsg_release(DATA, questions)
    assert (len(table.images), table.n_items) == (800, 160)
    assert len(table.facts) == {"dsg": 4605, "tifa": 5640, "vq2a": 2270}[questions]
    for at, judge in enumerate(JUDGES):
        scores = published_scores(table, at)
        found = {
            "spearman": round(spearman(scores, table.ratings), 3),
            "kendall": round(kendall(scores, table.ratings), 3),
        }
        assert found == {name: PUBLISHED[questions][name][judge] for name in found}

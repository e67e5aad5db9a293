"""People's labels and how well scores agree with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import kendalltau, spearmanr

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.studies.real.ranking import agreement, labels_of, read_labels
from scenewright.evals.studies.real.schema import SchemaError

PEOPLE = {"a": 0.1, "b": 0.4, "c": 0.4, "d": 0.8, "e": 1.0}
SCORES = {"a": 0.3, "b": 0.2, "c": 0.5, "d": 0.9, "e": 0.7}


def test_labels_are_the_share_of_questions_with_a_yes_of_most() -> None:
    said = {"q1": [True, True, False], "q2": [False, False, True], "q3": [True, False]}
    answers = [("a", q, yes) for q, votes in said.items() for yes in votes]
    # Yes, no, and an even split as a half.
    assert labels_of(answers) == {"a": pytest.approx(1.5 / 3)}


def test_correlations_are_those_of_scipy() -> None:
    (found,) = agreement({"s_att": SCORES}, PEOPLE)
    pair = [SCORES[k] for k in PEOPLE], list(PEOPLE.values())
    assert found.spearman.value == pytest.approx(spearmanr(*pair).statistic)
    assert found.kendall.value == pytest.approx(kendalltau(*pair).statistic)
    low, high = found.spearman.low, found.spearman.high
    assert low is not None
    assert high is not None
    assert low <= spearmanr(*pair).statistic <= high


def test_pictures_without_a_score_are_counted_and_left_out() -> None:
    (found,) = agreement({"s": {**SCORES, "a": None}}, PEOPLE)
    (rest,) = agreement({"s": SCORES}, {k: v for k, v in PEOPLE.items() if k != "a"})
    assert found.spearman == rest.spearman
    assert found.unscored == 1


def test_constant_scores_have_no_correlation() -> None:
    (found,) = agreement({"s": dict.fromkeys(PEOPLE, 1.0)}, PEOPLE)
    assert found.spearman.value is None


def test_files_of_labels(tmp_path: Path) -> None:
    file = tmp_path / "l.csv"
    file.write_text("image,label\na,0.5\nb,2\n")
    assert read_labels(file) == {"a": 0.5, "b": 2.0}
    file = tmp_path / "l.jsonl"
    line = '{"image": "a", "question": "%s", "answer": "%s"}\n'
    file.write_text(line % ("q", "Yes") + line % ("r", "no"))
    assert read_labels(file) == {"a": 0.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image,label\n,1\n", "line 2: 'image'"),
        ("image,label\na,much\n", "line 2: label must be a number, found 'much'"),
        ("image,label\na,1\na,2\n", "line 3: a has two labels"),
        ("image,question,answer\na,q,perhaps\n", "line 2: give label"),
        ("image,label,question,answer\na,1,,\nb,,q,yes\n", "labels and answers"),
        ("image,label\n", "no labels"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "l.csv"
    file.write_text(text)
    with pytest.raises((SchemaError, DatasetError), match=said):
        read_labels(file)

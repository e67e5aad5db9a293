"""Agreement with people: the scores, the correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks._harness import DATA, spread
from benchmarks._published import DSG as PUBLISHED
from benchmarks._published import published_scores
from benchmarks.human_agreement import (
    chosen_by_other_prompts,
    correlations,
    dawid_skene_posterior,
    default,
    judge_scores,
    majority,
    mean,
    measure,
    per_image,
    remarks,
    ridge,
    same_question,
    tried,
    weighted_mean,
    within_prompt,
)
from benchmarks.human_agreement import main as command
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.studies.panel.aggregators.base import FOLDS, folds_of
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES, load_dsg_release
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

NAN = float("nan")
RELEASE = DATA / "dsg"
beside = pytest.mark.skipif(
    not RELEASE.is_dir(), reason="the DSG release is not beside the repository"
)


@dataclass(frozen=True)
class Shown:
    """An image whose question n + 1 depends on the places ``parents[n]``."""

    answers: Sequence[Sequence[float]]
    parents: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rated: int = 3
    prompt: str = "p"
    model: str = "sd"


def table(*images: Shown) -> AnswerTable:
    facts: list[FactRow] = []
    for number, one in enumerate(images):
        first = len(facts)
        for at in range(len(one.answers)):
            parents = tuple(first + parent for parent in one.parents.get(at, ()))
            facts.append(FactRow(str(at + 1), number, question=f"Is it {at}?", parents=parents))
    rows = [row for one in images for row in one.answers]
    return AnswerTable(
        name="made up",
        judges=tuple(JudgeColumn(judge) for judge in JUDGES),
        images=tuple(
            ImageRow(str(at), one.prompt, one.model, ratings=(one.rated,))
            for at, one in enumerate(images)
        ),
        facts=tuple(facts),
        said=np.array(rows, float).reshape(len(rows), len(JUDGES)),
    )


def test_the_published_score_drops_children_of_what_was_denied() -> None:
    # A child of a child stays: the published evaluation looks at the parent's own answer.
    chain = table(Shown([[0, 1, NAN], [1, 0, 1], [1, 1, 1]], {1: (0,), 2: (1,)}))
    assert [published_scores(chain, judge)[0] for judge in range(3)] == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3]
    )
    assert published_scores(table(Shown([[0, 1, 1], [1, 1, 1]])), 0)[0] == 0.5
    assert published_scores(table(Shown([[1, 1, 1]]), Shown([])), 0)[1] == 0.0


def test_panels_score_by_their_rule() -> None:
    images = table(Shown([[1, 0, 0], [1, 1, 0]], {1: (0,)}), Shown([[NAN, 1, 0]]), Shown([]))
    assert mean(images) == pytest.approx([0.5, 0.5, 0.0])
    assert majority(images) == pytest.approx([0.5, 0.0, 0.0])
    # The default panel denies the first question of the first image: the second is void.
    assert default(images) == pytest.approx([1 / 6, 0.5, 0.0])
    assert default(images, votes=True) == pytest.approx([0.0, 0.0, 0.0])
    assert judge_scores(images)["mplug"] == pytest.approx([1.0, 0.0, 0.0])


def test_a_question_that_nobody_answered_is_left_out() -> None:
    images = table(Shown([[NAN, NAN, NAN], [1, 0, 1]]))
    assert mean(images) == pytest.approx([2 / 3])
    assert majority(images) == pytest.approx([1.0])
    assert per_image(images, np.array([NAN, 0.2])) == pytest.approx([0.2])


def test_dawid_skene_believes_the_better_judge() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random(600) < 0.6
    rates = (0.97, 0.65, 0.65)
    votes = np.array([np.where(rng.random(600) < rate, truth, ~truth) for rate in rates], float).T
    images = table(*(Shown(votes[at : at + 1].tolist(), prompt=str(at)) for at in range(600)))
    errors = [np.abs(score(images) - truth).mean() for score in (dawid_skene_posterior, mean)]
    assert errors[0] < 0.5 * errors[1]


def test_weights_leave_missing_answers_out() -> None:
    answers = np.array([[1.0, 0.0, NAN], [NAN, NAN, NAN]])
    found = weighted_mean(answers, np.array([3.0, 1.0, 9.0]))
    np.testing.assert_allclose(found, [0.75, NAN])


def test_the_same_question_about_other_images_pulls() -> None:
    one, other = Shown([[1, 1, 1]], model="a"), Shown([[0, 0, 0]], model="b")
    pair = table(one, other)
    assert same_question(pair, 1.0) == pytest.approx([0.75, 0.25])
    assert same_question(pair, 0.0) == pytest.approx([1.0, 0.0])
    assert same_question(table(one), 1.0) == pytest.approx([1.0])


def test_folds_keep_prompts_together() -> None:
    images = table(*(Shown([[1, 1, 1]], prompt=str(at // 5)) for at in range(200)))
    folds = folds_of(images)
    assert set(folds) == set(range(FOLDS))
    assert all(len(set(folds[at : at + 5])) == 1 for at in range(0, 200, 5))


def made_up(seed: int = 1) -> AnswerTable:
    """Images of 40 prompts whose rating follows their quality, as noisy judges see it."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(120):
        quality = rng.random()
        votes = (rng.random((6, 3)) < 0.3 + 0.7 * quality).astype(float)
        rated = int(np.clip(np.round(1 + 4 * quality), 1, 5))
        found.append(Shown(votes.tolist(), {3: (0,)}, rated, str(at // 3), str(at % 3)))
    return table(*found)


def test_what_is_fitted_never_sees_the_ratings_it_is_scored_on() -> None:
    images = made_up()
    folds = folds_of(images)
    others = tuple(
        replace(one, ratings=(6.0 - one.rating,)) if fold == 0 else one
        for one, fold in zip(images.images, folds, strict=True)
    )
    changed = replace(images, images=others)
    candidates = [mean(images), -mean(images)]
    before = (chosen_by_other_prompts(images, candidates), ridge(images))
    after = (chosen_by_other_prompts(changed, candidates), ridge(changed))
    for first, second in zip(before, after, strict=True):
        np.testing.assert_array_equal(first[folds == 0], second[folds == 0])
    np.testing.assert_array_equal(chosen_by_other_prompts(images, candidates), candidates[0])
    assert spearman(ridge(images), images.ratings) > 0.5


def test_rank_correlations_of_known_cases() -> None:
    def ranked(correlation: Any, scores: list[float], ratings: list[float]) -> float:
        return float(correlation(np.array(scores, float), np.array(ratings, float)))

    assert ranked(spearman, [1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert ranked(kendall, [1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # One swap of four: rho = 1 − 6·2/(4·15), tau = (5 − 1)/6.
    assert ranked(spearman, [1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert ranked(kendall, [1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(2 / 3)
    # Ties: ranks 1.5, 1.5, 3 against 1, 2, 3; tau-b = 2/sqrt(2·3).
    assert ranked(spearman, [0, 0, 1], [1, 2, 3]) == pytest.approx(np.sqrt(3) / 2)
    assert ranked(kendall, [0, 0, 1], [1, 2, 3]) == pytest.approx(2 / np.sqrt(6))
    # Scores that differ by rounding are ties.
    for correlation in (spearman, kendall):
        near = ranked(correlation, [0.1 + 0.2, 0.3, 1], [1, 2, 3])
        assert near == ranked(correlation, [0, 0, 1], [1, 2, 3])


def test_intervals_hold_the_value_and_gains_are_paired() -> None:
    images = made_up()
    scores = {"mean": mean(images), "same": 2 * mean(images)}
    found = correlations(images, scores, ItemResamples(images, 200), spearman)
    shown = spread(found["mean"])
    assert shown["low"] < shown["mean"] < shown["high"]
    assert spread(found["same"] - found["mean"]) == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_within_a_prompt_equal_scores_count_nothing() -> None:
    scores = np.array([0.1, 0.2, 1.0, 1.0, 0.5, 0.6])
    ratings = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    assert within_prompt(scores, ratings, ["a", "a", "b", "b", "c", "c"]) == [1.0, 0.0]


def test_all_figures_come_out_on_made_up_images() -> None:
    images = made_up()
    figures = measure(images, 5)
    for name in (*JUDGES, "mean", "dawid_skene", "majority", "default"):
        for kind in ("spearman", "kendall"):
            assert -1.0 <= figures[f"{kind}.{name}"]["mean"] <= 1.0
    names = {key for key in figures if key.startswith("tried.")}
    assert names == {f"tried.{name}" for name in tried(images)}
    assert any("ajority" in line for line in remarks(figures))


def test_the_command_refuses_a_folder_without_the_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command(["--quick", "--data", str(tmp_path)])
    assert stopped.value.code == 1
    assert "tifa160-likert-anns.csv cannot be read" in capsys.readouterr().err


@beside
def test_the_published_correlations_come_out_within_rounding() -> None:
    images = load_dsg_release(RELEASE)
    ratings = images.ratings
    assert len(images.images) == 800
    assert len(images.facts) == 4605
    for judge, scores in judge_scores(images).items():
        assert round(spearman(scores, ratings), 3) == PUBLISHED["spearman"][judge]
        assert round(kendall(scores, ratings), 3) == PUBLISHED["kendall"][judge]


@beside
def test_majority_is_worse_than_the_mean() -> None:
    images = load_dsg_release(RELEASE)
    ratings = images.ratings
    assert spearman(majority(images), ratings) + 0.03 < spearman(mean(images), ratings)

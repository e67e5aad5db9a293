"""Agreement with people: the scores, the correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks._panel_scores import (
    FOLDS,
    by_card,
    chosen_by_other_prompts,
    dawid_skene_posterior,
    folds_of,
    judge_scores,
    majority,
    mean,
    per_image,
    ridge,
    same_question,
    tried,
    weighted_mean,
)
from benchmarks._tifa160 import DATA, Question, RatedImage, load, published_score
from benchmarks.human_agreement import (
    correlations,
    figure,
    gain,
    kendall,
    measure,
    remarks,
    resamples,
    spearman,
    within_prompt,
)
from benchmarks.human_agreement import main as command
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES
from scenewright.evals.studies.peers.published import DSG as PUBLISHED

NAN = float("nan")
beside = pytest.mark.skipif(
    not DATA.is_dir(), reason="the DSG release is not beside the repository"
)


def image(
    answers: Sequence[Sequence[float]],
    parents: Mapping[int, tuple[int, ...]] | None = None,
    rated: int = 3,
    prompt: str = "p",
    model: str = "sd",
) -> RatedImage:
    """An image whose question n + 1 depends on the places ``parents[n]``."""
    questions = tuple(
        Question(at + 1, f"Is it {at}?", "entity", (parents or {}).get(at, ()))
        for at in range(len(answers))
    )
    values = np.array(answers, float).reshape(len(answers), len(JUDGES))
    return RatedImage(prompt, model, questions, values, (rated,))


def test_the_published_score_drops_children_of_what_was_denied() -> None:
    # A child of a child stays: the published evaluation looks at the parent's own answer.
    chain = image([[0, 1, NAN], [1, 0, 1], [1, 1, 1]], {1: (0,), 2: (1,)})
    assert [published_score(chain, judge) for judge in range(3)] == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3]
    )
    assert published_score(image([[0, 1, 1], [1, 1, 1]]), 0) == 0.5
    assert published_score(image([]), 0) == 0.0


def test_panels_score_by_their_rule() -> None:
    images = [image([[1, 0, 0], [1, 1, 0]], {1: (0,)}), image([[NAN, 1, 0]]), image([])]
    assert mean(images) == pytest.approx([0.5, 0.5, 0.0])
    assert majority(images) == pytest.approx([0.5, 0.0, 0.0])
    # The default panel denies the first question of the first image: the second is void.
    assert by_card(images, lambda card: card.expected_recall) == pytest.approx([1 / 6, 0.5, 0.0])
    assert by_card(images, lambda card: card.fact_recall) == pytest.approx([0.0, 0.0, 0.0])
    assert judge_scores(images)["mplug"] == pytest.approx([1.0, 0.0, 0.0])


def test_a_question_that_nobody_answered_is_left_out() -> None:
    images = [image([[NAN, NAN, NAN], [1, 0, 1]])]
    assert mean(images) == pytest.approx([2 / 3])
    assert majority(images) == pytest.approx([1.0])
    assert per_image(images, np.array([NAN, 0.2])) == pytest.approx([0.2])


def test_dawid_skene_believes_the_better_judge() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random(600) < 0.6
    rates = (0.97, 0.65, 0.65)
    votes = np.array([np.where(rng.random(600) < rate, truth, ~truth) for rate in rates], float).T
    images = [image(votes[at : at + 1].tolist(), prompt=str(at)) for at in range(600)]
    errors = [np.abs(score(images) - truth).mean() for score in (dawid_skene_posterior, mean)]
    assert errors[0] < 0.5 * errors[1]


def test_weights_leave_missing_answers_out() -> None:
    answers = np.array([[1.0, 0.0, NAN], [NAN, NAN, NAN]])
    found = weighted_mean(answers, np.array([3.0, 1.0, 9.0]))
    np.testing.assert_allclose(found, [0.75, NAN])


def test_the_same_question_about_other_images_pulls() -> None:
    pair = [image([[1, 1, 1]], model="a"), image([[0, 0, 0]], model="b")]
    assert same_question(pair, 1.0) == pytest.approx([0.75, 0.25])
    assert same_question(pair, 0.0) == pytest.approx([1.0, 0.0])
    assert same_question(pair[:1], 1.0) == pytest.approx([1.0])


def test_folds_keep_prompts_together() -> None:
    prompts = [str(at // 5) for at in range(200)]
    folds = folds_of(prompts)
    assert set(folds) == set(range(FOLDS))
    assert all(len(set(folds[at : at + 5])) == 1 for at in range(0, 200, 5))


def made_up(seed: int = 1) -> list[RatedImage]:
    """Images of 40 prompts whose rating follows their quality, as noisy judges see it."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(120):
        quality = rng.random()
        votes = (rng.random((6, 3)) < 0.3 + 0.7 * quality).astype(float)
        rated = int(np.clip(np.round(1 + 4 * quality), 1, 5))
        found.append(image(votes.tolist(), {3: (0,)}, rated, str(at // 3), str(at % 3)))
    return found


def test_what_is_fitted_never_sees_the_ratings_it_is_scored_on() -> None:
    images = made_up()
    ratings = np.array([one.rating for one in images])
    prompts = [one.prompt for one in images]
    folds = folds_of(prompts)
    changed = np.where(folds == 0, 6.0 - ratings, ratings)
    candidates = [mean(images), -mean(images)]
    before = (chosen_by_other_prompts(candidates, ratings, prompts), ridge(images, ratings))
    after = (chosen_by_other_prompts(candidates, changed, prompts), ridge(images, changed))
    for first, second in zip(before, after, strict=True):
        np.testing.assert_array_equal(first[folds == 0], second[folds == 0])
    np.testing.assert_array_equal(
        chosen_by_other_prompts(candidates, ratings, prompts), candidates[0]
    )
    assert spearman(ridge(images, ratings), ratings) > 0.5


def test_rank_correlations_of_known_cases() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert kendall([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # One swap of four: rho = 1 − 6·2/(4·15), tau = (5 − 1)/6.
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(2 / 3)
    # Ties: ranks 1.5, 1.5, 3 against 1, 2, 3; tau-b = 2/sqrt(2·3).
    assert spearman([0, 0, 1], [1, 2, 3]) == pytest.approx(np.sqrt(3) / 2)
    assert kendall([0, 0, 1], [1, 2, 3]) == pytest.approx(2 / np.sqrt(6))


def test_scores_that_differ_by_rounding_are_ties() -> None:
    assert kendall([0.1 + 0.2, 0.3, 1], [1, 2, 3]) == kendall([0, 0, 1], [1, 2, 3])
    assert spearman([0.3, 0.1 + 0.2, 1], [1, 2, 3]) == spearman([0, 0, 1], [1, 2, 3])


@pytest.mark.parametrize(
    ("scores", "message"),
    [([1, 2], "do not fit"), ([1, 2, NAN], "cannot be ranked"), ([2, 2, 2], "nothing to rank")],
)
def test_what_cannot_be_ranked_is_refused(scores: list[float], message: str) -> None:
    for correlation in (spearman, kendall):
        with pytest.raises(ValueError, match=message):
            correlation(scores, [1, 2, 3])


def test_resamples_draw_whole_prompts() -> None:
    prompts = ["a", "a", "b", "c", "c", "c"]
    for sample in resamples(prompts, 20):
        counts = np.bincount(sample, minlength=6)
        assert counts[0] == counts[1]
        assert counts[3] == counts[4] == counts[5]
        assert counts[0] + counts[2] + counts[3] == 3


def test_intervals_hold_the_value_and_gains_are_paired() -> None:
    images = made_up()
    ratings = np.array([one.rating for one in images])
    samples = resamples([one.prompt for one in images], 200)
    found = correlations(
        {"mean": mean(images), "same": 2 * mean(images)}, ratings, samples, spearman
    )
    shown = figure(found["mean"])
    assert shown["low"] < shown["mean"] < shown["high"]
    assert gain(found["same"], found["mean"]) == {"mean": 0.0, "low": 0.0, "high": 0.0}


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
    assert names == {f"tried.{name}" for name in tried(images, np.arange(120.0))}
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
    images = load()
    ratings = [one.rating for one in images]
    assert len(images) == 800
    assert sum(len(one.questions) for one in images) == 4605
    for judge, scores in judge_scores(images).items():
        assert round(spearman(scores, ratings), 3) == PUBLISHED["spearman"][judge]
        assert round(kendall(scores, ratings), 3) == PUBLISHED["kendall"][judge]


@beside
def test_majority_is_worse_than_the_mean() -> None:
    images = load()
    ratings = [one.rating for one in images]
    assert spearman(majority(images), ratings) + 0.03 < spearman(mean(images), ratings)

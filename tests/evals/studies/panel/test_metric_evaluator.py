"""Measures on weighted items are those of the items written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import Array, brier_score, mean_probability
from scenewright.evals.statistics.ranks import spearman
from scenewright.evals.studies.panel.metrics import MEASURES, MeasureName, MetricEvaluator
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table

SEEDS = st.integers(0, 10_000)


def written_out(table: AnswerTable, likely: Array, measure: MeasureName, items: Array) -> float:
    """``measure`` with the images of each item repeated as often as ``items`` says."""
    images = np.repeat(np.arange(len(table.images)), items[table.item_of_image].astype(int))
    if measure.endswith("_rank"):
        goal = table.ratings if measure == "rating_rank" else table.image_scores(table.truth)
        return spearman(table.image_scores(likely)[images], goal[images])
    rows = np.repeat(np.arange(len(table.facts)), items[table.item_of].astype(int))
    p, t = likely[rows], table.truth[rows]
    p, t = p[~np.isnan(p)], t[~np.isnan(p)]
    if measure == "brier":
        return brier_score(p, t)
    right = (p > 0.5) == (t == 1.0)
    if measure == "accuracy":
        return float(right.mean())
    return float((right[t == 1.0].mean() + right[t == 0.0].mean()) / 2)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_weights_are_repeats(seed: int) -> None:
    table = random_table(seed, n_items=8)
    evaluator = MetricEvaluator(table, resamples=12, seed=seed, halves=1)
    likely = mean_probability(table.said)
    assert set(evaluator.measures) == set(MEASURES) - {"full_agreement"}
    for measure in evaluator.measures:
        reading = evaluator.read(likely, measure)
        for row, items in enumerate(evaluator.weights):
            if np.isfinite(reading[row]):
                assert reading[row] == pytest.approx(written_out(table, likely, measure, items))
        assert np.isfinite(reading[0])
        np.testing.assert_allclose(evaluator.read(likely, measure, evaluator.weights), reading)


def test_resamples_are_those_of_every_study() -> None:
    table = random_table(1)
    evaluator = MetricEvaluator(table, resamples=7, seed=3, halves=2)
    np.testing.assert_array_equal(evaluator.weights[1:8], ItemResamples(table, 7, 3).counts)
    for here, there in evaluator.halves:
        np.testing.assert_array_equal(evaluator.weights[here] + evaluator.weights[there], 1.0)
    assert len(evaluator.halves) == 4


def test_what_nobody_judged_is_left_out() -> None:
    table = random_table(2, missing=0.0)
    evaluator = MetricEvaluator(table, resamples=0)
    likely = mean_probability(table.said)
    likely[:] = np.where(table.truth == 1.0, 0.9, 0.1)
    likely[::3] = np.nan
    assert evaluator.read(likely, "accuracy")[0] == 1.0
    assert np.isnan(evaluator.read(np.full(len(likely), np.nan), "accuracy")[0])


def test_without_truth_people_count_and_without_both_nothing_is_quality() -> None:
    rated = random_table(3, truth=False)
    assert MetricEvaluator(rated, resamples=0).measures == ("rating_rank",)
    bare = random_table(3, truth=False, rated=False)
    with pytest.raises(PanelStudyError, match="give one of them"):
        MetricEvaluator(bare, resamples=0).choose("auto")
    full = mean_probability(bare.said)
    evaluator = MetricEvaluator(bare, resamples=0, full=full)
    assert evaluator.choose("auto") == "full_agreement"
    assert not MEASURES["full_agreement"].quality
    assert evaluator.read(full, "full_agreement")[0] == 1.0
    flipped = np.where(full > 0.5, 0.0, 1.0)
    assert evaluator.read(flipped, "full_agreement")[0] == pytest.approx(np.mean(np.isnan(full)))
    with pytest.raises(PanelStudyError, match="use one of full_agreement"):
        evaluator.choose("accuracy")


def test_costs_are_means_over_images() -> None:
    table = random_table(4)
    evaluator = MetricEvaluator(table, resamples=0)
    spent = np.nan_to_num(table.tokens).sum(1)
    assert evaluator.per_image(spent)[0] == pytest.approx(spent.sum() / len(table.images))


def test_one_item_has_no_interval() -> None:
    evaluator = MetricEvaluator(random_table(5, n_items=1, missing=0.0), resamples=20)
    figure = evaluator.figure(evaluator.read(mean_probability(evaluator.table.said), "accuracy"))
    assert figure.value is not None
    assert figure.low is None
    assert figure.high is None

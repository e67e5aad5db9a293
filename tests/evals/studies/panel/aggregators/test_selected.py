"""Ratings choose among agreement, the mean, fitted weights and the best judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.evals.studies.panel.aggregators.registry import aggregator_of, out_of_fold
from scenewright.evals.studies.panel.aggregators.selected import CANDIDATES, JUDGE, WEIGHTS, choose
from scenewright.evals.studies.panel.metrics import MetricEvaluator
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError


def table(items: int, seed: int = 3) -> AnswerTable:
    """One far better judge, and four that find the same facts hard."""
    strong = SimulatedJudge(
        id="strong", sensitivity=0.97, specificity=0.95, difficulty_sensitivity=0.2
    )
    weak = [SimulatedJudge(id=f"w{at}", sensitivity=0.7, specificity=0.5) for at in range(4)]
    return simulate(
        SimulationSpec(
            judges=(strong, *weak),
            models=tuple(SimulatedModel(id=f"m{p}", prevalence=p) for p in (0.5, 0.7, 0.9)),
            n_items=items,
            difficulty=0.5,
            raters=SimulatedRaters(number=3),
            seed=seed,
        )
    )


def rank(of: AnswerTable, likely: np.ndarray) -> float:
    return float(MetricEvaluator(of, resamples=2).read(likely, "rating_rank")[0])


def test_twenty_rated_prompts_find_a_far_better_judge() -> None:
    whole = table(60)
    rated = whole.item_of_image < 20
    learn, test = whole.of_images(rated), whole.of_images(~rated)
    chosen = choose(learn)
    assert chosen.judge == "strong"
    assert chosen.rule in (WEIGHTS, JUDGE)
    assert set(chosen.scores) == set(CANDIDATES)
    best = rank(test, test.said[:, 0])
    assert rank(test, aggregator_of("selected").combine(test, learn)) > best - 0.03
    assert rank(test, aggregator_of("mean").combine(test)) < best - 0.03


def test_the_choice_never_sees_the_ratings_of_what_it_scores() -> None:
    whole = table(24)
    likely = out_of_fold("selected", whole, folds=3)
    others = replace(
        whole,
        images=tuple(
            replace(image, ratings=tuple(6.0 - r for r in image.ratings)) if item == 0 else image
            for image, item in zip(whole.images, whole.item_of_image, strict=True)
        ),
    )
    rows = whole.item_of == 0
    np.testing.assert_array_equal(likely[rows], out_of_fold("selected", others, folds=3)[rows])


def test_without_enough_ratings_it_says_what_it_needs() -> None:
    with pytest.raises(PanelStudyError, match="selected learns from human ratings, of 10 items"):
        aggregator_of("selected").combine(table(9), table(9))

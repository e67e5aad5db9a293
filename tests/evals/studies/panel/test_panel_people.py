"""Agreement with people: known reliabilities, a published α, and the published split half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from scenewright.evals.studies.panel.people import People
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)
from tests.evals.studies.panel.panel_tables import random_table

SHARED = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "dsg"
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers.
OBSERVED = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def rated(ratings: list[tuple[float, ...]], items: list[str], models: list[str]) -> AnswerTable:
    images = tuple(
        ImageRow(id=f"{at}", item=item, model=model, ratings=given)
        for at, (given, item, model) in enumerate(zip(ratings, items, models, strict=True))
    )
    facts = tuple(FactRow(id="f", image=at) for at in range(len(images)))
    return AnswerTable("rated", (JudgeColumn("j"),), images, facts, np.full((len(images), 1), 0.5))


def noisy(n: int, raters: int, noise: float, seed: int = 0) -> tuple[AnswerTable, np.ndarray]:
    """Normal ratings of variance 1 + noise² around known means; one image an item."""
    rng = np.random.default_rng(seed)
    true = rng.standard_normal(n)
    ratings = [tuple(t + noise * rng.standard_normal(raters)) for t in true]
    return rated(ratings, [f"{at}" for at in range(n)], ["m"] * n), true


def test_correlations_are_those_of_scipy() -> None:
    table = random_table(0, n_items=20)
    people = People(table, 50, 5)
    scores = table.image_scores(table.said[:, 0])
    assert people.spearman(scores).value == pytest.approx(
        float(spearmanr(scores, table.ratings).statistic)
    )
    assert people.pearson(scores).value == pytest.approx(
        float(pearsonr(scores, table.ratings).statistic)
    )
    assert people.kendall(table.ratings).value == pytest.approx(1.0)
    assert people.kendall(-table.ratings).value == pytest.approx(-1.0)


def test_ceilings_are_those_that_the_noise_leaves() -> None:
    """Ratings x + e of variances 1 and 1: halves of two have r = 1 / (1 + ½), all four 1 / (1 + ¼),
    by Pearson; ranks of normal variables have 6/π·asin(r/2)."""
    table, true = noisy(1500, 4, 1.0)
    people = People(table, 40, 8)
    found = people.ceilings()

    def ranks(r: float) -> float:
        return 6 / np.pi * float(np.arcsin(r / 2))

    assert (found.raters, found.images) == (4.0, 1500)
    assert found.half.value == pytest.approx(ranks(1 / 1.5), abs=0.035)
    assert found.reliability.value == pytest.approx(2 * found.half.value / (1 + found.half.value))
    assert found.one.value == pytest.approx(ranks(1 / np.sqrt(2 * (1 + 1 / 3))), abs=0.035)
    low, high = np.quantile(found.half.resamples, [0.025, 0.975])
    assert low < found.half.value < high
    # What knows the expected rating reaches the ceiling, and beats one rater.
    truth = people.spearman(true)
    assert truth.value == pytest.approx(found.ceiling.value, abs=0.035)
    assert people.corrected(truth, found).value == pytest.approx(1.0, abs=0.035)
    judged, gap = people.as_a_rater(true)
    assert judged.value - found.one.value == pytest.approx(gap.value)
    assert np.quantile(gap.resamples, 0.025) > 0


def test_ordinal_alpha_is_the_published_one() -> None:
    columns = list(zip(*OBSERVED, strict=True))
    ratings = [tuple(float(v) for v in unit if v is not None) for unit in columns]
    table = rated(ratings, [f"{at}" for at in range(12)], ["m"] * 12)
    assert People(table, 20).alpha().value == pytest.approx(0.815, abs=0.0005)


def test_alpha_of_many_different_ratings_is_by_distance() -> None:
    table, _ = noisy(60, 2, 0.5)
    found = People(table, 20).alpha()
    # The expected intraclass correlation: 1 / (1 + ¼).
    assert found.value == pytest.approx(0.8, abs=0.1)
    assert np.isnan(found.resamples).all()


def test_pairs_within_an_item_are_counted_by_hand() -> None:
    table = rated(
        [(1.0,), (2.0,), (3.0,), (5.0,), (5.0,), (4.0,)], ["a"] * 3 + ["b"] * 3, ["x"] * 6
    )
    # Item a: 12 right, 13 right, 23 tied; item b: the two alike do not count, one right, one wrong.
    scores = np.array([0.1, 0.9, 0.9, 0.8, 0.2, 0.5])
    assert People(table, 20).within_items(scores).value == pytest.approx((2 + 0.5 + 1) / 5)


def test_models_are_ranked_on_the_images_that_both_have() -> None:
    table = rated(
        [(1.0,), (2.0,), (3.0,), (5.0,), (1.0,), (1.0,)],
        ["a"] * 3 + ["b"] * 3,
        ["x", "y", "z"] * 2,
    )
    people = People(table, 20)
    scores = np.array([0.1, 0.2, 0.3, 0.9, 0.1, np.nan])
    order, gaps = people.order_of_models(scores)
    # People: x 3, y 1.5, z 3 (its second image has no score); scores .5, .15, .3.
    assert gaps["x", "y"][0].value == pytest.approx(1.5)
    assert gaps["x", "z"][0].value == pytest.approx(0.0)
    assert gaps["y", "z"][1].value == pytest.approx(-0.15)
    # Right for xy and yz, half for the tie of x and z.
    assert order.value == pytest.approx(2.5 / 3)


def test_without_ratings_or_second_ratings_it_says_so() -> None:
    with pytest.raises(PanelStudyError, match="no human ratings"):
        People(random_table(0, rated=False))
    single = rated([(1.0,), (2.0,)], ["a", "b"], ["", ""])
    with pytest.raises(PanelStudyError, match="one rating an image"):
        People(single, 20).ceilings()
    with pytest.raises(PanelStudyError, match="0 splits"):
        People(single, 20, splits=0)


def test_scores_are_voided_or_not() -> None:
    table = random_table(0, n_items=10, missing=0.0, hard=True)
    table = replace(table, said=np.zeros_like(table.said) + (table.kinds != "object")[:, None])
    void, plain = (table.image_scores(table.said[:, 0], void=void) for void in (True, False))
    assert (void == 0.0).all()
    assert plain.max() > 0.0


@pytest.mark.skipif(not SHARED.is_dir(), reason="the DSG release is not on this machine")
def test_halves_of_the_released_ratings_agree_as_published() -> None:
    found = People(load_dsg_release(SHARED), 10, 30).ceilings()
    assert found.half.value == pytest.approx(0.841, abs=0.004)
    assert found.raters == pytest.approx(4.99, abs=0.01)

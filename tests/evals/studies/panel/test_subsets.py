"""Panels of some judges: which there are, what they say, what each adds."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import cohen_kappa
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of, out_of_fold
from scenewright.evals.studies.panel.metrics import MetricEvaluator
from scenewright.evals.studies.panel.subpanels import (
    FOLDS,
    Combiner,
    by_size,
    cheapest_as_good,
    cost_of,
    costs_per_image,
    error_correlations,
    measured,
    panels_of,
    reliability,
    shapley,
    shapley_figures,
    split_by_family,
    usable_names,
    vote_agreements,
    without_each,
)
from scenewright.evals.studies.panel.table import PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table


@given(st.integers(1, 12), st.integers(1, 400), st.integers(0, 99))
@settings(deadline=None)
def test_panels_are_different_and_hold_the_ends(n: int, most: int, seed: int) -> None:
    panels = panels_of(n, most, seed)
    assert len(set(panels)) == len(panels)
    assert all(members == tuple(sorted(set(members))) for members in panels)
    assert {(at,) for at in range(n)} <= set(panels)
    assert tuple(range(n)) in panels
    for left in range(n) if n > 1 else ():
        assert tuple(at for at in range(n) if at != left) in panels
    if (1 << n) - 1 <= most:
        assert len(panels) == (1 << n) - 1
    elif most >= 2 * n + 1:
        assert len(panels) <= most
    assert panels == panels_of(n, most, seed)


def test_a_sample_has_panels_of_every_size() -> None:
    panels = panels_of(10, 200, 1)
    sizes = [len(members) for members in panels]
    assert sizes.count(2) == comb(10, 2)
    assert min(sizes.count(size) for size in range(3, 9)) >= 15
    assert len(panels) == 200
    assert panels != panels_of(10, 200, 2)


def test_calibrated_panels_are_sums_of_their_judges_evidence() -> None:
    """Naive Bayes adds evidence up: the short way is the aggregator's own."""
    table, learn = random_table(5, n_items=30), random_table(6, n_items=30)
    combiner = Combiner(table, learn)
    for members in ((0,), (0, 2), (0, 1, 2)):
        direct = aggregator_of("calibrated").combine(
            table.with_judges(members), learn.with_judges(members)
        )
        np.testing.assert_allclose(combiner.likely("calibrated", members), direct, atol=1e-12)
    alone = Combiner(table)
    np.testing.assert_allclose(
        alone.likely("calibrated", (0, 1)),
        out_of_fold("calibrated", table.with_judges((0, 1)), FOLDS, 0),
        atol=1e-12,
    )


def test_what_cannot_learn_is_left_out_with_its_reason() -> None:
    blind = Combiner(random_table(7, truth=False))
    names, notes = usable_names(blind, ("calibrated", "mean"))
    assert names == ("mean",)
    assert notes == ["calibrated is left out: the table has no truth to learn from."]
    with pytest.raises(PanelStudyError, match="name some of"):
        usable_names(blind, ("calibrated",))
    with pytest.raises(PanelStudyError, match="unknown aggregator"):
        usable_names(blind, ("median_of_all",))
    table = random_table(7, n_items=20)
    said = table.said.copy()
    said[:, 1] = np.nan
    silent = Combiner(replace(table, said=said, votes=np.zeros((0, 0))))
    names, notes = usable_names(silent, ("mean", "calibrated"))
    assert names == ("mean",)
    assert "no usable labelled answer by judge-1" in notes[0]
    stranger = random_table(7, n_judges=2)
    with pytest.raises(PanelStudyError, match="no answers of judge-2"):
        Combiner(random_table(7), stranger)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_shapley_is_the_mean_over_all_orders(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    values = {members: rng.random(3) for members in panels_of(n, 99)}
    worth = {(): np.full(3, 0.25), **values}
    expected = np.zeros((n, 3))
    orders = list(permutations(range(n)))
    for order in orders:
        for at, judge in enumerate(order):
            before, after = tuple(sorted(order[:at])), tuple(sorted(order[: at + 1]))
            expected[judge] += (worth[after] - worth[before]) / len(orders)
    found = shapley(values, 0.25, n)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(found.sum(0), values[tuple(range(n))] - 0.25)


def test_shapley_needs_every_panel() -> None:
    with pytest.raises(PanelStudyError, match="every panel"):
        shapley({(0,): np.zeros(1), (0, 1): np.zeros(1)}, 0.5, 2)


def test_shapley_of_a_judge_that_orders_nothing_is_nothing() -> None:
    table = random_table(8, n_judges=1, truth=False, missing=0.0)
    said = np.concatenate([table.said, np.ones_like(table.said)], 1)
    two = table.with_judges((0, 0), (table.judges[0], type(table.judges[0])("yes"))).with_said(said)
    evaluator = MetricEvaluator(two, resamples=50)
    found = measured(Combiner(two), evaluator, panels_of(2, 9), ("majority",), "rating_rank")[
        "majority"
    ]
    readings = found["rating_rank"]
    assert np.isnan(readings[1,][0])
    first, second = shapley_figures(readings, evaluator, "rating_rank", 2)
    assert second.value == pytest.approx((readings[0, 1][0] - readings[0,][0]) / 2)
    assert first.value is not None


def test_sizes_differences_and_the_cheapest() -> None:
    table = random_table(9, n_items=60, n_judges=4, missing=0.0)
    evaluator = MetricEvaluator(table, resamples=200, halves=5)
    panels = panels_of(4, 99)
    readings = measured(Combiner(table), evaluator, panels, ("mean",), "accuracy")["mean"][
        "accuracy"
    ]
    sizes = by_size(readings, evaluator, "accuracy")
    assert [(of.size, of.panels) for of in sizes] == [(1, 4), (2, 6), (3, 4), (4, 1)]
    values = {members: float(reading[0]) for members, reading in readings.items()}
    pairs = [value for members, value in values.items() if len(members) == 2]
    assert sizes[1].mean.value == pytest.approx(np.mean(pairs))
    assert sizes[0].gain is None
    assert sizes[1].gain is not None
    assert sizes[1].gain.value == pytest.approx(
        np.mean(pairs) - np.mean([values[at,] for at in range(4)])
    )
    assert sizes[1].best_figure.value == max(pairs)
    assert sizes[1].worst_figure.value == min(pairs)
    of_two = np.stack([reading for members, reading in readings.items() if len(members) == 2])
    elsewhere = [of_two[of_two[:, here].argmax(), there] for here, there in evaluator.halves]
    assert len(elsewhere) == 10
    assert sizes[1].best_elsewhere == pytest.approx(np.mean(elsewhere))
    adds = without_each(readings, evaluator, 4)
    assert adds[2].value == pytest.approx(values[0, 1, 2, 3] - values[0, 1, 3])


def test_the_cheapest_panel_that_is_as_good() -> None:
    """Two judges that are always right, a dear one and a cheap one, and one that guesses."""
    base = random_table(9, n_items=40, missing=0.0)
    rng = np.random.default_rng(0)
    said = np.stack([base.truth, base.truth, rng.random(len(base.truth))], 1)
    table = base.with_said(said)
    evaluator = MetricEvaluator(table, resamples=200)
    panels = panels_of(3, 9)
    readings = measured(Combiner(table), evaluator, panels, ("mean",), "accuracy")["mean"][
        "accuracy"
    ]
    cost = {members: sum((5.0, 2.0, 1.0)[at] for at in members) for members in panels}
    found = cheapest_as_good(readings, evaluator, cost, margin=0.01)
    assert found is not None
    assert found[0] == (1,)
    assert found[1].low is not None
    assert found[1].low >= 0.0
    # Nothing but the guesser is cheaper than all of them now.
    cost = {members: 1.0 if members == (2,) else 9.0 for members in panels}
    assert cheapest_as_good(readings, evaluator, cost, margin=0.01) is None


def test_lower_is_better_for_brier() -> None:
    table = random_table(10, n_items=20)
    evaluator = MetricEvaluator(table, resamples=20, halves=2)
    readings = measured(Combiner(table), evaluator, panels_of(3, 9), ("mean",), "brier")["mean"][
        "brier"
    ]
    singles = {m: float(r[0]) for m, r in readings.items() if len(m) == 1}
    first = by_size(readings, evaluator, "brier")[0]
    assert singles[first.best] == min(singles.values())
    assert singles[first.worst] == max(singles.values())


def test_reliability_is_cronbachs_alpha() -> None:
    table = random_table(11, n_items=15, missing=0.0)
    evaluator = MetricEvaluator(table, resamples=3)
    scores = np.stack([table.image_scores(table.said[:, at]) for at in range(3)], 1)
    alpha = 1.5 * (1 - scores.var(0).sum() / scores.sum(1).var())
    assert reliability(table, (0, 1, 2), evaluator)[0] == pytest.approx(alpha)
    assert np.isnan(reliability(table, (0,), evaluator)).all()


def test_errors_that_two_judges_share_correlate() -> None:
    table = random_table(12, n_items=80, missing=0.0)
    wrong = (table.votes != table.truth[:, None]).astype(float)
    evaluator = MetricEvaluator(table, resamples=0)
    found = error_correlations(evaluator)
    within = np.zeros((len(wrong), 2))
    for holds in (0.0, 1.0):
        rows = table.truth == holds
        within[rows] = wrong[rows][:, :2] - wrong[rows][:, :2].mean(0)
    assert found[0, 1][0] == pytest.approx(np.corrcoef(within.T)[0, 1])
    twin = table.with_judges((0, 0), (table.judges[0], table.judges[1]))
    assert error_correlations(MetricEvaluator(twin, resamples=0))[0, 1][0] == pytest.approx(1.0)
    opposite = twin.with_said(np.stack([twin.truth, 1.0 - twin.truth], 1))
    assert np.isnan(error_correlations(MetricEvaluator(opposite, resamples=0))[0, 1][0])


def test_votes_agree_as_by_kappa_where_truth_is_unknown() -> None:
    table = random_table(13, n_items=20, truth=False)
    found = vote_agreements(MetricEvaluator(table, resamples=0))
    for (a, b), reading in found.items():
        assert reading[0] == pytest.approx(cohen_kappa(table.votes[:, a], table.votes[:, b]))
    within, between = split_by_family(found, table)
    assert within is not None
    assert between is not None
    assert within[0] == pytest.approx(found[0, 1][0])
    assert between[0] == pytest.approx((found[0, 2][0] + found[1, 2][0]) / 2)


def test_costs_add_up_and_the_slowest_judge_is_waited_for() -> None:
    table = random_table(14)
    costs = costs_per_image(table)
    both = cost_of(costs, (0, 2))
    n = len(table.images)
    assert both["tokens"] == pytest.approx(table.tokens[:, [0, 2]].sum() / n)
    seconds = np.array(
        [table.seconds[table.image_of == at][:, [0, 2]].sum(0).max() for at in range(n)]
    )
    assert both["seconds"] == pytest.approx(seconds.mean())
    free = table.with_said(table.said)
    object.__setattr__(free, "usd", np.zeros_like(free.usd))
    assert "usd" not in costs_per_image(free)

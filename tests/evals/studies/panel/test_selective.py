"""Abstention: areas and accuracies are means over the orders of what is equally sure."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.studies.panel.cascades import kept_by_margin, margin_of, selective, spread_of
from scenewright.evals.studies.panel.metrics import MetricEvaluator
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)
from tests.evals.studies.panel.panel_tables import random_table


def table_of(truth: list[float], said: list[float]) -> AnswerTable:
    """One fact an image, one image an item."""
    n = len(truth)
    return AnswerTable(
        name="facts",
        judges=(JudgeColumn("one"),),
        images=tuple(ImageRow(str(at), str(at)) for at in range(n)),
        facts=tuple(FactRow("f", at) for at in range(n)),
        said=np.array(said)[:, None],
        truth=np.array(truth),
    )


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.8, 1.0])),
        min_size=1,
        max_size=6,
    ),
    st.floats(0.05, 1.0),
)
@settings(max_examples=60, deadline=None)
def test_by_brute_force_over_all_orders(facts: list[tuple[bool, float]], coverage: float) -> None:
    truth = np.array([float(holds) for holds, _ in facts])
    likely = np.array([said for _, said in facts])
    table = table_of(truth.tolist(), likely.tolist())
    found = selective(MetricEvaluator(table, resamples=0), likely, margin_of(likely), (coverage,))
    wrong = (likely > 0.5) != (truth == 1.0)
    sure = np.round(margin_of(likely), 9)
    areas, risks = [], []
    for order in permutations(range(len(facts))):
        if (np.diff(sure[list(order)]) <= 0).all():
            sums = np.cumsum(wrong[list(order)])
            areas.append(np.mean(sums / np.arange(1, len(facts) + 1)))
            want = coverage * len(facts)
            risks.append(np.interp(want, np.arange(len(facts) + 1), [0, *sums]) / want)
    assert found.risk[0] == pytest.approx(wrong.mean())
    assert found.area[0] == pytest.approx(np.mean(areas))
    assert found.risk_at[0, 0] == pytest.approx(np.mean(risks))


def test_resamples_are_the_facts_written_out() -> None:
    table = random_table(1, missing=0.2)
    likely = table.said[:, 0]
    evaluator = MetricEvaluator(table, resamples=10, seed=2)
    found = selective(evaluator, likely, margin_of(likely), (0.8,))
    for row in range(1, 11):
        counts = evaluator.weights[row][table.item_of].astype(int)
        rows = np.repeat(np.arange(len(likely)), counts)
        copy = table_of(table.truth[rows].tolist(), np.nan_to_num(likely[rows], nan=0.5).tolist())
        one = likely[rows]
        expected = selective(MetricEvaluator(copy, resamples=0), one, margin_of(one), (0.8,))
        assert found.area[row] == pytest.approx(expected.area[0])
        assert found.risk_at[row, 0] == pytest.approx(expected.risk_at[0, 0])


def test_an_order_by_chance_takes_no_risk_away() -> None:
    truth = [1.0, 0.0, 1.0, 1.0]
    found = selective(
        MetricEvaluator(table_of(truth, [1.0] * 4), resamples=0),
        np.ones(4),
        np.zeros(4),
        (0.5, 1.0),
    )
    assert found.area[0] == pytest.approx(0.25)
    np.testing.assert_allclose(found.risk_at[0], 0.25)


def test_the_best_order_puts_errors_last() -> None:
    truth, likely = [1.0, 1.0, 0.0, 0.0], np.array([0.9, 0.8, 0.3, 0.6])
    found = selective(
        MetricEvaluator(table_of(truth, likely.tolist()), resamples=0),
        likely,
        margin_of(likely),
        (0.75, 1.0),
    )
    assert found.area[0] == pytest.approx(0.25 / 4)
    np.testing.assert_allclose(found.risk_at[0], [0.0, 0.25])


def test_refuses_what_cannot_be() -> None:
    table = table_of([1.0], [0.7])
    evaluator = MetricEvaluator(table, resamples=0)
    with pytest.raises(PanelStudyError, match="above 0"):
        selective(evaluator, np.array([0.7]), np.array([0.2]), (0.0,))
    with pytest.raises(PanelStudyError, match="no judged facts"):
        selective(evaluator, np.array([np.nan]), np.array([0.2]), (0.5,))


def test_bounds_are_part_of_where_it_abstains() -> None:
    likely = np.array([0.0, 0.3, 0.31, 0.7, 0.71, np.nan])
    assert kept_by_margin(likely, 0.3).tolist() == [True, False, False, False, True, False]


def test_spread_is_that_of_the_judges_who_answered() -> None:
    table = random_table(3, missing=0.4)
    spread = spread_of(table)
    for row, said in enumerate(table.said):
        known = said[~np.isnan(said)]
        if len(known):
            assert spread[row] == pytest.approx(known.std())
        else:
            assert np.isnan(spread[row])

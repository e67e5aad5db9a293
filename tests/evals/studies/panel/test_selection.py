"""Picking the best of several pictures."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.studies.panel.selection import (
    candidate_sets,
    gains_of,
    judge_scores,
    panel_like,
    pick_weights,
    ratio,
    simulated_picks,
    slopes,
    true_scores,
    within_slope,
)
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)


def table_of(
    said: list[list[float]],
    items: list[str],
    rounds: list[int | None] | None = None,
    truth: list[float] | None = None,
) -> AnswerTable:
    """One fact an image."""
    n = len(said)
    return AnswerTable(
        "t",
        tuple(JudgeColumn(f"j{at}") for at in range(len(said[0]))),
        tuple(
            ImageRow(str(at), items[at], "m", None if rounds is None else rounds[at])
            for at in range(n)
        ),
        tuple(FactRow(str(at), at) for at in range(n)),
        np.array(said),
        truth=np.zeros(0) if truth is None else np.array(truth),
    )


def by_enumeration(scores: Array, n: int) -> Array:
    """Over all subsets of n candidates; equal bests share."""
    found = np.zeros(len(scores))
    subsets = list(combinations(range(len(scores)), n))
    for subset in subsets:
        best = max(scores[at] for at in subset)
        bests = [at for at in subset if scores[at] == best]
        for at in bests:
            found[at] += 1.0 / len(bests)
    return found / len(subsets)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_weights_are_those_of_all_subsets(given_: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(given_)))
    scores = np.array(given_, float)
    weights = pick_weights(scores, n)
    assert weights.sum() == pytest.approx(1.0)
    # Equal scores share alike over all subsets, by symmetry.
    np.testing.assert_allclose(weights, by_enumeration(scores, n), atol=1e-12)


def test_weights_of_many_sets_at_once() -> None:
    scores = np.random.default_rng(0).random((3, 2, 5))
    found = pick_weights(scores, 3)
    for one, two in np.ndindex(3, 2):
        np.testing.assert_allclose(found[one, two], pick_weights(scores[one, two], 3))


@pytest.mark.parametrize("n", [0, 4])
def test_the_best_of_none_or_too_many_is_refused(n: int) -> None:
    with pytest.raises(PanelStudyError, match="use 1 to 3"):
        pick_weights(np.array([1.0, 2.0, 3.0]), n)


def test_gains_of_a_table_by_hand() -> None:
    table = table_of([[0.9, 0.4], [0.1, 0.6], [0.2, 0.2]], ["a", "a", "b"])
    scores = judge_scores(table)
    sets, what = candidate_sets(table, scores)
    assert what == "pictures of one prompt"
    assert [at.tolist() for at in sets] == [[0, 1]]
    gains = gains_of(table, sets, scores, 2)
    # The first picks picture 0: 0.9 against 0.5; the second sees 0.4 against 0.5.
    np.testing.assert_allclose(gains.own(), [[0.4, 0.1]])
    np.testing.assert_allclose(gains.others(), [[-0.1, -0.4]])
    np.testing.assert_allclose(gains_of(table, sets, scores, 2, 1).gains, 0.0, atol=1e-12)


def test_rounds_of_one_item_are_the_candidates_where_there_are_rounds() -> None:
    table = table_of([[0.5], [0.6], [0.7], [np.nan]], ["a", "a", "b", "b"], [0, 1, 0, 1])
    sets, what = candidate_sets(table, judge_scores(table))
    assert what == "rounds of a loop"
    # The second loop has one scored picture.
    assert [at.tolist() for at in sets] == [[0, 1]]


def test_a_share_of_no_gain_is_no_number() -> None:
    items = np.repeat(np.arange(20), 1)
    bootstrap = Bootstrap(20)
    noise = np.tile([1.0, -1.0], 10)
    assert ratio(items, noise, noise, bootstrap).value is None
    assert ratio(items, np.full(20, 0.5), np.full(20, 2.0), bootstrap).value == pytest.approx(0.25)


def test_where_scores_are_normal_the_slope_is_the_confirmed_share() -> None:
    rng = np.random.default_rng(1)
    n, m, noise = 4000, 4, 1.0
    quality = rng.normal(size=(n, m))
    scores = np.stack([quality + noise * rng.normal(size=(n, m)) for _ in range(2)], -1)
    # Neither probabilities nor facts are looked at here, but the items are.
    table = table_of([[0.5, 0.5]] * (n * m), [str(at // m) for at in range(n * m)])
    flat = scores.reshape(-1, 2)
    sets = tuple(np.arange(m) + m * at for at in range(n))
    gains = gains_of(table, sets, np.column_stack([flat, quality.ravel()]), 2)
    bootstrap = Bootstrap(n, resamples=200)
    confirmed = ratio(gains.items, gains.others()[:, 0], gains.own()[:, 0], bootstrap)
    slope = within_slope(table, sets, flat[:, 0], flat[:, 1], bootstrap)
    # cov / var = 1 / (1 + noise²).
    for found in (confirmed, slope):
        assert found.value == pytest.approx(0.5, abs=0.04)
    # The best of four standard normals is 1.0294 on average.
    assert gains.own()[:, 0].mean() == pytest.approx(1.0294 * np.sqrt(2.0), rel=0.03)
    assert gains.gains[:, 0, 2].mean() == pytest.approx(1.0294 / np.sqrt(2.0), rel=0.05)


def test_slopes_put_scores_on_the_scale_of_the_truth() -> None:
    table = table_of(
        [[0.9, 0.6], [0.7, 0.6], [0.2, 0.4], [0.0, np.nan]], list("abcd"), truth=[1, 1, 0, 0]
    )
    np.testing.assert_allclose(slopes(table, table.said), [0.7, 0.2])
    useless = table_of([[0.5, 0.9], [0.5, 0.1]], list("ab"), truth=[1, 0])
    np.testing.assert_array_equal(slopes(useless, useless.said), [1.0, 1.0])
    unknown = table_of([[0.5], [0.9]], list("ab"))
    np.testing.assert_array_equal(slopes(unknown, unknown.said), [1.0])


def test_the_true_score_needs_the_truth_of_all_facts() -> None:
    table = table_of([[0.5], [0.9]], list("ab"), truth=[1, np.nan])
    np.testing.assert_array_equal(true_scores(table), [1.0, np.nan])


def test_correlated_judges_confirm_what_is_not_there() -> None:
    judges = tuple(SimulatedJudge(id=name, sensitivity=0.8, specificity=0.7) for name in "abc")
    like = panel_like(simulate(SimulationSpec(judges=judges, n_items=400, seed=2)))
    found = {
        rho: simulated_picks(like, rho, items=200, candidates=5, spread=0.2, seed=1, resamples=200)
        for rho in (0.0, 0.8)
    }
    confirmed, true = (found[0.0][-1][name] for name in ("confirmed", "true_share"))
    # Judges that err independently see what is there.
    assert confirmed.value is not None
    assert true.value is not None
    assert true.low is not None
    assert true.high is not None
    assert true.low - 0.05 < confirmed.value < true.high + 0.05
    confirmed, true = (found[0.8][-1][name] for name in ("confirmed", "true_share"))
    assert confirmed.low is not None
    assert true.high is not None
    assert confirmed.low > true.high
    curve = [one["own"].value for one in found[0.0]]
    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(0.0, abs=1e-12)


def test_simulated_judges_have_the_rates_of_the_table_s() -> None:
    judges = (
        SimulatedJudge(id="a", sensitivity=0.9, specificity=0.6),
        SimulatedJudge(id="b", sensitivity=0.7, specificity=0.95),
    )
    like = panel_like(simulate(SimulationSpec(judges=judges, n_items=1500, seed=1)))
    assert like.facts == 8
    assert "truth" in like.source
    for made, put_in in zip(like.judges, judges, strict=True):
        # 12,000 facts: four standard errors of a share are below 0.03.
        assert made.sensitivity == pytest.approx(put_in.sensitivity, abs=0.03)
        assert made.specificity == pytest.approx(put_in.specificity, abs=0.03)

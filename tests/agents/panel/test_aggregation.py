"""Aggregation: means, votes, judges' error rates found without labels and with known ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scenewright.agents.panel.aggregation import (
    Array,
    DawidSkene,
    calibrated_log_odds,
    checked_probabilities,
    dawid_skene,
    expit,
    majority_share,
    mean_probability,
)

NAN = float("nan")
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)
ANSWERS = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0, NAN]))
PANELS = hnp.arrays(np.float64, SHAPES, elements=ANSWERS, fill=st.nothing())
RATES = st.floats(0.01, 0.99)
# Matrices take long to draw, and a busy machine is no failure.
few = settings(max_examples=30, deadline=None)


def fitted(probabilities: Array) -> Array:
    return dawid_skene(probabilities).probabilities


def weighed(probabilities: Array) -> Array:
    n = probabilities.shape[1]
    return expit(calibrated_log_odds(probabilities, np.full(n, 0.9), np.full(n, 0.7), 0.4))


AGGREGATORS = [mean_probability, majority_share, fitted, weighed]


def votes(truth: Array, sensitivity: list[float], specificity: list[float], seed: int = 0) -> Array:
    """Simulated votes (n_facts, n_judges) of judges with these error rates."""
    rng = np.random.default_rng(seed)
    says_yes = np.where(truth[:, None] == 1.0, sensitivity, 1.0 - np.array(specificity))
    return (rng.random(says_yes.shape) < says_yes).astype(float)


def facts(n: int, prevalence: float, seed: int = 1) -> Array:
    return (np.random.default_rng(seed).random(n) < prevalence).astype(float)


def right(probabilities: Array, truth: Array) -> float:
    return float(((probabilities > 0.5) == (truth == 1.0)).mean())


@pytest.mark.parametrize("aggregate", AGGREGATORS)
@few
@given(panel=PANELS)
def test_probabilities_come_out_and_nan_only_where_nobody_answered(
    aggregate: Callable[[Array], Array], panel: Array
) -> None:
    before = panel.copy()
    result = aggregate(panel)
    unknown = np.isnan(panel).all(1)
    np.testing.assert_array_equal(np.isnan(result), unknown)
    assert np.all((result[~unknown] >= 0.0) & (result[~unknown] <= 1.0))
    np.testing.assert_array_equal(panel, before)


@pytest.mark.parametrize("aggregate", AGGREGATORS)
@few
@given(panel=PANELS, data=st.data())
def test_the_order_of_facts_and_judges_does_not_matter(
    aggregate: Callable[[Array], Array], panel: Array, data: st.DataObject
) -> None:
    rows = data.draw(st.permutations(range(panel.shape[0])))
    columns = data.draw(st.permutations(range(panel.shape[1])))
    np.testing.assert_allclose(
        aggregate(panel[np.ix_(rows, columns)]), aggregate(panel)[rows], atol=1e-4
    )


@pytest.mark.parametrize("aggregate", AGGREGATORS)
@few
@given(panel=PANELS)
def test_a_judge_that_answers_nothing_changes_nothing(
    aggregate: Callable[[Array], Array], panel: Array
) -> None:
    silent = np.full((len(panel), 1), NAN)
    np.testing.assert_allclose(
        aggregate(np.hstack([panel, silent])), aggregate(panel), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("aggregate", AGGREGATORS)
@few
@given(panel=PANELS)
def test_a_fact_that_nobody_answered_changes_nothing(
    aggregate: Callable[[Array], Array], panel: Array
) -> None:
    more = aggregate(np.vstack([panel, np.full((1, panel.shape[1]), NAN)]))
    np.testing.assert_allclose(more[:-1], aggregate(panel), rtol=0, atol=1e-9)


@pytest.mark.parametrize("aggregate", AGGREGATORS)
def test_equal_answers_tie_exactly_in_every_call(aggregate: Callable[[Array], Array]) -> None:
    distinct = np.array([[0.9, 0.3, NAN], [0.2, 0.7, 0.1], [0.7, 0.8, 0.4]])
    result = aggregate(np.tile(distinct, (37, 1)))
    assert len(np.unique(result)) == 3
    np.testing.assert_array_equal(aggregate(np.tile(distinct, (37, 1))), result)


@few
@given(st.lists(ANSWERS, min_size=1, max_size=9))
def test_one_judge_is_its_own_mean(answers: list[float]) -> None:
    np.testing.assert_array_equal(mean_probability(np.array(answers)[:, None]), answers)


def test_mean_of_those_who_answered() -> None:
    panel = [[0.9, 0.4, NAN], [NAN, NAN, NAN], [0.0, NAN, NAN]]
    np.testing.assert_allclose(mean_probability(panel), [0.65, NAN, 0.0])


def test_a_vote_at_the_threshold_counts_one_half() -> None:
    panel = [[0.9, 0.5, 0.1], [0.6, 0.7, 0.5], [NAN, 0.5, NAN], [NAN, NAN, NAN]]
    np.testing.assert_allclose(majority_share(panel), [0.5, 5 / 6, 0.5, NAN])
    np.testing.assert_allclose(majority_share(panel, 0.6), [1 / 3, 0.5, 0.0, NAN])


@pytest.mark.parametrize("threshold", [-0.1, 1.1, NAN])
def test_a_threshold_outside_the_unit_interval(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        majority_share([[0.5]], threshold)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([0.1, 0.2], "shape"),
        ([[1.2]], r"\[0, 1\]"),
        ([[-0.1]], r"\[0, 1\]"),
        ([[np.inf]], r"\[0, 1\]"),
        ([["yes"]], "real numbers"),
        ([[None, 0.5]], "real numbers"),
        ([[1j]], "real numbers"),
        ([[0.1], [0.2, 0.3]], "rectangular"),
    ],
)
@pytest.mark.parametrize("aggregate", [checked_probabilities, mean_probability, dawid_skene])
def test_what_is_no_matrix_of_probabilities(
    aggregate: Callable[[Any], Any], bad: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        aggregate(bad)


@pytest.mark.parametrize("answers", [[[True, False]], [[1, 0]]])
def test_other_real_numbers_are_taken(answers: Any) -> None:
    np.testing.assert_array_equal(mean_probability(answers), [0.5])


@few
@given(st.floats(-800.0, 800.0))
def test_expit_is_the_inverse_of_the_log_odds(log_odds: float) -> None:
    probability = float(expit(log_odds))
    assert 0.0 <= probability <= 1.0
    assert probability + float(expit(-log_odds)) == pytest.approx(1.0)
    if abs(log_odds) < 15.0:
        assert np.log(probability / (1.0 - probability)) == pytest.approx(log_odds, abs=1e-6)


def test_expit_at_the_ends() -> None:
    np.testing.assert_array_equal(expit([-np.inf, 0.0, np.inf, NAN]), [0.0, 0.5, 1.0, NAN])


def test_error_rates_of_a_simulated_panel_are_recovered() -> None:
    sensitivity, specificity = [0.95, 0.8, 0.9, 0.7], [0.6, 0.9, 0.75, 0.85]
    answers = votes(facts(6000, 0.7), sensitivity, specificity)
    answers[np.random.default_rng(2).random(answers.shape) < 0.1] = NAN
    found = dawid_skene(answers)
    assert found.converged
    np.testing.assert_allclose(found.sensitivity, sensitivity, atol=0.03)
    np.testing.assert_allclose(found.specificity, specificity, atol=0.05)
    assert found.prevalence == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("prevalence", [0.3, 0.7])
def test_good_judges_among_poor_ones_are_heard(prevalence: float) -> None:
    truth = facts(500, prevalence)
    answers = votes(truth, [0.97, 0.9, 0.55, 0.52, 0.95], [0.95, 0.88, 0.5, 0.55, 0.08])
    found = dawid_skene(answers)
    assert right(found.probabilities, truth) > right(mean_probability(answers), truth) + 0.03
    brier = [((p - truth) ** 2).mean() for p in (found.probabilities, mean_probability(answers))]
    assert brier[0] < brier[1] / 2
    assert set(np.argsort(found.sensitivity + found.specificity)[-2:]) == {0, 1}


def test_a_judge_that_says_the_opposite_is_turned_round() -> None:
    truth = facts(400, 0.5)
    answers = votes(truth, [0.9, 0.85, 0.9, 0.1], [0.9, 0.85, 0.9, 0.1])
    found = dawid_skene(answers)
    assert found.sensitivity[3] + found.specificity[3] < 0.5
    assert right(found.probabilities, truth) > right(mean_probability(answers), truth)


@pytest.mark.parametrize("always", [0.0, 1.0])
def test_a_judge_that_always_says_the_same_weighs_next_to_nothing(always: float) -> None:
    truth = facts(200, 0.6)
    answers = votes(truth, [0.9, 0.85, 0.8], [0.8, 0.9, 0.85])
    without = dawid_skene(answers)
    found = dawid_skene(np.hstack([answers, np.full((200, 1), always)]))
    np.testing.assert_allclose(found.probabilities, without.probabilities, atol=0.02)
    assert found.sensitivity[3] + found.specificity[3] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("said", [0.0, 0.1, 0.4, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("n_judges", [1, 3])
def test_a_panel_that_says_the_same_of_all_facts_is_not_contradicted(
    said: float, n_judges: int
) -> None:
    found = dawid_skene(np.full((30, n_judges), said)).probabilities
    assert np.all((found > 0.5) == (said > 0.5))
    assert np.all(np.abs(found - 0.5) >= abs(said - 0.5) - 0.02)


def test_a_panel_that_is_undecided_throughout_stays_so() -> None:
    np.testing.assert_allclose(dawid_skene(np.full((30, 3), 0.5)).probabilities, 0.5)


@pytest.mark.parametrize("n_facts", [4, 12, 200])
@pytest.mark.parametrize("soft", [False, True])
def test_few_facts_and_soft_answers_are_told_apart(n_facts: int, soft: bool) -> None:
    truth = np.tile([1.0, 0.0, 1.0, 1.0], n_facts // 4)
    answers = votes(truth, [0.95] * 3, [0.95] * 3, seed=5)
    if soft:
        answers = answers * 0.6 + 0.2
    found = dawid_skene(answers).probabilities
    majority = mean_probability(answers) > 0.5
    np.testing.assert_array_equal(found > 0.5, majority)


def test_judges_who_all_vote_alike_are_believed() -> None:
    truth = facts(40, 0.5)
    found = dawid_skene(np.tile(truth[:, None], (1, 3)))
    np.testing.assert_allclose(found.probabilities, truth, atol=0.01)
    assert found.sensitivity.min() > 0.9
    assert found.specificity.min() > 0.9


def test_yes_and_no_are_exchanged_where_the_panel_would_come_out_worse_than_chance() -> None:
    answers = np.array([[0, 1, 1], [1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 0.0]])
    found = dawid_skene(answers, smoothing=0.1)
    assert youden(answers, found) > 0.05
    assert found.probabilities[1] > 0.5
    log_odds = calibrated_log_odds(answers, found.sensitivity, found.specificity, found.prevalence)
    np.testing.assert_allclose(expit(log_odds), found.probabilities)


def youden(answers: Array, found: DawidSkene) -> float:
    given = ~np.isnan(answers)
    each = np.broadcast_to(found.sensitivity + found.specificity - 1.0, answers.shape)
    return float(each[given].mean())


@few
@given(PANELS, st.floats(0.01, 10.0), st.integers(1, 60))
def test_what_is_found_fits_together(panel: Array, smoothing: float, iterations: int) -> None:
    found = dawid_skene(panel, smoothing=smoothing, iterations=iterations)
    silent = np.isnan(panel).all(0)
    np.testing.assert_array_equal(np.isnan(found.sensitivity), silent)
    np.testing.assert_array_equal(np.isnan(found.specificity), silent)
    if silent.all():
        assert (found.iterations, found.converged, found.log_likelihood) == (0, False, 0.0)
        assert np.isnan(found.prevalence)
        return
    assert 1 <= found.iterations <= iterations
    assert found.converged or found.iterations == iterations
    assert youden(panel, found) >= -0.05 - 1e-9
    log_odds = calibrated_log_odds(panel, found.sensitivity, found.specificity, found.prevalence)
    np.testing.assert_allclose(expit(log_odds), found.probabilities, atol=1e-9)


def test_at_the_end_the_rates_are_the_shares_that_the_posteriors_give() -> None:
    answers = votes(facts(300, 0.6), [0.9, 0.8, 0.7], [0.8, 0.7, 0.9])
    found = dawid_skene(answers, smoothing=1e-9, tolerance=1e-12, iterations=2000)
    holds = found.probabilities
    np.testing.assert_allclose(found.sensitivity, holds @ answers / holds.sum(), atol=1e-6)
    fails = 1.0 - holds
    np.testing.assert_allclose(found.specificity, fails @ (1 - answers) / fails.sum(), atol=1e-6)
    assert found.prevalence == pytest.approx(holds.mean(), abs=1e-6)


def test_the_log_likelihood_is_that_of_the_answers() -> None:
    answers = np.array([[1.0, 0.0, 1.0], [0.0, NAN, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    found = dawid_skene(answers)
    total = 0.0
    for row in answers:
        holds, fails = found.prevalence, 1.0 - found.prevalence
        for answer, se, sp in zip(row, found.sensitivity, found.specificity, strict=True):
            if not np.isnan(answer):
                holds *= se if answer else 1.0 - se
                fails *= 1.0 - sp if answer else sp
        total += np.log(holds + fails)
    assert found.log_likelihood == pytest.approx(total)


@few
@given(st.integers(0, 1000))
def test_em_never_makes_the_likelihood_worse(seed: int) -> None:
    answers = votes(facts(40, 0.6, seed), [0.9, 0.8, 0.7], [0.8, 0.7, 0.9], seed) * 0.8 + 0.1
    steps = [
        dawid_skene(answers, iterations=n, smoothing=1e-6, tolerance=0.0).log_likelihood
        for n in (1, 2, 3, 5, 10, 40)
    ]
    assert np.all(np.diff(steps) >= -1e-4)


def test_nothing_to_estimate_from() -> None:
    for empty in (np.full((2, 3), NAN), np.zeros((0, 3)), np.zeros((2, 0))):
        found = dawid_skene(empty)
        assert found.probabilities.shape == empty.shape[:1]
        assert found.sensitivity.shape == found.specificity.shape == empty.shape[1:]
        assert np.isnan(found.probabilities).all()
        assert not found.converged


def test_thousands_of_judges_do_not_underflow() -> None:
    truth = facts(20, 0.5)
    answers = votes(truth, [0.6] * 5000, [0.6] * 5000)
    found = dawid_skene(answers)
    np.testing.assert_allclose(found.probabilities, truth, atol=1e-6)
    assert np.isfinite(found.log_likelihood)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("iterations", 0),
        ("tolerance", NAN),
        ("smoothing", 0.0),
        ("smoothing", NAN),
    ],
)
def test_options_of_em_that_make_no_sense(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        dawid_skene([[0.5]], **{option: value})  # type: ignore[arg-type]


def test_known_error_rates_are_combined_by_bayes() -> None:
    log_odds = calibrated_log_odds([[1.0, 0.0, NAN]], [0.9, 0.8, 0.7], [0.6, 0.95, 0.7], 0.3)
    holds, fails = 0.3 * 0.9 * 0.2, 0.7 * 0.4 * 0.95
    np.testing.assert_allclose(expit(log_odds), [holds / (holds + fails)])


@few
@given(st.floats(0.0, 1.0), RATES, RATES, RATES)
def test_a_soft_answer_lies_between_no_and_yes(q: float, se: float, sp: float, p: float) -> None:
    no, yes, soft, undecided = calibrated_log_odds([[0.0], [1.0], [q], [0.5]], [se], [sp], p)
    assert min(no, yes) - 1e-9 <= soft <= max(no, yes) + 1e-9
    assert undecided == pytest.approx(np.log(p / (1.0 - p)), abs=1e-9)


def test_a_soft_answer_is_a_vote_of_which_the_judge_is_not_sure() -> None:
    log_odds = calibrated_log_odds([[0.8]], [0.9], [0.6], 0.3)
    holds, fails = 0.3 * (0.8 * 0.9 + 0.2 * 0.1), 0.7 * (0.8 * 0.4 + 0.2 * 0.6)
    np.testing.assert_allclose(expit(log_odds), [holds / (holds + fails)])


@few
@given(PANELS, RATES)
def test_judges_at_chance_leave_the_prevalence(panel: Array, rate: float) -> None:
    n = panel.shape[1]
    log_odds = calibrated_log_odds(panel, np.full(n, rate), np.full(n, 1.0 - rate), 0.3)
    known = ~np.isnan(log_odds)
    np.testing.assert_allclose(expit(log_odds)[known], 0.3)


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "prevalence", "message"),
    [
        ([0.9], [0.9, 0.9], 0.5, "sensitivity has 1 entries for 2 judges"),
        ([0.9, 1.0], [0.9, 0.9], 0.5, "sensitivity .* strictly"),
        ([0.9, 0.9], [0.0, 0.9], 0.5, "specificity .* strictly"),
        ([0.9, NAN], [0.9, 0.9], 0.5, "sensitivity .* strictly"),
        ([0.9, 0.9], [0.9, 0.9], 1.0, "prevalence"),
        ([0.9, 0.9], [0.9, 0.9], NAN, "prevalence"),
    ],
)
def test_error_rates_that_cannot_be_used(
    sensitivity: Any, specificity: Any, prevalence: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        calibrated_log_odds([[0.5, 0.5]], sensitivity, specificity, prevalence)

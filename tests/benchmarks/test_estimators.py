"""Estimators against closed forms, the functions of runs, and simulations of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from benchmarks._estimators import (
    RatesOf,
    calibration_errors,
    corrected_prevalence,
    effective_judges,
    error_correlations,
    error_phi,
    excess_correlations,
    labelled_rates,
    latent_rates,
    temperatures,
    vote_patterns,
    weights_of,
)
from benchmarks._recovery import error_correlation
from scenewright.agents.panel.aggregation import dawid_skene, expected_calibration_error
from scenewright.agents.panel.calibration import fit_temperature
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

NAN = float("nan")


def table_of(said: ArrayLike, truth: ArrayLike = ()) -> AnswerTable:
    """A fact an image, an image an item."""
    given = np.asarray(said, float)
    n, judges = given.shape
    return AnswerTable(
        name="hand",
        judges=tuple(JudgeColumn(f"j{at}") for at in range(judges)),
        images=tuple(ImageRow(f"i{at}", f"i{at}") for at in range(n)),
        facts=tuple(FactRow("o", at) for at in range(n)),
        said=given,
        truth=np.asarray(truth, float),
    )


def panel(**more: object) -> SimulationSpec:
    """Six judges of two families."""
    judges = [
        SimulatedJudge(
            id=f"{family}{at}",
            family=family,
            sensitivity=0.8 + 0.04 * at,
            specificity=0.85 - 0.04 * at,
        )
        for family in "ab"
        for at in range(3)
    ]
    return SimulationSpec.model_validate({"judges": judges, "n_items": 400, **more})


def ones(table: AnswerTable) -> np.ndarray:
    return np.ones((1, table.n_items))


def test_rates_correlation_and_correction_of_a_table_counted_by_hand() -> None:
    truth = [1, 1, 1, 1, 1, 0, 0, 0, 0, NAN]
    first = [1, 1, 1, 0, NAN, 0, 0, 1, 1, 1]
    second = [1, 0, 1, 0, 1, 0, 0, 0, 1, 0]
    table = table_of(np.stack([first, second], axis=1), truth)
    found = labelled_rates(table, ones(table))
    assert found.sensitivity[0].tolist() == [3 / 4, 3 / 5]
    assert found.specificity[0].tolist() == [2 / 4, 3 / 4]
    # Errors of facts that both answered, that hold: (0001, 0101); that do not: (0011, 0001).
    held = 1 / 4 - (1 / 4) * (2 / 4), (1 / 4) * (3 / 4), (1 / 2) * (1 / 2)
    absent = 1 / 4 - (2 / 4) * (1 / 4), (1 / 2) * (1 / 2), (1 / 4) * (3 / 4)
    phi = (held[0] + absent[0]) / np.sqrt((held[1] + absent[1]) * (held[2] + absent[2]))
    assert error_phi(table, ones(table))[0, 0, 1] == pytest.approx(phi)
    corrected = corrected_prevalence(
        table, ones(table), RatesOf(np.array([[0.9, 0.5]]), np.array([[0.8, 0.6]]))
    )
    # (q + Sp − 1) / (Se + Sp − 1) with q = 6 of 9; the second says too little to be corrected.
    assert corrected[0, 0] == pytest.approx((6 / 9 - 0.2) / 0.7)
    assert np.isnan(corrected[0, 1])


def test_a_row_of_weights_is_the_table_with_its_items_repeated() -> None:
    table = simulate(panel(n_items=25, difficulty=0.2))
    counts = np.random.default_rng(3).integers(0, 4, 25)
    rows = np.concatenate(
        [np.flatnonzero(table.item_of == item) for item in np.repeat(range(25), counts)]
    )
    again = table_of(table.said[rows], table.truth[rows])
    weights = np.stack([np.ones(25), counts])
    for by in (
        lambda t, w: labelled_rates(t, w).sensitivity,
        lambda t, w: labelled_rates(t, w).specificity,
        lambda t, w: latent_rates(t, w).sensitivity,
        lambda t, w: excess_correlations(t, w, latent_rates(t, w)),
        error_correlations,
        error_phi,
        calibration_errors,
    ):
        assert by(table, weights)[1] == pytest.approx(by(again, ones(again))[0], abs=2e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), judges=st.integers(1, 5), missing=st.floats(0.0, 0.6))
def test_latent_rates_are_those_of_dawid_and_skene(seed: int, judges: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random(80) < rng.uniform(0.2, 0.8)
    right = rng.random((80, judges)) < rng.uniform(0.55, 0.95, judges)
    votes = np.where(right, truth[:, None], ~truth[:, None]).astype(float)
    votes[rng.random(votes.shape) < missing] = NAN
    votes[0] = 1.0
    table = table_of(votes)
    wanted = dawid_skene(votes, iterations=500)
    found = latent_rates(table, ones(table))
    assert found.sensitivity[0] == pytest.approx(wanted.sensitivity, abs=1e-5, nan_ok=True)
    assert found.specificity[0] == pytest.approx(wanted.specificity, abs=1e-5, nan_ok=True)
    assert found.prevalence[0] == pytest.approx(wanted.prevalence, abs=1e-5)


def test_rows_of_votes_are_counted_by_item() -> None:
    table = simulate(panel(n_items=12))
    votes = table.votes.copy()
    votes[::3, 0] = votes[::4, 5] = votes[7] = NAN
    votes[8] = 0.0
    table = table.with_said(np.where(np.isnan(votes), NAN, table.said), votes)
    patterns, counts = vote_patterns(table)
    code = {tuple(np.nan_to_num(row, nan=2.0)): at for at, row in enumerate(patterns)}
    assert len(code) == len(patterns)
    wanted = np.zeros_like(counts)
    for row, item in zip(votes, table.item_of, strict=True):
        if not np.isnan(row).all():
            wanted[item, code[tuple(np.nan_to_num(row, nan=2.0))]] += 1
    assert np.array_equal(counts, wanted)


def test_latent_rates_of_a_panel_that_is_mostly_wrong_are_turned_round() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.5
    votes = np.where(rng.random((400, 3)) < 0.15, truth[:, None], ~truth[:, None]).astype(float)
    table = table_of(votes)
    found, wanted = latent_rates(table, ones(table)), dawid_skene(votes)
    assert found.sensitivity[0] == pytest.approx(wanted.sensitivity, abs=1e-5)
    assert found.prevalence[0] == pytest.approx(wanted.prevalence, abs=1e-5)


def test_calibration_is_measured_as_for_runs() -> None:
    spec = panel(n_items=40)
    hot = tuple(judge.model_copy(update={"temperature": 2.0}) for judge in spec.judges)
    table = simulate(spec.model_copy(update={"judges": hot}))
    weights = weights_of(table, 200)
    found, errors = temperatures(table, weights), calibration_errors(table, weights)
    for at in range(6):
        said = table.said[:, at]
        assert found[0, at] == pytest.approx(fit_temperature(said, table.truth))
        assert errors[0, at] == pytest.approx(expected_calibration_error(said, table.truth))
    # One step of Newton's method comes near to the fit of a resample.
    rows = np.repeat(np.arange(len(table.facts)), weights[1][table.item_of].astype(int))
    again = fit_temperature(table.said[rows, 0], table.truth[rows])
    assert found[1, 0] == pytest.approx(again, rel=0.05)
    assert found[1, 0] != found[0, 0]


def test_bare_votes_have_no_temperature() -> None:
    table = table_of([[1.0], [0.0], [1.0]], [1, 0, 0])
    assert np.isnan(temperatures(table, ones(table))).all()
    assert calibration_errors(table, ones(table))[0, 0] == pytest.approx(1 / 3)


def test_effective_number_of_judges() -> None:
    equal = np.full((1, 4, 4), 0.5) + 0.5 * np.eye(4)
    assert effective_judges(equal) == pytest.approx([4 / 2.5])
    assert effective_judges(np.eye(4)[None]) == pytest.approx([4.0])
    assert effective_judges(np.ones((1, 4, 4))) == pytest.approx([1.0])
    # Errors that avoid each other are not more than all judges.
    assert effective_judges(np.where(np.eye(4) == 1.0, 1.0, -0.2)[None]) == pytest.approx([4.0])
    assert effective_judges(np.ones((2, 1, 1))).tolist() == [1.0, 1.0]


def test_effective_number_is_that_of_the_variance_of_the_mean() -> None:
    spec = SimulationSpec(
        judges=tuple(
            SimulatedJudge(id=f"j{at}", family="f", correlation=0.5, sensitivity=0.7)
            for at in range(5)
        ),
        models=(SimulatedModel(id="", prevalence=0.99),),
        n_items=4000,
        objects=1,
        attributes=0,
        relations=0,
    )
    table = simulate(spec)
    wrong = (table.votes == 0.0)[table.truth == 1.0]
    single = wrong.var(axis=0).mean()
    kept = table.of_images(np.flatnonzero(table.truth == 1.0))
    found = effective_judges(error_phi(kept, ones(kept)))[0]
    assert found == pytest.approx(single / wrong.mean(1).var(), rel=0.02)


def test_error_correlations_come_back_within_their_standard_errors() -> None:
    spec = panel(n_items=600, difficulty=0.15)
    spec = spec.model_copy(
        update={"judges": tuple(j.model_copy(update={"correlation": 0.5}) for j in spec.judges)}
    )
    table = simulate(spec)
    drawn = error_correlations(table, weights_of(table, 200))
    off = np.abs(drawn[0] - error_correlation(spec))
    pairs = np.triu_indices(6, 1)
    assert (off[pairs] < 4.0 * drawn[1:].std(0)[pairs]).all()
    assert (drawn[:, range(6), range(6)] == 1.0).all()
    assert drawn == pytest.approx(np.swapaxes(drawn, 1, 2), nan_ok=True)


def test_without_labels_independent_judges_show_no_correlation_and_families_show_some() -> None:
    plain = panel(n_items=800)
    table = simulate(plain)
    latent = latent_rates(table, weights_of(table, 100))
    drawn = excess_correlations(table, weights_of(table, 100), latent)
    pairs = np.triu_indices(6, 1)
    assert (np.abs(drawn[0][pairs]) < 4.0 * drawn[1:].std(0)[pairs] + 0.02).all()
    # Rates are found without labels as well, where nothing is shared.
    rates = np.array([judge.sensitivity for judge in plain.judges])
    assert (np.abs(latent.sensitivity[0] - rates) < 4.0 * latent.sensitivity[1:].std(0)).all()

    shared = tuple(judge.model_copy(update={"correlation": 0.6}) for judge in plain.judges)
    table = simulate(plain.model_copy(update={"judges": shared}))
    found = excess_correlations(table, ones(table), latent_rates(table, ones(table)))[0]
    within = [found[j, k] for j, k in zip(*pairs, strict=True) if j // 3 == k // 3]
    between = [found[j, k] for j, k in zip(*pairs, strict=True) if j // 3 != k // 3]
    assert min(within) > max(between)
    # What is said of it: too small.
    assert np.mean(within) < 0.6


def test_three_judges_tell_no_correlation_without_labels() -> None:
    table = simulate(panel(n_items=100)).with_judges([0, 1, 2])
    found = excess_correlations(table, ones(table), latent_rates(table, ones(table)))[0]
    assert np.isnan(found[np.triu_indices(3, 1)]).all()


def test_a_judge_that_never_errs_has_no_correlation() -> None:
    table = table_of([[1, 1], [1, 0], [0, 0], [0, 1]], [1, 1, 0, 0])
    assert np.isnan(error_correlations(table, ones(table))[0, 0, 1])


def test_nobody_answered() -> None:
    table = table_of(np.full((4, 2), NAN), [1, 0, 1, 0])
    assert np.isnan(labelled_rates(table, ones(table)).sensitivity).all()
    assert np.isnan(latent_rates(table, ones(table)).prevalence).all()
    assert np.isnan(calibration_errors(table, ones(table))).all()

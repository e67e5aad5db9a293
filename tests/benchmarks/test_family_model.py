"""The model of families: its slopes, its limits, and what it finds without labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from benchmarks._estimators import (
    _Model,
    family_rates,
    latent_rates,
    weights_of,
    within_families,
)
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable


def spec(correlation: float, seed: int = 0, families: str = "aaabbb") -> SimulationSpec:
    return SimulationSpec(
        judges=tuple(
            SimulatedJudge(
                id=f"j{at}",
                family=family,
                correlation=correlation,
                sensitivity=0.8 + 0.03 * at,
                specificity=0.85 - 0.03 * at,
                unscored=0.05,
            )
            for at, family in enumerate(families)
        ),
        models=(SimulatedModel(id="x", prevalence=0.6), SimulatedModel(id="y", prevalence=0.9)),
        n_items=300,
        seed=seed,
    )


def ones(table: AnswerTable) -> np.ndarray:
    return np.ones((1, table.n_items))


def test_slopes_are_those_of_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 3, (40, 5)).astype(float)
    model = _Model(patterns, [[0, 2, 3], [1], [4]])
    counts = rng.random(40)
    at = np.array([*rng.normal(-0.8, 0.4, 10), 0.3, 0.6])
    numeric = approx_fprime(at, lambda x: model.loss(x, counts)[0], 1e-6)
    assert model.loss(at, counts)[1] == pytest.approx(numeric, abs=1e-5)


def test_rows_of_votes_have_probabilities_that_sum_to_one() -> None:
    every = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    model = _Model(every, [[0, 1], [2, 3]])
    at = np.array([-1.0, -0.5, 0.2, -1.5, -0.7, -0.9, -1.1, 0.1, 0.4, 0.8])
    value, scores = model._each(at)
    assert np.exp(value).sum() == pytest.approx(1.0)
    # So slopes are 0 on average.
    assert np.exp(value) @ scores == pytest.approx(np.zeros(10), abs=1e-9)


@pytest.mark.parametrize("correlation", [0.3, 0.7])
def test_rates_and_correlation_come_back_without_labels(correlation: float) -> None:
    made = spec(correlation)
    table = simulate(made)
    found = family_rates(table, weights_of(table, 200))
    for drawn, truth in (
        (found.sensitivity, [judge.sensitivity for judge in made.judges]),
        (found.specificity, [judge.specificity for judge in made.judges]),
        (found.correlation[:, None], [correlation]),
    ):
        assert (np.abs(drawn[0] - truth) < 4.0 * drawn[1:].std(0)).all()
        assert (drawn[1:].std(0) < 0.05).all()
    # Dawid and Skene take what a family shares for accuracy.
    naive = latent_rates(table, ones(table))
    put_in = np.array([judge.sensitivity for judge in made.judges])
    assert (naive.sensitivity[0] - put_in).mean() > 2.0 * (found.sensitivity[0] - put_in).mean()


def test_intervals_are_as_wide_as_estimates_are_spread() -> None:
    tables = [simulate(spec(0.5, seed)) for seed in range(16)]
    drawn = [family_rates(table, weights_of(table, 100)).correlation for table in tables]
    told = np.mean([each[1:].std() for each in drawn])
    seen = np.std([each[0] for each in drawn], ddof=1)
    # The standard deviation of 16 is known to about 18 %.
    assert told == pytest.approx(seen, rel=0.5)


def test_independent_judges_are_those_of_dawid_and_skene() -> None:
    table = simulate(spec(0.0))
    found, naive = family_rates(table, ones(table)), latent_rates(table, ones(table))
    assert found.correlation[0] < 0.1
    assert found.sensitivity[0] == pytest.approx(naive.sensitivity[0], abs=0.015)
    assert found.prevalence[0] == pytest.approx(naive.prevalence[0], abs=0.015)


@pytest.mark.parametrize("families", ["aab", "abcd", "aaa"])
def test_too_few_judges_or_no_family_tell_nothing(families: str) -> None:
    table = simulate(spec(0.3, families=families))
    found = family_rates(table, weights_of(table, 20))
    assert np.isnan(found.sensitivity).all()
    assert np.isnan(found.correlation).all()
    pairs = within_families(table, found.correlation)[:, *np.triu_indices(len(families), 1)]
    assert np.isnan(pairs).all()


def test_correlation_stands_within_families_only() -> None:
    table = simulate(spec(0.3, families="aabc"))
    found = within_families(table, np.array([0.4]))[0]
    assert found.tolist() == [[1, 0.4, 0, 0], [0.4, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_a_judge_that_never_answers_has_no_rates() -> None:
    table = simulate(spec(0.4, families="aabbc"))
    said = table.said.copy()
    said[:, 4] = np.nan
    found = family_rates(table.with_said(said), ones(table))
    assert np.isnan(found.sensitivity[0, 4])
    assert not np.isnan(found.sensitivity[0, :4]).any()

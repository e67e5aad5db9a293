"""Whether estimators find what is put into a simulated table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._estimators import (
    calibration_errors,
    effective_judges,
    error_phi,
)
from benchmarks._recovery import ESTIMATORS, Recovered, recovered, recovery, truths_of
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)

SPEC = SimulationSpec(
    judges=(
        SimulatedJudge(id="a", family="f", correlation=0.5, sensitivity=0.9, temperature=2.0),
        SimulatedJudge(id="b", family="f", correlation=0.5, specificity=0.6, unscored=0.1),
        SimulatedJudge(id="c", votes_only=True, usd=0.01, seconds=1.0, tokens=200.0),
        SimulatedJudge(id="d", sensitivity=0.7, specificity=0.9),
    ),
    models=(SimulatedModel(id="x", prevalence=0.6), SimulatedModel(id="y", prevalence=0.9)),
    n_items=400,
    difficulty=0.1,
)


def test_truths_are_what_a_large_table_shows() -> None:
    spec = SPEC.model_copy(update={"n_items": 6000})
    table = simulate(spec)
    truths = truths_of(spec)
    ones = np.ones((1, table.n_items))
    assert truths["ece"] == pytest.approx(calibration_errors(table, ones)[0], abs=0.006)
    assert truths["prevalence"] == pytest.approx(np.full(4, table.truth.mean()), abs=0.01)
    effective = effective_judges(error_phi(table, ones))
    assert truths["effective"] == pytest.approx(effective, abs=0.03)
    # Bare votes have no temperature.
    assert truths["temperature"][:2].tolist() == [2.0, 1.0]
    assert np.isnan(truths["temperature"][2])


@pytest.mark.slow
def test_labelled_estimators_are_unbiased_and_their_intervals_hold() -> None:
    specs = [SPEC.model_copy(update={"seed": seed, "n_items": 120}) for seed in range(24)]
    rows = recovered(specs, resamples=100)
    for name in ("sensitivity.labelled", "specificity.labelled", "correlation.labelled"):
        mine = [row for row in rows if row.estimator == name]
        found = recovery(mine)
        assert found is not None
        by_table = np.array(
            [[row.estimate - row.truth for row in mine if row.simulation == at] for at in range(24)]
        )
        standard_error = by_table.mean(1).std(ddof=1) / np.sqrt(24)
        assert abs(found.bias.value or 1.0) < 4.0 * standard_error
        # Percentiles of few resamples hold a little less than 95 %.
        each = np.array([[row.covered for row in mine if row.simulation == at] for at in range(24)])
        spread = each.mean(1).std(ddof=1) / np.sqrt(24)
        assert found.coverage.value == pytest.approx(0.95, abs=4.0 * spread + 0.01)
    assert {row.estimator for row in rows} == set(ESTIMATORS)


def test_recovery_of_errors_counted_by_hand() -> None:
    def row(simulation: int, estimate: float, low: float, high: float) -> Recovered:
        return Recovered(simulation, "sensitivity.labelled", "a", 0.5, estimate, low, high, 0.0)

    nan = float("nan")
    rows = [
        row(0, 0.6, 0.4, 0.8),
        row(0, 0.4, 0.35, 0.45),
        row(1, 0.8, 0.5, 0.9),
        row(2, nan, nan, nan),
    ]
    found = recovery(rows)
    assert found is not None
    assert found.bias.value == pytest.approx(0.1)
    assert found.rmse.value == pytest.approx(np.sqrt((0.01 + 0.01 + 0.09) / 3))
    assert found.coverage.value == pytest.approx(2 / 3)
    assert found.width.value == pytest.approx((0.4 + 0.1 + 0.4) / 3)
    assert found.undefined == 0.25
    nothing = recovery(rows[3:])
    assert nothing is not None
    assert nothing.rmse.value is None
    assert nothing.undefined == 1.0
    assert recovery([]) is None

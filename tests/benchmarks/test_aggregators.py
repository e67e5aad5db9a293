"""The benchmark of aggregators: what it makes of tables, without asking anybody."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.aggregators import (
    ACCURACY,
    BASE,
    OF_RUN,
    of_run,
    of_truth,
    pooled,
    remarks,
    simulated_tables,
    truth_figures,
    without_ratings,
)
from scenewright.evals.studies.panel.resampling import Drawn


def test_pooling_is_the_mean_of_values_and_of_resamples() -> None:
    tables = [
        {"mean": {ACCURACY.key: Drawn(value, np.array([value, value + 0.1]))}}
        for value in (0.5, 0.9)
    ]
    found = pooled(tables, ACCURACY)["mean"][ACCURACY.key]
    assert found.value == pytest.approx(0.7)
    np.testing.assert_allclose(found.resamples, [0.7, 0.8])


def test_figures_of_simulated_panels() -> None:
    tables = {
        name: pair for name, pair in simulated_tables(8).items() if name in ("family", "votes")
    }
    figures = truth_figures("simulated", tables, 20)
    found = {name: of_truth(pair, 20) for name, pair in tables.items()}
    for name in (*without_ratings(), OF_RUN):
        values = [found[table][name][ACCURACY.key].value for table in tables]
        assert figures[f"simulated.{name}"]["mean"] == pytest.approx(np.mean(values))
        assert figures[f"simulated.family.{name}"]["mean"] == pytest.approx(
            values[list(tables).index("family")]
        )
        if name != BASE:
            gain = figures[f"gain.simulated.{name}"]["mean"]
            expected = figures[f"simulated.{name}"]["mean"] - figures[f"simulated.{BASE}"]["mean"]
            assert gain == pytest.approx(expected)
            assert 0.0 <= figures[f"holm.simulated.{name}"] <= 1.0
    said = remarks(figures)
    assert said[0].startswith(
        f"simulated: clearly better than the mean, of {len(without_ratings())}"
    )


def test_a_run_knows_no_prevalence() -> None:
    pair = simulated_tables(8)["independent"]
    found = of_run(pair.test, pair.learn)
    assert found.shape == (len(pair.test.facts),)
    assert ((found > 0.5) == pair.test.truth).mean() > 0.8

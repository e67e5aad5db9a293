"""The benchmark of aggregators: what it makes of tables, without asking anybody."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._harness import DATA
from benchmarks._panel_people import (
    CANDIDATES,
    choices,
    people_figures,
    people_tables,
    release_of,
)
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
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)


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


def test_each_set_is_chosen_for_by_other_releases() -> None:
    assert [release_of(name) for name in ("vie10", "vie_open", "tifa5", "dsg_vq2a")] == [
        "vie", "vie", "tifa", "dsg",
    ]  # fmt: skip
    regrets = {
        name: dict.fromkeys(CANDIDATES, -0.1) | {best: 0.0}
        for name, best in (("vie10", "mix"), ("vie_open", "mix"), ("dsg", "agreement"))
    }
    assert choices(regrets) == {"vie10": "agreement", "vie_open": "agreement", "dsg": "mix"}


def test_figures_of_rated_panels() -> None:
    tables = {
        name: simulate(
            SimulationSpec(
                judges=tuple(
                    SimulatedJudge(id=str(at), sensitivity=0.9, specificity=sp)
                    for at, sp in enumerate((0.9, 0.7, 0.5))
                ),
                n_items=30,
                raters=SimulatedRaters(number=3),
                seed=seed,
            )
        )
        for seed, name in enumerate(("vie10", "tifa5"))
    }
    figures = people_figures(tables, 20)
    for name in tables:
        at = f"people.{name}."
        for base, key in (("mean", "mean"), ("best_single", "best")):
            gap = figures[f"{at}default"]["mean"] - figures[f"{at}{base}"]["mean"]
            assert figures[f"{at}default_minus_{key}"]["mean"] == pytest.approx(gap)
        gains = [
            figures[f"{at}{key}_minus_mean"]["mean"]
            for key in CANDIDATES
            if key not in ("mean", "agreement")
        ]
        gains += [figures[f"{at}default_minus_mean"]["mean"], 0.0]
        chosen = figures[f"{at}chosen_minus_mean"]
        assert (chosen["mean"] if isinstance(chosen, dict) else chosen) in gains


@pytest.mark.skipif(not (DATA / "panels").is_dir(), reason="no rated panels beside the repository")
def test_the_default_is_not_clearly_below_the_mean_where_people_rated() -> None:
    tables = people_tables(DATA / "dsg", DATA / "panels")
    assert {name: len(table.judges) for name, table in tables.items()} == {
        "vie10": 10, "vie_closed": 3, "vie_open": 7, "tifa5": 5,
        "dsg": 3, "dsg_tifa": 3, "dsg_vq2a": 3,
    }  # fmt: skip
    figures = people_figures(tables, 50)
    for name in tables:
        assert figures[f"people.{name}.default_minus_mean"]["high"] > 0.0
    assert figures["people.vie10.default"]["mean"] >= 0.6
    assert figures["people.vie10.default_minus_best"]["low"] >= -0.02

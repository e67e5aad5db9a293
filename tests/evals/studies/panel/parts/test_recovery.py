"""The study ``recovery``: sentences follow from the figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.parts.recovery import PART, RecoveryOptions, result_of, varied
from scenewright.evals.studies.panel.parts.recovery import run as recover
from scenewright.evals.studies.panel.recovering import ESTIMATORS, Recovered, spec_like
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable


def spec(n: int = 5, *, family: str = "f") -> SimulationSpec:
    return SimulationSpec(
        judges=tuple(
            SimulatedJudge(id=f"j{at}", family=family if at < 2 else "", correlation=0.3)
            for at in range(n)
        ),
        n_items=40,
    )


def run(table: AnswerTable, folder: Path, **options: object) -> tuple[PanelStudyResult, list[int]]:
    told: list[int] = []
    context = PanelStudyContext(
        table, None, folder, Settings(), told=lambda done, total: told.append(done)
    )
    given = RecoveryOptions.model_validate({"simulations": 10, "resamples": 60, **options})
    return asyncio.run(recover(context, given)), told


def test_every_estimator_is_in_table_records_and_figures(tmp_path: Path) -> None:
    table = simulate(spec())
    assert not unmet_need(PART, table, None)
    result, told = run(table, tmp_path)
    assert told == list(range(1, 11))
    assert [row.key for row in result.tables[0].rows] == list(ESTIMATORS)
    assert {record["estimator"] for record in result.records["estimates"]} == set(ESTIMATORS)
    for name in ESTIMATORS:
        figure = result.figures[f"rmse.{name}"]
        assert figure["low"] <= figure["mean"] <= figure["high"]
        errors = [
            record["estimate"] - record["truth"]
            for record in result.records["estimates"]
            if record["estimator"] == name and record["estimate"] is not None
        ]
        assert figure["mean"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    again, _ = run(table, tmp_path)
    assert again.figures == result.figures
    assert all(plot().axes for plot in result.plots.values())


def test_a_table_of_votes_without_truth_and_with_three_judges(tmp_path: Path) -> None:
    made = simulate(spec(3))
    table = AnswerTable("votes", made.judges, made.images, made.facts, made.votes)
    result, _ = run(table, tmp_path)
    undefined = {row.key: row.cells[-1].text(3) for row in result.tables[0].rows}
    assert undefined["correlation.unlabelled"].startswith("1.000")
    assert any("fewer than four judges" in note for note in result.notes)
    # Bare votes have no temperature: there is no row of it.
    assert "temperature.labelled" not in undefined
    assert "rmse.temperature.labelled" not in result.figures
    assert all(plot().axes for plot in result.plots.values())


def test_one_judge_is_not_enough(tmp_path: Path) -> None:
    assert "two judges" in unmet_need(PART, simulate(spec(1)), None)


def test_specs_vary_around_the_table() -> None:
    like = spec_like(simulate(spec()))
    made = varied(
        like, RecoveryOptions(simulations=30, most_items=20, most_correlation=0.5), seed=0
    )
    assert len({one.seed for one in made}) == 30
    assert {one.n_items for one in made} == {20}
    shared = [one.judges[0].correlation for one in made]
    assert 0.0 <= min(shared) < 0.1
    assert 0.4 < max(shared) <= 0.5
    assert all(one.difficulty == like.difficulty for one in made)
    still = varied(like, RecoveryOptions(simulations=10, spread=0.0), seed=0)
    assert {one.judges[2].sensitivity for one in still} == {like.judges[2].sensitivity}
    # Without families the whole panel errs together.
    apart = spec_like(simulate(spec(family="")))
    alone = varied(apart, RecoveryOptions(simulations=10), seed=0)
    assert len({one.difficulty for one in alone}) == 10


def sentences(error: float, half: float, spread: float = 0.0) -> str:
    """Findings of estimates that are all off by ``error`` with intervals of ± ``half``."""
    rows = [
        Recovered(at, name, "a", 0.5, value, value - half, value + half, at / 20)
        for name in ESTIMATORS
        for at in range(20)
        for value in [0.5 + error + (spread if at % 2 else -spread)]
    ]
    like = spec()
    return " ".join(result_of(rows, like, RecoveryOptions(simulations=20), 0).findings)


def test_a_direction_is_claimed_only_where_the_interval_shows_it() -> None:
    high, low, none = sentences(0.1, 0.2), sentences(-0.1, 0.2), sentences(0.0, 0.2, spread=0.1)
    assert "0.100 [0.100, 0.100] too high" in high
    assert "too low" not in high
    assert "0.100 [0.100, 0.100] too low" in low
    assert "neither clearly too high nor too low" in none
    assert "No estimator's intervals held the truth clearly less often" in high
    assert "sensitivity, from labels 0.00 [0.00, 0.00]" in sentences(0.1, 0.05)

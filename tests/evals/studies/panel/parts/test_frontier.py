"""The study ``frontier``: quorum, abstention and cascades, and what is said of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.parts.frontier import PART, FrontierOptions
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table

SHARED = Path(__file__).resolve().parents[5].parent / "shared" / "data" / "dsg"


def run(table: AnswerTable, resamples: int = 60, **options: Any) -> PanelStudyResult:
    told: list[tuple[int, int]] = []
    context = PanelStudyContext(
        table=table,
        learn=None,
        folder=Path(),
        settings=Settings(),
        resamples=resamples,
        told=lambda done, total: told.append((done, total)),
    )
    given = FrontierOptions.model_validate({"draws": 2, "unsure": [(0.3, 0.7)], **options})
    found = asyncio.run(PART.run(context, given))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]
    return found


def honest(n_items: int = 60) -> AnswerTable:
    """A cheap judge that is right where it is sure and ½ elsewhere, and a dear one that is always
    right."""
    table = random_table(1, n_items=n_items, n_judges=2, missing=0.0)
    # What belongs to an absent thing is absent.
    table = replace(table, truth=table.voided(table.truth))
    rng = np.random.default_rng(0)
    sure = rng.random(len(table.truth)) < 0.7
    cheap = np.where(sure, np.where(table.truth == 1.0, 0.95, 0.05), 0.5)
    found = table.with_said(np.stack([cheap, table.truth], 1))
    return replace(found, usd=np.tile([0.001, 0.1], (len(table.truth), 1)))


def test_a_cascade_of_an_honest_judge_saves_and_loses_nothing() -> None:
    table = honest()
    found = run(table, aggregators=["mean"])
    assert not unmet_need(PART, table, None)
    saved = found.figures["cascade.usd_saved"]
    assert 0.6 < saved["mean"] < 0.8
    assert found.figures["cascade.gap"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert "saves" in found.findings[0]
    assert "no clear change of balanced accuracy" in found.findings[0]
    cascade = next(
        row
        for row in found.records["cascades"]
        if (row["first"], row["others"]) == ("judge-0", "judge-1")
    )
    assert cascade["quality"] == 1.0
    assert cascade["pareto_usd"]


def test_a_choice_is_measured_on_items_that_it_was_not_made_on() -> None:
    """Judges that guess: the frontier flatters them, the choice does not."""
    table = random_table(2, n_items=40, n_judges=4, missing=0.0)
    rng = np.random.default_rng(1)
    guess = table.with_said(rng.random(table.said.shape))
    found = run(guess, aggregators=["mean"], measure="accuracy", resamples=30)
    best = max(row["quality"] for row in found.records["cascades"] if row["pareto_calls"])
    full = found.figures["full.quality"]["mean"]
    gap = found.figures["cascade.gap"]["mean"]
    assert best > full + gap


def test_abstention_is_better_where_the_panel_is_sure() -> None:
    table = random_table(3, n_items=100, missing=0.0)
    found = run(table, resamples=100)
    panel = {
        row["coverage"]: row
        for row in found.records["coverage"]
        if row["sureness"] == "margin" and row["voter"] == "mean"
    }
    assert panel[0.5]["gain_low"] > 0.0
    assert "its accuracy rises to" in found.findings[2]
    right = (table.said.mean(1) > 0.5) == (table.truth == 1.0)
    assert panel[1.0]["accuracy_value"] == pytest.approx(right.mean())
    rule = next(
        row for row in found.records["rules"] if row["bound"] == 0.3 and row["rule"] == "threshold"
    )
    kept = np.abs(table.said.mean(1) - 0.5) > 0.2
    assert rule["coverage_value"] == pytest.approx(kept.mean())


def test_a_quorum_counts_the_answers_that_are_there() -> None:
    table = random_table(4, n_items=30, missing=0.3)
    found = run(table, missing=[0.0, 0.2])
    answers = (~np.isnan(table.said)).sum(1)
    rows = {(row["missing"], row["quorum"]): row for row in found.records["quorum"]}
    for quorum in (1, 2, 3):
        assert rows[0.0, quorum]["scored_value"] == pytest.approx((answers >= quorum).mean())
        assert rows[0.2, quorum]["scored_value"] < rows[0.0, quorum]["scored_value"]
    assert rows[0.0, 1]["gain_value"] == 0.0
    assert any("quorum of 2 of 3" in line for line in found.findings)


def test_without_truth_there_is_no_curve_and_without_ratings_no_quality() -> None:
    rated = run(random_table(5, truth=False))
    assert "coverage" not in {chart.name for chart in rated.charts}
    assert any("need facts of known truth" in note for note in rated.notes)
    bare = run(random_table(5, truth=False, rated=False))
    assert "nothing here is quality" in " ".join(bare.notes)
    assert "agreement with the full panel" in " ".join(bare.findings)
    assert not any("clear" in line and "quorum" in line for line in bare.findings)


def test_costs_that_are_not_known_are_not_made_up() -> None:
    table = replace(random_table(6), usd=np.zeros((0, 0)), tokens=np.zeros((0, 0)))
    found = run(table)
    assert "cascade.usd_saved" not in found.figures
    assert "usd" not in found.records["cascades"][0]
    with pytest.raises(PanelStudyError, match="does not tell the usd"):
        run(table, cost="usd")


def test_a_limit_of_cascades_is_said() -> None:
    found = run(random_table(7, n_items=8, n_judges=4), most=20)
    assert len(found.records["cascades"]) <= 20
    assert any("walked, not all" in note for note in found.notes)


def test_every_plot_is_drawn_and_the_same_seed_gives_the_same() -> None:
    table = random_table(8, n_items=10)
    found = run(table)
    assert {chart.name for chart in found.charts} == {"cascades", "coverage", "rules", "quorum"}
    for chart in found.charts:
        assert chart.draw().axes
    assert run(table).records == found.records


def test_options_are_checked() -> None:
    for wrong in (
        {"missing": [1.0]},
        {"thresholds": [0.5]},
        {"spreads": []},
        {"unsure": [(0.7, 0.3)]},
        {"draws": 0},
    ):
        with pytest.raises(ValidationError):
            FrontierOptions.model_validate(wrong)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="shared data is not there")
def test_on_the_released_answers_silence_costs_rank_correlation() -> None:
    """Scores of images are made of what judges differ about: leaving that out takes it away."""
    found = run(load_dsg_release(SHARED), resamples=200, aggregators=["mean"])
    rule = next(r for r in found.records["rules"] if r["rule"] == "threshold" and r["bound"] == 0.3)
    assert rule["gain_high"] < 0.0
    assert any("clearly lowers" in line for line in found.findings)

"""The study ``composition``: figures are those of the panels, and sentences follow from them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.parts.composition import PART, CompositionOptions
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table

SHARED = Path(__file__).resolve().parents[5].parent / "shared" / "data" / "dsg"


def run(
    table: AnswerTable, learn: AnswerTable | None = None, resamples: int = 60, **options: Any
) -> PanelStudyResult:
    told: list[tuple[int, int]] = []
    context = PanelStudyContext(
        table=table,
        learn=learn,
        folder=Path(),
        settings=Settings(),
        resamples=resamples,
        told=lambda done, total: told.append((done, total)),
    )
    found = asyncio.run(PART.run(context, CompositionOptions.model_validate(options)))
    assert told[-1][0] == told[-1][1]
    return found


def good_and_bad(n_items: int = 60) -> AnswerTable:
    """A judge that is nearly always right, its near copy, and one that guesses."""
    table = random_table(1, n_items=n_items, missing=0.0)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(table.truth)) < 0.1
    first = np.abs(table.truth - wrong)
    second = np.abs(table.truth - (wrong ^ (rng.random(len(wrong)) < 0.05)))
    said = np.stack([first, second, (rng.random(len(wrong)) < 0.5).astype(float)], 1)
    return table.with_said(said)


def test_figures_are_those_of_the_panels() -> None:
    table = good_and_bad()
    found = run(table)
    assert not unmet_need(PART, table, None)
    right = ((table.said.mean(1) > 0.5) == (table.truth == 1.0)).astype(float)
    balanced = (right[table.truth == 1.0].mean() + right[table.truth == 0.0].mean()) / 2
    assert found.figures["full.mean"]["mean"] == pytest.approx(balanced)
    rows = found.records["panels"]
    assert len({(r["aggregator"], r["judges"]) for r in rows}) == 4 * 7
    singles = [
        r["value"]
        for r in rows
        if r["size"] == 1 and r["measure"] == "balanced_accuracy" and r["aggregator"] == "mean"
    ]
    assert found.figures["size_1.mean"]["mean"] == pytest.approx(np.mean(singles))
    total = sum(found.figures[f"shapley.judge-{at}"]["mean"] for at in range(3))
    assert total == pytest.approx(balanced - 0.5)


def test_findings_name_what_the_intervals_support() -> None:
    found = run(good_and_bad(), resamples=300)
    text = " ".join(found.findings)
    assert "All 3 judges together (agreement) reach a balanced accuracy of" in text
    # The two good judges err together, and are of one family; the third shares nothing.
    assert "clearly more within" in text
    adds = {at: found.figures[f"adds.judge-{at}.agreement"] for at in range(3)}
    assert any("judge-0 alone is clearly better than all 3" in line for line in found.findings)
    for at, figure in adds.items():
        said = f"judge-{at} (" in found.findings[3]
        assert said == (figure["low"] > 0.0 or figure["high"] < 0.0)


def test_a_judge_that_always_says_yes_harms_and_it_is_said() -> None:
    table = random_table(2, n_items=80, missing=0.0, n_judges=2)
    said = np.stack([np.where(table.truth == 1.0, 0.9, 0.2), np.ones(len(table.truth))], 1)
    found = run(table.with_said(said), aggregators=["mean"], resamples=200)
    assert found.figures["adds.judge-1.mean"]["high"] < 0.0
    assert "clearly better without judge-1" in " ".join(found.findings)
    assert "The panel (mean) is worse than the best single judge (judge-0)" in found.findings[0]


def test_without_truth_people_are_asked_and_without_both_it_is_no_quality() -> None:
    table = random_table(3, truth=False)
    found = run(table)
    assert "rank correlation of image scores with people" in found.findings[0]
    assert "calibrated is left out: the table has no truth to learn from." in found.notes
    bare = run(random_table(3, truth=False, rated=False))
    assert "no quality" in bare.findings[0]
    assert "nothing here is quality" in bare.notes[1]
    assert {r["size"] for r in bare.records["reliability"]} == {2, 3}
    assert not any("spared" in line or "as good as" in line for line in bare.findings)


def test_many_judges_are_sampled_and_it_is_said() -> None:
    table = random_table(4, n_items=10, n_judges=6)
    found = run(table, most=30, aggregators=["mean"])
    assert any("30 of 63 panels were measured" in note for note in found.notes)
    assert not any(key.startswith("shapley") for key in found.figures)
    assert found.records["judges"]


def test_a_table_to_learn_from_is_used() -> None:
    table, learn = random_table(5, n_items=30), random_table(6, n_items=30)
    blind = replace(table, truth=np.full(len(table.facts), np.nan))
    found = run(blind, learn)
    assert "full.calibrated" in found.figures
    assert "full.calibrated" not in run(blind).figures


def test_every_plot_is_drawn_and_the_same_seed_gives_the_same() -> None:
    table = random_table(7, n_items=10)
    found = run(table)
    assert {chart.name for chart in found.charts} == {"sizes", "members", "pairs", "cost"}
    for chart in found.charts:
        assert chart.draw().axes
    assert run(table).records == found.records


def test_a_judge_without_answers_is_nobody_and_no_answers_at_all_are_an_error() -> None:
    table = random_table(8, n_items=20, missing=0.0)
    said = table.said.copy()
    said[:, 1] = np.nan
    silent = replace(table, said=said, votes=np.zeros((0, 0)))
    found = run(silent, aggregators=["mean"])
    assert found.figures["adds.judge-1.mean"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert "size_1.mean" in found.figures
    alone = [r for r in found.records["panels"] if r["judges"] == "judge-1"]
    assert {r["value"] for r in alone} == {None}
    nothing = replace(table, said=np.full(said.shape, np.nan), votes=np.zeros((0, 0)))
    with pytest.raises(PanelStudyError, match="is undefined"):
        run(nothing, aggregators=["mean"])


def test_options_are_checked() -> None:
    for wrong in ({"aggregators": []}, {"most": 0}, {"margin": 0.0}, {"measure": "luck"}):
        with pytest.raises(ValidationError):
            CompositionOptions.model_validate(wrong)


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared data is not there")
def test_on_the_released_answers_the_best_judge_is_needed() -> None:
    found = run(load_dsg_release(SHARED), resamples=200, aggregators=["mean"])
    assert found.figures["adds.pali17b.mean"]["low"] > 0.0
    assert found.figures["gain_2.mean"]["low"] > 0.0
    assert "pali17b" in found.findings[0]

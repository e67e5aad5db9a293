"""The studies ``people`` and ``power``: figures are those of the tables, sentences follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenewright.config.settings import Settings
from scenewright.evals.statistics.ranks import spearman
from scenewright.evals.studies.panel.parts import people, power
from scenewright.evals.studies.panel.power import images_needed
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.study import (
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    unmet_need,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table


def run(part: PanelStudy, table: AnswerTable, **options: Any) -> PanelStudyResult:
    told: list[tuple[int, int]] = []
    context = PanelStudyContext(
        table=table,
        learn=None,
        folder=Path(),
        settings=Settings(),
        resamples=60,
        told=lambda done, total: told.append((done, total)),
    )

    async def go() -> PanelStudyResult:
        return await part.run(context, part.options.model_validate(options))

    found = asyncio.run(go())
    assert told[-1][0] == told[-1][1]
    return found


def rated_table(n_items: int = 60) -> AnswerTable:
    """A good judge and two poor ones, three models, four raters of little noise."""
    judges = (
        SimulatedJudge(id="good", sensitivity=0.97, specificity=0.97),
        SimulatedJudge(id="poor", sensitivity=0.7, specificity=0.6),
        SimulatedJudge(id="poorer", sensitivity=0.65, specificity=0.6),
    )
    models = tuple(
        SimulatedModel(id=name, prevalence=p) for name, p in (("a", 0.9), ("b", 0.7), ("c", 0.5))
    )
    return simulate(
        SimulationSpec(
            judges=judges,
            models=models,
            n_items=n_items,
            raters=SimulatedRaters(number=4, noise=0.3),
        )
    )


def test_agreement_with_people_is_that_of_the_scores() -> None:
    table = rated_table()
    found = run(people.PART, table, splits=5)
    for at, judge in enumerate(table.judge_ids):
        scores = table.image_scores(table.said[:, at])
        expected = spearman(scores, table.ratings)
        assert found.figures[f"spearman.{judge}"]["mean"] == pytest.approx(expected)
    assert found.figures["spearman.good"]["mean"] > found.figures["spearman.poor"]["mean"]
    assert found.findings[0].startswith(
        "No difference between the panel (agreement) and the best single judge (good) in Spearman "
        "with people: "
    )
    assert "pairs of images of one prompt, ties included" in found.findings[1]
    assert {frame.name for frame in found.tables} == {
        *("people", "rater_ceilings", "by_model", "models")
    }
    order = next(f for f in found.findings if "pairs of models" in f)
    assert "100 % [100, 100] of the 3 pairs" in order
    assert "clearly prefers the same in 3 and the other in 0" in order
    models = next(frame for frame in found.tables if frame.name == "models")
    assert [row["model"] for row in models.rows[:3]] == ["a", "b", "c"]
    for chart in found.charts:
        assert chart.draw().axes


def test_one_rating_an_image_gives_no_ceiling_and_says_why() -> None:
    table = rated_table(20)
    single = replace(
        table, images=tuple(replace(image, ratings=image.ratings[:1]) for image in table.images)
    )
    found = run(people.PART, single, splits=5, aggregators=("mean", "calibrated"))
    assert "rater_ceilings" not in {frame.name for frame in found.tables}
    assert any("one rating an image" in note for note in found.notes)
    row = next(r for r in found.records["agreement"] if r["figure"] == "share_of_ceiling")
    assert row["value"] is None
    assert "human ratings" in unmet_need(people.PART, random_table(0, rated=False), None)


def test_aggregators_without_truth_are_left_out_of_agreement() -> None:
    table = replace(rated_table(20), truth=np.zeros(0))
    found = run(people.PART, table, splits=5, aggregators=("mean", "calibrated"))
    assert "spearman.calibrated" not in found.figures
    assert any(note.startswith("Left out: calibrated") for note in found.notes)


def test_the_images_of_the_table_are_those_of_the_formula() -> None:
    table = rated_table()
    found = run(power.PART, table, effects=(0.05, 0.2), judges=(1, 2, 5), simulations=300)
    rows = {(r["effect"], r["judges"]): r for r in found.records["images_needed"]
            if r["power"] == 0.8}  # fmt: skip
    parts = {r["component"]: r["value"] for r in found.records["variance"]}
    own = (parts["judge_item"] + parts["judge_fact"] / 8) / 2
    slope = np.mean([parts[f"slope:{judge}"] for judge in table.judge_ids])
    variance = parts["item"] + parts["fact"] / 8 + own
    assert rows[0.05, 2]["value"] == images_needed(0.05, variance, slope=float(slope))
    assert rows[0.2, 1]["value"] < rows[0.05, 1]["value"]
    assert rows[0.05, 5]["value"] < rows[0.05, 1]["value"]
    assert rows[0.05, 1]["low"] < rows[0.05, 1]["value"] < rows[0.05, 1]["high"]
    assert found.figures["images.5_points.2_judges"]["mean"] == rows[0.05, 2]["value"]
    assert f"{rows[0.05, 1]['value']:.0f}" in found.findings[0]
    # Each of the three models differs by 20 points or so from the next: they are told apart.
    assert "3 of 3" in found.findings[-1]
    compared = {(r["first"], r["second"]): r for r in found.records["models_compared"]}
    a_b = compared["a", "b"]
    shares = {m: np.mean([t for t, f in zip(table.truth, table.facts, strict=True)
                          if table.images[f.image].model == m]) for m in "ab"}  # fmt: skip
    assert a_b["truth"] == pytest.approx(shares["a"] - shares["b"])
    assert all(s["judges"] <= 3 for s in found.records["power_simulated"])
    assert any("extrapolated" in note for note in found.notes)
    for chart in found.charts:
        assert chart.draw().axes


def test_without_pairs_images_are_compared_unpaired() -> None:
    table = rated_table(40)
    first = [at for at, image in enumerate(table.images) if image.model == "a"]
    found = run(power.PART, table.of_images(first), effects=(0.1,), judges=(1,), simulations=200)
    assert "different prompts" in found.findings[0]
    assert "models_compared" not in found.records
    assert [row for row in found.records["several_models"] if row["holm_power"] is None]
    simulated = found.records["power_simulated"]
    assert simulated
    for row in simulated:
        # Wilson (1927): where the distance to the share seen is 1.96 standard errors of the limit.
        seen, n = row["value"], row["studies"]
        for limit in (row["low"], row["high"]):
            error = (limit * (1 - limit) / n) ** 0.5
            assert abs(seen - limit) == pytest.approx(1.959964 * error, abs=1e-6)


def test_a_slope_can_be_set_and_is_estimated_without_truth() -> None:
    table = rated_table(30)
    fixed = run(power.PART, table, effects=(0.1,), judges=(1,), slope=0.5, simulations=200)
    assert fixed.figures["slope"] == {"mean": 0.5, "low": None, "high": None}
    blind = replace(table, truth=np.zeros(0))
    found = run(power.PART, blind, effects=(0.1,), judges=(1,), simulations=200)
    assert any("Dawid–Skene" in note for note in found.notes)


def test_power_says_what_it_cannot_do() -> None:
    table = rated_table(20)
    with pytest.raises(PanelStudyError, match="give shares above 0"):
        run(power.PART, table, effects=(2.0,))
    with pytest.raises(PanelStudyError, match="no two items"):
        run(power.PART, table.of_images([0]))
    with pytest.raises(PanelStudyError, match="no number of images is enough"):
        run(power.PART, table.with_said(1.0 - table.said))
    assert unmet_need(power.PART, table, None) == ""

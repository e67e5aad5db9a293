"""The study of circularity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.parts.circularity import PART, CircularityOptions
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

QUICK = CircularityOptions(simulated_items=30, candidates=3, correlations=(0.0,))


def drawn(models: int = 4, items: int = 150, raters: bool = False) -> AnswerTable:
    """Three judges of unlike sharpness that err independently."""
    rates = {"a": (0.9, 0.8), "b": (0.75, 0.75), "c": (0.85, 0.6)}
    return simulate(
        SimulationSpec(
            judges=tuple(
                SimulatedJudge(id=name, sensitivity=se, specificity=sp)
                for name, (se, sp) in rates.items()
            ),
            models=tuple(SimulatedModel(id=f"m{at}", prevalence=0.6) for at in range(models)),
            n_items=items,
            dependent=False,
            image_spread=0.2,
            raters=SimulatedRaters() if raters else None,
            seed=3,
        )
    )


def in_rounds(table: AnswerTable) -> AnswerTable:
    """Its models as rounds of one loop."""
    images = tuple(
        replace(image, model="loop", round=int(image.model[1:])) for image in table.images
    )
    return replace(table, images=images)


def context(table: AnswerTable, folder: Path, loop: tuple[str, ...] = ()) -> PanelStudyContext:
    return PanelStudyContext(table, None, folder, Settings(), resamples=300, loop_judges=loop)


def inside(result: PanelStudyResult, key: str, value: float) -> bool:
    found = result.figures[key]
    return bool(found["low"] <= value <= found["high"])


async def test_independent_judges_see_the_true_gain(tmp_path: Path) -> None:
    result = await PART.run(context(drawn(), tmp_path), QUICK)
    every = {key: result.figures[f"circularity.pick.all.{key}"]["mean"] for key in
             ("own", "others", "true", "gap", "confirmed", "true_share")}  # fmt: skip
    assert every["own"] > 1.5 * every["true"]
    assert every["gap"] == pytest.approx(every["own"] - every["others"])
    # On the scale of the truth what others see is the truth plus noise of mean 0.
    assert inside(result, "circularity.pick.all.others", every["true"])
    assert every["confirmed"] == pytest.approx(every["others"] / every["own"])
    # The sharpest judge's gain is the most real.
    shares = {name: result.figures[f"circularity.pick.{name}.true_share"]["mean"] for name in "abc"}
    assert max(shares, key=lambda name: shares[name]) == "a"
    assert "the gap is above 0" in result.findings[0]
    assert all(chart.draw().axes for chart in result.charts)


async def test_a_loop_against_held_out_judges(tmp_path: Path) -> None:
    table = in_rounds(drawn())
    result = await PART.run(context(table, tmp_path, ("a",)), QUICK)
    rows = [r for r in result.records["circularity_rounds"] if r["reporter"] == "held-out judges"]
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["gain"] == rows[0]["gap"] == 0.0
    gains = [row["gain"] for row in rows]
    assert gains == sorted(gains)
    assert rows[-1]["gap_low"] > 0.0
    true = result.figures["circularity.loop.truth.reported"]["mean"]
    assert inside(result, "circularity.loop.held-out judges.reported", true)
    assert {"b", "c", "truth", "held-out judges"} == {
        row["reporter"] for row in result.records["circularity_rounds"]
    }
    assert result.findings[0].startswith("From round 0 to round 3 of 150 loops")
    assert "circularity_rounds" in {chart.name for chart in result.charts}


async def test_without_named_loop_judges_it_says_how_to_study_loops(tmp_path: Path) -> None:
    table = in_rounds(drawn(items=20))
    for loop in ((), ("a", "b", "c")):
        result = await PART.run(context(table, tmp_path, loop), QUICK)
        assert "circularity_rounds" not in result.records
        assert any("loop_judges" in note for note in result.notes)


async def test_without_truth_gains_are_on_the_judges_scales(tmp_path: Path) -> None:
    table = drawn(items=60, raters=True)
    table = replace(table, truth=np.full(len(table.facts), np.nan))
    result = await PART.run(context(table, tmp_path), QUICK)
    assert any("own scale" in note for note in result.notes)
    assert "circularity.pick.all.true" not in result.figures
    assert result.figures["circularity.pick.all.rated"]["low"] > 0.0
    assert any("People rate such picks" in finding for finding in result.findings)


async def test_one_picture_a_prompt_leaves_the_simulation(tmp_path: Path) -> None:
    result = await PART.run(context(drawn(models=1, items=40), tmp_path), QUICK)
    assert set(result.records) == {"circularity_best_of"}
    assert any("nothing to pick from" in note for note in result.notes)
    assert {chart.name for chart in result.charts} == {"circularity_best_of"}
    assert all(chart.draw().axes for chart in result.charts)


async def test_a_wrong_correlation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PanelStudyError, match="correlation is 1"):
        await PART.run(context(drawn(items=5), tmp_path), CircularityOptions(correlations=(1.0,)))


def test_it_needs_two_judges() -> None:
    table = drawn(items=5)
    assert not unmet_need(PART, table, None)
    assert "two judges" in unmet_need(PART, table.with_judges([0]), None)

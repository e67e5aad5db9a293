"""The study of aggregators: what it finds, and that it says no more than its intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.parts.aggregators import PART, AggregatorOptions
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult
from scenewright.evals.studies.panel.table import AnswerTable

SPEC = SimulationSpec(
    judges=(
        SimulatedJudge(id="good", sensitivity=0.95, specificity=0.95),
        SimulatedJudge(id="eager", sensitivity=0.98, specificity=0.3, votes_only=True),
        SimulatedJudge(id="easy", sensitivity=0.98, specificity=0.3, votes_only=True),
    ),
    n_items=40,
    models=(SimulatedModel(id="one", prevalence=0.5), SimulatedModel(id="two")),
    raters=SimulatedRaters(number=3, noise=0.4),
)
TABLE = simulate(SPEC)


async def study(
    table: AnswerTable, folder: Path, learn: AnswerTable | None = None, **options: object
) -> PanelStudyResult:
    """The study with 200 resamples."""
    told: list[tuple[int, int]] = []
    context = PanelStudyContext(
        table, learn, folder, Settings(), resamples=200,
        told=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    found = await PART.run(context, AggregatorOptions.model_validate(options))
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)
    return found


async def test_what_learns_from_truth_is_found_to_be_better(tmp_path: Path) -> None:
    names = ("mean", "majority", "calibrated", "stacked", "rated")
    found = await study(TABLE, tmp_path, names=names, noise=("yes_sayer",))
    first = found.findings[0]
    assert "Balanced accuracy: mean reaches" in first
    assert "Clearly better than mean: " in first
    assert "stacked (+" in first
    assert "Corrected for the 3 that were tried (Holm)" in first
    assert any("Where the last judge always says yes, mean reaches" in s for s in found.findings)
    assert any(sentence.startswith("Spearman with ratings") for sentence in found.findings)
    rows = found.records["aggregators"]
    kept = {(r["noise"], r["aggregator"], r["measure"]): r for r in rows}
    assert len(kept) == len(rows) == 2 * 5 * 10
    better = kept["clean", "stacked", "balanced_accuracy"]
    assert better["verdict"] == "better"
    assert better["gain_low"] > 0.0
    base = kept["clean", "mean", "balanced_accuracy"]["value"]
    assert better["gain"] == pytest.approx(better["value"] - base)
    less = kept["clean", "stacked", "brier"]
    assert less["less_is_better"]
    assert less["gain"] == pytest.approx(kept["clean", "mean", "brier"]["value"] - less["value"])
    assert found.figures["clean.balanced_accuracy.stacked"]["mean"] == better["value"]
    assert len(found.tables) == 4
    assert all(table.markdown() for table in found.tables)
    for chart in found.charts:
        chart.draw().savefig(tmp_path / "plot.svg")
    assert any("by cross-validation over items in 10 folds" in note for note in found.notes)


async def test_what_cannot_be_used_is_named_with_its_reason(tmp_path: Path) -> None:
    untold = replace(TABLE, truth=np.full(len(TABLE.facts), np.nan))
    found = await study(untold, tmp_path, names=("median", "stacked"))
    assert {row["aggregator"] for row in found.records["aggregators"]} == {"mean", "median"}
    assert any("Left out: stacked learns from facts whose truth is known" in n for n in found.notes)


async def test_where_nothing_is_better_nothing_is_said_to_be(tmp_path: Path) -> None:
    alike = TABLE.with_said(np.repeat(TABLE.said[:, :1], 3, axis=1))
    found = await study(alike, tmp_path, names=("median", "trimmed"))
    assert "No other way comes out differently from mean." in found.findings[0]
    assert "not distinguishable from mean: median, trimmed" in found.findings[1]


async def test_another_table_teaches(tmp_path: Path) -> None:
    learn = replace(simulate(SPEC.model_copy(update={"seed": 3})), name="other")
    found = await study(TABLE, tmp_path, learn, names=("stacked",))
    assert any("learnt from other where that has them" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"names": ("best",)}, "unknown aggregator 'best'"),
        ({"base": "best"}, "unknown aggregator 'best'"),
        ({"names": ("mean", "glad")}, "use .dawid_skene."),
        ({"noise": ("clean",)}, "unknown noise model 'clean': use some of missing"),
        ({"folds": 1}, "greater than or equal to 2"),
    ],
)
def test_bad_options_say_what_is_allowed(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        AggregatorOptions.model_validate(options)

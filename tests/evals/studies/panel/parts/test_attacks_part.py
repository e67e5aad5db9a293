"""The study ``attacks``: its tables, figures and sentences follow from what was measured."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from scenewright.config.settings import Settings
from scenewright.evals.studies.panel.attacks import Attack, breakdown_points
from scenewright.evals.studies.panel.parts.attacks import PART, AttackOptions
from scenewright.evals.studies.panel.study import PanelStudyContext, PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table

FAST: dict[str, Any] = {
    "attacks": ("yes", "copies"),
    "aggregators": ("mean",),
    "judges": 4,
    "repeats": 1,
    "shifts": (0.3,),
    "streams": 50,
}


def run(
    table: AnswerTable, learn: AnswerTable | None = None, **options: Any
) -> tuple[PanelStudyResult, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    context = PanelStudyContext(
        table=table,
        learn=learn,
        folder=Path(),
        settings=Settings(),
        resamples=40,
        told=lambda done, total: told.append((done, total)),
    )
    chosen = AttackOptions.model_validate({**FAST, **options})

    async def go() -> PanelStudyResult:
        return await PART.run(context, chosen)

    return asyncio.run(go()), told


def test_the_page_shows_what_was_measured() -> None:
    table = random_table(0, n_items=25, missing=0.0)
    names = ("mean", "dawid_skene", "calibrated")
    found, told = run(table, aggregators=names)
    assert not unmet_need(PART, table, None)
    assert told[-1][0] == told[-1][1]
    expected = breakdown_points(table, names, Attack(kind="yes"), judges=4, repeats=1, resamples=40)
    for name in names:
        share = expected[name].share
        assert share is not None
        assert found.figures[f"breakdown.yes.{name}"]["mean"] == share
        assert f"{name} at {100 * share:.0f} %" in found.findings[0]
    assert not [key for key in found.figures if key.startswith("breakdown.copies")]
    assert "no aggregator loses half of its worth" in found.findings[1]
    tables = {frame.name: frame for frame in found.tables}
    assert set(tables) == {"breakdown", "attacked_third", "attacked_one", "missing", "slow",
                           "updates"}  # fmt: skip
    assert "not broken" in tables["breakdown"].markdown()
    curves = found.records["attack_curves"]
    assert len(curves) == 3 * 2 * (5 + 4)
    honest = next(r for r in curves if r["aggregator"] == "mean" and r["bad"] == 0)
    assert honest["quality"] == expected["mean"].curve[0].value
    assert {chart.name for chart in found.charts} == {"attacks", "slow_judges", "updates"}
    for chart in found.charts:
        assert chart.draw().axes


def test_missing_answers_are_told_and_never_a_no() -> None:
    table = random_table(0, n_items=25, missing=0.0)
    found, _ = run(table, missing=(1.0,))
    row = next(
        r for r in found.records["missing_answers"]
        if r["missing"].startswith("100 %") and r["aggregator"] == "mean"
    )  # fmt: skip
    assert row["scored"] == 0.0
    assert row["quality"] is None


def test_measured_seconds_are_used_and_modelled_ones_are_called_so() -> None:
    table = random_table(0, n_items=25, missing=0.0)
    timed, _ = run(table, limits=(1.0,))
    assert "measured times" in timed.findings[-1]
    limits = [r["limit"] for r in timed.records["slow_judges"]]
    assert set(limits) == {1.0, None}
    bare, _ = run(replace(table, seconds=np.zeros((0, 0))))
    assert "modelled times" in bare.findings[-1]
    assert any("log-normal" in note for note in bare.notes)


def test_a_changed_fingerprint_comes_first() -> None:
    table = random_table(0, n_items=25, missing=0.0)
    first, *rest = table.judges
    old = replace(table, judges=(replace(first, fingerprint="old"), *rest))
    new = replace(table, judges=(replace(first, fingerprint="new"), *rest))
    found, _ = run(new, learn=old)
    assert found.findings[0].startswith("judge-0 changed the fingerprint")
    same, _ = run(new, learn=new)
    assert not any("changed the fingerprint since" in finding for finding in same.findings)


def test_few_images_are_attacked_all_the_same() -> None:
    found, _ = run(random_table(0, n_items=6, missing=0.0))
    assert "updates" not in {chart.name for chart in found.charts}
    assert any("Updates were not watched for" in note for note in found.notes)


def test_people_take_the_place_of_truth() -> None:
    table = random_table(0, n_items=25, missing=0.0, truth=False)
    found, _ = run(table, aggregators=("mean", "calibrated"))
    assert any("Spearman with people" in note for note in found.notes)
    assert any("Left out" in note and "calibrated" in note for note in found.notes)


def test_what_cannot_be_done_is_said() -> None:
    table = random_table(0, n_items=6)
    with pytest.raises(PanelStudyError, match="use shares from 0 to 1"):
        run(table, shifts=(2.0,))
    with pytest.raises(PanelStudyError, match="neither facts of known truth"):
        run(random_table(0, truth=False, rated=False))
    with pytest.raises(PanelStudyError, match="add mean or dawid_skene"):
        run(random_table(0, truth=False), aggregators=("calibrated",))
    with pytest.raises(ValidationError):
        AttackOptions.model_validate({"attacks": ("bribes",)})
    assert "two judges" in unmet_need(PART, table.with_judges([0]), None)

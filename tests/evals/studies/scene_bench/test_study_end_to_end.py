"""Studies on the miniature itself: pictures are drawn, judged, and drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.store.results import Results
from scenewright.evals.studies.registry import studies_named
from scenewright.evals.studies.running import WORK, run_studies
from scenewright.evals.studies.study import Setup


@pytest.mark.slow
async def test_two_scenes_of_the_miniature(tmp_path: Path) -> None:
    setup = Setup(n=2, seeds=(0,), steps=2, metrics_of_sets=False)
    done = await run_studies(studies_named("feedback", "judges"), setup, tmp_path)
    assert {one.study.name for one in done} == {"feedback", "judges"}
    for one in done:
        for file in one.files:
            assert file.stat().st_size > 0
        for row in one.outcome.tables[0].rows:
            value = (row.cells[0].measured or row.cells[1].measured).value  # type: ignore[union-attr]
            assert value is not None
            assert 0.0 <= value <= 100.0
    scenes = tmp_path / WORK / "scenes"
    results = Results(scenes)
    # The largest evaluation's tables stay.
    assert set(results.table("rounds", ["condition"])["condition"].to_pylist()) == {
        "triplets",
        "composition",
        "feedback",
    }
    before = {file: file.stat().st_mtime_ns for file in (scenes / "images").rglob("*.png")}
    assert before
    again = await run_studies(studies_named("feedback"), setup, tmp_path)
    after = {file: file.stat().st_mtime_ns for file in (scenes / "images").rglob("*.png")}
    assert after == before
    first = next(one for one in done if one.study.name == "feedback")
    assert again[0].outcome.tables == first.outcome.tables


@pytest.mark.slow
async def test_graphs_of_the_miniature(tmp_path: Path) -> None:
    setup = Setup(n=2, seeds=(0,), steps=2, metrics_of_sets=False)
    studies = studies_named("xtc", "psg", "graph_damage")
    done = {one.study.name: one for one in await run_studies(studies, setup, tmp_path)}
    assert set(done) == {"xtc", "psg", "graph_damage"}
    generation, understanding, _ = done["xtc"].outcome.tables
    for table in (generation, understanding):
        for row in table.rows[:6]:
            value = row.cells[0].measured.value  # type: ignore[union-attr]
            assert value is not None
            assert 0.0 <= value <= 1.0
    # Pairs that draw alike have their pictures in common.
    overall = [row.cells[0].measured for row in generation.rows[:6]]
    assert overall[0] == overall[1] == overall[2]
    assert overall[3] == overall[4] == overall[5]
    psg = {row.key: row.cells[3].measured for row in done["psg"].outcome.tables[0].rows}
    for condition in ("triplets", "composition", "feedback"):
        score = psg[f"{condition}/overall"]
        assert score is not None
        assert 0.0 <= (score.value or 0.0) <= 100.0
        assert score.n == 2
    assert done["graph_damage"].outcome.data["falling_steps"]["psg"]["fall"] == 2 * 18 * 6
    files = [*(tmp_path / WORK).rglob("*.png"), *(tmp_path / WORK).rglob("extractions/**/*.json")]
    assert files
    before = {file: file.stat().st_mtime_ns for file in files}
    again = await run_studies(studies_named("xtc"), setup, tmp_path)
    assert {file: file.stat().st_mtime_ns for file in files} == before
    assert again[0].outcome.tables == done["xtc"].outcome.tables

"""Studies on the miniature itself: pictures are drawn, judged, and drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.results import Results
from scenewright.evals.studies.registry import studies_named
from scenewright.evals.studies.running import WORK, run_studies
from scenewright.evals.studies.setup import Setup


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

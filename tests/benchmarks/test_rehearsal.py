"""The benchmark of rehearsals, and its table on the page of results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import rehearsal
from benchmarks._harness import RESULTS
from benchmarks._pages import rendered
from benchmarks.rehearse.child import RehearsedModel, Shape
from benchmarks.rehearse.running import Rehearsal, RehearsalOptions


async def test_figures_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[RehearsalOptions] = []

    async def rehearse(profile: object, options: RehearsalOptions, doing: object) -> Rehearsal:
        given.append(options)
        shapes = tuple(Shape(name=name, seconds=2.0, peak=1) for name in ("prompt", "emphasis"))
        model = RehearsedModel(
            model="diffusers:x", parameters=7, device="cpu", dtype="bfloat16", plan="",
            planned=2**31, peak=2**30, loading=3.0, shapes=shapes,
        )  # fmt: skip
        return Rehearsal(
            profile="x", size=options.size, steps=2, changes={}, models=(model,), left_out={}
        )

    monkeypatch.setattr(rehearsal, "rehearse", rehearse)
    image, judge = rehearsal.FULL[2], rehearsal.FULL[3]
    figures = await rehearsal.measure(image, 256)
    assert figures["peak_over_planned.z-image"] == 0.5
    assert (figures["shapes.z-image"], figures["seconds.z-image"]) == (2, 2.0)
    await rehearsal.measure(judge, 256)
    assert [(one.images, one.judges) for one in given] == [(True, False), (False, True)]
    assert given[0].changes == {"text_encoder.num_hidden_layers": 4}


def test_the_page_of_results_has_the_table(tmp_path: Path) -> None:
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, tmp_path)
    content = json.loads((RESULTS / "gpu_loop.json").read_text())
    content["figures"] = {
        f"{key}.{case.name}": value
        for case in rehearsal.FULL
        for key, value in (("planned_gib", 15.0), ("peak_gib", 15.5), ("peak_over_planned", 1.03))
    }
    (tmp_path / "rehearsal.json").write_text(json.dumps(content | {"name": "rehearsal"}))
    text = rendered("results.md", tmp_path)
    assert "| FLUX.2 klein 4B | 15.0 | 15.5 | 1.03 |" in text
    assert "`python -m benchmarks.rehearsal`" in text

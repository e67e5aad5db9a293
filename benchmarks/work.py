"""Work of the denoiser: one round of feedback against the script of diffusers' documentation.

``python -m benchmarks.work [--quick]``. Both sides draw the same held-out scenes of the miniature
world with the same three calls: a base picture, a picture of what is missing in it, and the
refinement of the base that sees both. The script draws three full pictures: text-to-image twice,
then the refinement with two IP-Adapters (:class:`benchmarks.gpu_loop.Script`). Ours redraws only a
crop around what is missing (:data:`SAVING`). Its pictures of what is missing are composed and
judged by the same models. A scene counts where both sides found something missing: elsewhere no
side has a second picture to draw.

``work.feedback`` and ``work.plain_script``: full-picture steps a scene, and ``work.ratio`` of
their sums; ``sgscore.feedback`` and ``sgscore.plain_script`` by judges that no side saw,
``gain.feedback`` their paired difference; ``sgscore.plain_kept`` and ``gain.feedback_vs_kept`` give
the script what it has not, the loop's judges that keep the better of base and refinement.
``speedup``: seconds of the script's three calls, of ours. ``script_pixels``: mean difference, of
255, of the script's pictures from those that our backend draws with the script's settings.
``every.*``: the same as above of all scenes, where both stop after the base picture
if nothing is missing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import BenchmarkError, benchmark, interval, prefixed, ratio
from benchmarks._loop import (
    WHOLE,
    Kept,
    Marks,
    estimate,
    miniature,
    read,
    refined,
    stacked,
)
from benchmarks._rows import MeasuredScene, SceneStudy, scene_options
from benchmarks.gpu_loop import Job, Script
from scenewright.config.profiles import Profile
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Generated
from scenewright.runs.folder import EVENTS
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RunResult

WORK = Path("out/bench-work")
SAVING: Mapping[str, Any] = {"crop": True}
"""The setting that saves work."""
RUNS: Mapping[str, Mapping[str, Any]] = {
    "feedback": {"rounds": 2, "profile": {"strategy": "feedback", **SAVING}},
    "plain": {"rounds": 2, "profile": {"strategy": "feedback", **WHOLE}},
}
"""Ours, and the judged form of what the script draws."""
SIDES = ("feedback", "plain")


class WorkRow(MeasuredScene):
    """Both sides on one scene."""

    kept: dict[str, Kept]
    """By run: the picture that is kept."""
    refined: Marks | None
    """Counts of the script's refinement; none where nothing was missing."""
    work: dict[str, float]
    """By run: full-picture steps."""
    calls: dict[str, int]
    """By run: pictures drawn."""
    drawing: dict[str, float]
    """By side: seconds of drawing."""
    apart: float | None = None
    """Mean difference of the script's pictures from our backend's, of 255."""


@cache
def script() -> Script:
    """Return the script with the miniature's model, loaded once a process."""
    import torch

    return Script(
        MINIATURE_WEIGHTS / "generator",
        "cpu",
        torch.float32,
        adapter=MINIATURE_WEIGHTS / "ip-adapter",
        weights="ip-adapter.safetensors",
    )


async def measure_scene(
    scene: SceneGraph, at: int, profile: Profile, models: RunModels, scratch: Path | None = None
) -> dict[str, Any]:
    """Run both sides on ``scene``."""
    found: dict[str, Any] = {name: {} for name in ("kept", "work", "calls", "drawing")}
    found |= {"refined": None, "apart": None}
    async for name, result in refined(scene, at, profile, models, RUNS, scratch):
        drawn = [e for e in read_events(result.folder / EVENTS) if isinstance(e, Generated)]
        found["kept"][name] = read(result, len(result.rounds))
        found["work"][name] = result.totals["work"]
        found["calls"][name] = len(drawn)
        found["drawing"][name] = sum(event.seconds for event in drawn)
        if name == "plain" and len(result.rounds) == 2:
            report = result.rounds[1].report_card
            assert report is not None
            found["refined"] = Marks.of(report)
            found["drawing"]["script"], found["apart"] = _scripted(drawn, result, models)
    return found


def _scripted(
    drawn: Sequence[Generated], result: RunResult, models: RunModels
) -> tuple[float, float]:
    """Return the seconds of the script's three calls, and how far its pictures are from ours."""
    base, reference, better = drawn
    features = models.backend.features
    job = Job(
        prompt=base.request.prompt,
        missing=reference.request.prompt,
        seed=base.request.seed,
        pixels=features.default_size[0],
        steps=base.request.steps or features.default_steps,
        guidance=features.default_guidance,
        seeds=(base.request.seed, reference.request.seed, better.request.seed),
    )
    pictures, calls = script().refine(job)
    from PIL import Image

    apart = [
        np.abs(np.asarray(mine, float) - np.asarray(Image.open(result.image_path(e.image)), float))
        for mine, e in zip(pictures, drawn, strict=True)
    ]
    return calls.wall, float(np.mean(apart))


def figures_of(rows: Sequence[WorkRow]) -> dict[str, Any]:
    """Return all figures; raises ``BenchmarkError`` without a scene that both sides repaired."""
    same = [row for row in rows if row.calls["feedback"] == row.calls["plain"] == 3]
    if not same:
        raise BenchmarkError("no scene was repaired by both sides: measure more scenes")
    speedups = [row.drawing["script"] / row.drawing["feedback"] for row in same]
    return {
        **_side_by_side(same),
        "speedup": interval(speedups),
        "script_pixels": max(row.apart or 0.0 for row in same),
        "scenes": len(same),
        **prefixed("every.", _side_by_side(rows)),
    }


def _side_by_side(rows: Sequence[WorkRow]) -> dict[str, Any]:
    works = {side: [row.work[side] for row in rows] for side in SIDES}
    cards = {
        "feedback": [row.kept["feedback"].report for row in rows],
        "plain_script": [row.refined or row.kept["plain"].report for row in rows],
        "plain_kept": [row.kept["plain"].report for row in rows],
    }
    shares = {name: stacked(some, "sgscore") for name, some in cards.items()}
    known = np.logical_and.reduce([mask for _, mask in shares.values()])
    ours = shares["feedback"][0][known]
    return {
        "work.feedback": interval(works["feedback"]),
        "work.plain_script": interval(works["plain"]),
        "work.ratio": ratio(np.column_stack([works["feedback"], works["plain"]])),
        **{f"sgscore.{name}": estimate(part[known]) for name, (part, _) in shares.items()},
        "gain.feedback": estimate(ours - shares["plain_script"][0][known], bounded=False),
        "gain.feedback_vs_kept": estimate(ours - shares["plain_kept"][0][known], bounded=False),
    }


@benchmark(
    "20 scenes",
    clean=True,
    **scene_options(240, WORK),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both sides."""
    study = SceneStudy.of(WorkRow, measure_scene, miniature(options.quick), runs=RUNS)
    rows = study.balanced(options, WORK, quick=20)
    return len(rows), figures_of(rows)


if __name__ == "__main__":
    main()

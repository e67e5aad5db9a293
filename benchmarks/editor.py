"""The miniature's editor against the ways in which its generator repairs a picture.

``python -m benchmarks.editor [--quick]``. Every run begins with the same picture, may draw 7 images
in all, references included, and stops as soon as the loop's judges find nothing missing.
``compose-edit`` is of the profile ``miniature-edit``, ``router`` of ``miniature``, where it is the
best. Rows are stored scene by scene: the same command goes on after a kill.

Scores are by judges that the loop never saw: ``sgscore.RUN``, ``facts.RUN``, and those of the first
picture as ``plain``. ``images.RUN``; ``fixed.RUN`` and ``lost.RUN`` (facts that a round gains and
loses, as the loop's judges see it, mean over the scenes that needed a second round); ``gain.RUN``
and ``gain.facts_RUN`` (paired, ``compose-edit`` minus the run).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._harness import benchmark, interval
from benchmarks._loop import (
    QUICK_STEPS,
    Kept,
    overridden,
    read,
    refined,
    rounds_tried,
    score_figures,
)
from benchmarks._rows import MeasuredScene, SceneStudy, scene_options
from benchmarks._templates import shown
from benchmarks.strategies import IMAGES
from scenewright.config.options import Budget
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory.profiles import RunModels

WORK = Path("out/bench-editor")
EDITOR, GENERATOR = "miniature-edit", "miniature"
RUNS: Mapping[str, Sequence[str]] = {
    EDITOR: ("compose-edit",),
    GENERATOR: ("router",),
}
"""Profile → its strategies."""
OURS, PLAIN = "compose-edit", "plain"


class EditRow(MeasuredScene):
    """All strategies of a profile on one scene."""

    kept: dict[str, Kept]
    """By run: the image that is kept, and its scores; those of the first picture as plain."""
    fixed: dict[str, float | None]
    """By run: facts gained a round; None where no second round was needed."""
    lost: dict[str, float | None]
    """By run: facts lost a round."""


async def measure_scene(
    scene: SceneGraph, at: int, profile: Profile, models: RunModels, scratch: Path | None = None
) -> dict[str, Any]:
    """Run the strategies of ``profile`` on ``scene``."""
    names = RUNS[profile.name]
    runs = {name: {"profile": {"strategy": name}} for name in names}
    most = {"rounds": IMAGES, "budget": Budget(images=IMAGES)}
    results = {
        name: result
        async for name, result in refined(scene, at, profile, models, runs, scratch, **most)
    }
    kept = {name: read(result, IMAGES) for name, result in results.items()}
    tried = {name: rounds_tried(result) for name, result in results.items()}
    return {
        "kept": kept | {PLAIN: read(results[names[0]], 0)},
        "fixed": {name: _mean([len(one.fixed) for one in some]) for name, some in tried.items()},
        "lost": {name: _mean([len(one.broken) for one in some]) for name, some in tried.items()},
    }


def _mean(counts: Sequence[int]) -> float | None:
    return sum(counts) / len(counts) if counts else None


def figures_of(edited: Sequence[EditRow], drawn: Sequence[EditRow]) -> dict[str, Any]:
    """Return all figures of the scenes that both profiles were measured on."""
    pairs = {row.at: row for row in drawn}
    rows = [(row, pairs[row.at]) for row in edited if row.at in pairs]
    kept = {
        name: [part.kept[name].report for part in (pair[at] for pair in rows)]
        for at, names in enumerate(RUNS.values())
        for name in names
    }
    kept[PLAIN] = [ours.kept[PLAIN].report for ours, _ in rows]
    gains = {name: (OURS, name) for name in kept if name != OURS}
    figures: dict[str, Any] = score_figures(kept, gains, ("sgscore", "facts"))
    for at, names in enumerate(RUNS.values()):
        for name in names:
            parts = [pair[at] for pair in rows]
            figures[f"images.{name}"] = interval([one.kept[name].images for one in parts])
            for key in ("fixed", "lost"):
                found = [value for one in parts if (value := getattr(one, key)[name]) is not None]
                if found:
                    figures[f"{key}.{name}"] = interval(found)
                    figures["repaired"] = len(found)
    return figures


@benchmark(
    "3 scenes",
    clean=True,
    **scene_options(60, WORK),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both profiles."""
    steps = {"steps": QUICK_STEPS} if options.quick else {}
    found: list[list[EditRow]] = []
    for name, runs in RUNS.items():
        profile = overridden(BUILT_IN[name], steps)
        study = SceneStudy.of(EditRow, measure_scene, profile, runs=list(runs), images=IMAGES)
        found.append(study.balanced(options, WORK, quick=3, file=f"{name}.jsonl"))
    figures = figures_of(*found)
    for name, figure in figures.items():
        if name.startswith("sgscore."):
            print(f"{name}: {shown(figure)}")
    return len(found[0]), figures


if __name__ == "__main__":
    main()

"""One round of feedback as Scene-Bench publishes it, on hard scenes, and what its parts are worth.

``python -m benchmarks.paper_feedback [--quick]``. The paper's Table 7 says that the reference image
adds 6.58 points of SGScore to the IP-Adapter on the first picture. ``examples/paper-feedback.toml``
repeats this to the letter on hard and very hard painted scenes, asked by the strict protocol, and
changes one thing at a time: the start noise, the prompt of the reference, λ0 and λ1, the judge that
says what is missing, and the prompt of the first picture. Pictures and answers are kept: the same
command goes on after a kill.

All gains are paired by scene, in points of SGScore, of the picture as it comes unless ``kept`` says
that the better one counts: ``gain.paper_feedback`` (the paper's: with the reference less without
it), ``gain.paper_feedback.same_noise`` and ``gain.paper_feedback.reference_in_scene``;
``[LEVEL.]gain.CONDITION`` and ``[LEVEL.]gain.kept.CONDITION`` against the first picture, by the
report judge, and ``gain.same_judge.CONDITION`` by the judge that steered, as in the paper;
``[LEVEL.]sgscore.composition`` and ``.CONDITION``; ``objects.gain.published`` and
``relations.gain.published``; ``repaired.CONDITION`` the share of scenes with a second picture, and
``gain.where_repaired.CONDITION`` of these alone.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import (
    Option,
    benchmark,
    eval_progress,
    figure,
    folder,
    work_folder,
)
from scenewright.evals.runner.config import EvalConfig, load_config
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.statistics.estimates import Array, difference, mean
from scenewright.evals.studies.readings import Reading, Readings, read

CONFIG = Path(__file__).resolve().parents[1] / "examples" / "paper-feedback.toml"
WORK = Path("out/bench-paper-feedback")
BACKEND = "miniature"
FIRST = "composition"
BEFORE = {"from_triplets": "triplets"}
"""Condition → the condition of its first picture, where that is another one."""
WITHOUT = {
    "paper_feedback": ("published", "without_reference"),
    "paper_feedback.same_noise": ("same_noise", "same_noise_without"),
    "paper_feedback.reference_in_scene": ("reference_in_scene", "without_reference"),
    "paper_feedback.strong_reference": ("strong_reference", "without_reference"),
}
"""Name of a gain → (with the reference image, the same without it)."""
LEVELS = ("", "hard", "very_hard")
QUICK_SCENES, QUICK_STEPS = 2, 4


def changed(config: EvalConfig, scenes: int, steps: int | None) -> EvalConfig:
    """Return ``config`` with so many scenes, and denoising steps for a quick run."""
    dataset = config.dataset.model_copy(update={"options": {**config.dataset.options, "n": scenes}})
    conditions = {
        name: config.condition_of(name) for name in (*config.conditions, *BEFORE.values())
    }
    if steps is not None:
        conditions = {
            name: one.model_copy(update={"profile": {**one.profile, "steps": steps}})
            for name, one in conditions.items()
        }
    return config.model_copy(
        update={
            "dataset": dataset,
            "conditions": tuple(conditions),
            "condition": conditions,
        }
    )


def figures_of(found: Readings, conditions: tuple[str, ...]) -> dict[str, Any]:
    """Return all figures of the evaluation's readings."""

    def values(condition: str, reading: Reading, panel: str = "report", part: str = "") -> Array:
        return found.of("sgscore", condition, part, panel, reading) * 100

    figures: dict[str, Any] = {}
    loops = [name for name in conditions if name not in (FIRST, *BEFORE.values())]
    for level in LEVELS:
        here = found.where("level", level) if level else np.ones(len(found.items), bool)
        if not here.any():
            continue
        prefix = f"{level}." if level else ""
        figures[f"{prefix}sgscore.{FIRST}"] = figure(mean(values(FIRST, "kept")[here]))
        for name, (ours, theirs) in WITHOUT.items():
            for reading, kept in (("last", ""), ("kept", "kept.")):
                gain = difference(values(ours, reading)[here], values(theirs, reading)[here])  # type: ignore[arg-type]
                figures[f"{prefix}gain.{kept}{name}"] = figure(gain)
        for name in loops:
            before = BEFORE.get(name, FIRST)
            figures[f"{prefix}sgscore.{name}"] = figure(mean(values(name, "last")[here]))
            for reading, kept in (("last", ""), ("kept", "kept.")):
                gain = difference(values(name, reading)[here], values(before, "kept")[here])  # type: ignore[arg-type]
                figures[f"{prefix}gain.{kept}{name}"] = figure(gain)
    for name in loops:
        before = BEFORE.get(name, FIRST)
        gain = difference(values(name, "last", "same"), values(before, "kept", "same"))
        figures[f"gain.same_judge.{name}"] = figure(gain)
        again = (found.images[name] > 1).any(1)
        figures[f"repaired.{name}"] = float(again.mean())
        if again.any():
            gains = difference(values(name, "last")[again], values(before, "kept")[again])
            figures[f"gain.where_repaired.{name}"] = figure(gains)
    for part in ("objects", "relations", "attributes"):
        gain = difference(values("published", "last", part=part), values(FIRST, "kept", part=part))
        figures[f"{part}.gain.published"] = figure(gain)
    return {key: value for key, value in figures.items() if value is not None}


@benchmark(
    f"{QUICK_SCENES} scenes",
    clean=True,
    scenes=Option(60, "scenes", least=2),
    work=folder(f"folder of the pictures (default: {WORK})"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Run the evaluation."""
    scenes = QUICK_SCENES if options.quick else options.scenes
    config = changed(load_config(CONFIG), scenes, QUICK_STEPS if options.quick else None)
    with work_folder(options, WORK) as work:
        results = asyncio.run(run_eval(config, work, on_progress=eval_progress("paper feedback")))
        found = read(results, BACKEND)
    return scenes, figures_of(found, config.conditions)


if __name__ == "__main__":
    main()

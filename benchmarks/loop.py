"""What the loop gains on held-out scenes, and against what it is measured.

``python -m benchmarks.loop [--quick]``. Every scene is drawn under eight strategies: bare
triplets, the composed prompt, one and three rounds of feedback as the profile has it, three
rounds on the whole picture as in the paper, feedback without the reference of what is missing
(λ1 = 0) for as many rounds and for as many images, and best of as many seeds as three rounds
may draw images. All begin with the same seed and, but for the triplets, with the same picture.
``composition`` and ``feedback_1`` are the kept candidates of the first rounds of ``feedback_3``.
Without a weight for the reference none is drawn, so ``lambda1_0`` draws half as many images as
``feedback_3`` in as many rounds; ``lambda1_0_n`` spends the rest on further rounds. All are scored
by judges that the loop never saw, as judged and corrected for those judges' measured errors
(``_loop.py`` says how). Rows are stored scene by scene: the same command goes on after a kill.

``[corrected.][LEVEL.]MEASURE.STRATEGY`` are means over scenes,
``[corrected.][LEVEL.]gain.[MEASURE_]DIFFERENCE`` paired differences (SGScore where no measure is
named), ``images.STRATEGY`` images drawn, ``loop.sgscore.STRATEGY`` the score by the judges that
chose the image. Corrected figures are left out where the judges' accuracy is not known.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchmarks._harness import (
    PROCESSES,
    Option,
    benchmark,
    folder,
    interval,
    report,
    work_folder,
)
from benchmarks._loop import (
    MEASURES,
    WHOLE,
    Accuracy,
    Kept,
    accuracies,
    estimate,
    level_parts,
    miniature,
    read,
    refined,
    score_figures,
    shown,
    stacked,
    verb,
)
from benchmarks._rows import MeasuredScene, SceneStudy
from benchmarks._scenes import LEVELS, balanced_scenes
from benchmarks._templates import template
from scenewright.config.profiles import Profile
from scenewright.core.facts import FactKind
from scenewright.core.scene import SceneGraph
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Estimate
from scenewright.graphs.state import Budget
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.model_factory.profiles import RunModels

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "loop.png"
WORK = Path("out/bench-loop")
FEEDBACK_ROUNDS = 3
IMAGES = 1 + 2 * FEEDBACK_ROUNDS
"""Images of three rounds of feedback: a candidate, then each time one and its reference."""
FEEDBACK: dict[str, Any] = {"rounds": 1 + FEEDBACK_ROUNDS, "profile": {"strategy": "feedback"}}
RUNS: dict[str, dict[str, Any]] = {
    "triplets": {"rounds": 1, "profile": {"composer": "triplets"}},
    "feedback_3": FEEDBACK,
    "whole_3": {**FEEDBACK, "profile": {"strategy": "feedback", **WHOLE}},
    "lambda1_0": {
        "rounds": IMAGES,
        "profile": {"strategy": "feedback", "weight_missing": 0.0},
    },
    "best_of_n": {
        "rounds": IMAGES,
        "profile": {"strategy": "resample"},
        "budget": Budget(images=IMAGES),
    },
}
"""Options of the runs of a scene, which stop as soon as the loop's judges find nothing missing."""
READINGS: dict[str, tuple[str, int]] = {
    "triplets": ("triplets", 0),
    "composition": ("feedback_3", 0),
    "feedback_1": ("feedback_3", 1),
    "feedback_3": ("feedback_3", FEEDBACK_ROUNDS),
    "whole_3": ("whole_3", FEEDBACK_ROUNDS),
    "lambda1_0": ("lambda1_0", FEEDBACK_ROUNDS),
    "lambda1_0_n": ("lambda1_0", IMAGES - 1),
    "best_of_n": ("best_of_n", IMAGES - 1),
}
"""Strategy → the run it is read from and the last round that counts."""
GAINS: dict[str, tuple[str, str]] = {
    "composition": ("composition", "triplets"),
    "feedback": ("feedback_3", "composition"),
    "feedback_vs_best_of_n": ("feedback_3", "best_of_n"),
    "whole_vs_best_of_n": ("whole_3", "best_of_n"),
    "feedback_vs_whole": ("feedback_3", "whole_3"),
    "feedback_vs_lambda1_0": ("feedback_3", "lambda1_0"),
    "feedback_vs_lambda1_0_n": ("feedback_3", "lambda1_0_n"),
}
"""Name of a difference → (strategy, strategy it is compared with)."""
NAMES: dict[str, str] = {
    "triplets": "triplets, one image",
    "composition": "composition, one image",
    "feedback_1": "feedback, 1 round",
    "feedback_3": f"feedback, {FEEDBACK_ROUNDS} rounds",
    "whole_3": f"feedback, {FEEDBACK_ROUNDS} rounds, whole picture (the paper's)",
    "lambda1_0": f"feedback, {FEEDBACK_ROUNDS} rounds, λ1 = 0",
    "lambda1_0_n": f"feedback, {IMAGES - 1} rounds, λ1 = 0",
    "best_of_n": f"best of up to {IMAGES} seeds",
}
"""Strategies in words, in the order of tables and pictures."""


class SceneRow(MeasuredScene):
    """All strategies on one scene."""

    kept: dict[str, Kept]
    """By strategy."""


async def measure_scene(
    scene: SceneGraph, at: int, profile: Profile, models: RunModels, scratch: Path | None = None
) -> dict[str, Any]:
    """Run everything in :data:`RUNS` on ``scene``."""
    results = {
        name: result async for name, result in refined(scene, at, profile, models, RUNS, scratch)
    }
    return {"kept": {name: read(results[run], last) for name, (run, last) in READINGS.items()}}


def parse_changes(items: Sequence[str]) -> dict[str, Any]:
    """Return ``{"weight_best": 0.7}`` for ``["weight_best=0.7"]``; values are JSON or else text.

    Raises ``ValueError`` for an item without ``=``.
    """
    changes: dict[str, Any] = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise ValueError(f"{item!r} sets nothing: write FIELD=VALUE, as in weight_best=0.7")
        try:
            changes[key.strip()] = json.loads(value)
        except ValueError:
            changes[key.strip()] = value.strip()
    return changes


def accuracy_of(profile: Profile) -> tuple[dict[FactKind, Accuracy], str]:
    """Return the measured accuracy of the profile's report judge, and what is missing of it."""
    if len(profile.report_judges) != 1:
        return {}, "several report judges: their joint accuracy is not measured"
    name = profile.report_judges[0].partition(":")[2].removeprefix("miniature/")
    path = MINIATURE_WEIGHTS / "judges" / name / "report.json"
    try:
        found = accuracies(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        found = {}
    if not found:
        return {}, (
            f"the report of {name} has no sensitivity and specificity: measure it anew with "
            f"python -m scenewright.miniature.training.judges evaluate {name}"
        )
    weak = [
        f"{kind}s (Se + Sp − 1 = {a.youden:.2f})" for kind, a in found.items() if a.youden < 0.2
    ]
    return found, f"{name} is too near chance on {', '.join(weak)}" if weak else ""


def figures_of(
    rows: Sequence[SceneRow], accuracy: Mapping[FactKind, Accuracy] | None = None
) -> dict[str, Any]:
    """Return all figures; raises ``ValueError`` without rows."""
    figures: dict[str, Any] = {}
    for prefix, some in level_parts(rows).items():
        cards = {name: [row.kept[name].report for row in some] for name in READINGS}
        figures |= score_figures(cards, GAINS, MEASURES, prefix, accuracy)
    for name in READINGS:
        figures[f"images.{name}"] = interval([row.kept[name].images for row in rows])
        shares, known = stacked([row.kept[name].loop for row in rows], "sgscore")
        if known.any():
            figures[f"loop.sgscore.{name}"] = estimate(shares[known])
    return figures


_CLAIMS = {
    "composition": ("The composed prompt", "bare triplets"),
    "feedback": (f"Feedback ({FEEDBACK_ROUNDS} rounds)", "the composed prompt alone"),
    "feedback_vs_best_of_n": (
        f"Feedback ({FEEDBACK_ROUNDS} rounds)",
        f"the best of as many seeds ({IMAGES} images at most)",
    ),
    "whole_vs_best_of_n": (
        f"Feedback on the whole picture ({FEEDBACK_ROUNDS} rounds)",
        "the best of as many seeds",
    ),
    "feedback_vs_lambda1_0": ("Feedback", "as many rounds without the reference (λ1 = 0)"),
    "feedback_vs_lambda1_0_n": ("Feedback", "as many images without the reference (λ1 = 0)"),
}


def verdicts(figures: Mapping[str, Any]) -> list[str]:
    """Say what the intervals of the SGScore's differences allow to say, one sentence each."""
    lines = []
    for name, (ours, theirs) in _CLAIMS.items():
        if gain := figures.get(f"gain.{name}"):
            said = verb(gain, "is not clearly better or worse than")
            levels = [
                f"{level} {shown(figures[key])}"
                for level in LEVELS
                if name == "feedback_vs_best_of_n" and (key := f"{level}.gain.{name}") in figures
            ]
            by_level = f" ({', '.join(levels)})" if levels else ""
            lines.append(f"{ours} {said} {theirs}: {shown(gain)} SGScore{by_level}.")
    return lines


def markdown(figures: Mapping[str, Any], n: int, date: str) -> str:
    """Return the tables of the results page: by strategy, and the differences."""
    return (
        template("loop_table.md")
        .render(
            figures=figures,
            n=n,
            date=date,
            names=NAMES,
            levels=LEVELS,
            rounds=FEEDBACK_ROUNDS,
            images=IMAGES,
            verdicts=verdicts(figures),
        )
        .rstrip()
    )


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """Draw SGScore and share of all facts, by strategy, for each level and overall."""
    groups = {f"{level}.": level for level in LEVELS} | {"": "all"}
    titles = {"sgscore": "SGScore", "facts": "share of all facts that hold"}
    made, axes = plots.figure(columns=2, size=(10.0, 4.2))
    for axis, (measure, title) in zip(axes[0], titles.items(), strict=True):
        found = {
            words: [
                (at, Estimate(value=f["mean"], low=f["low"], high=f["high"]))
                for at, prefix in enumerate(groups)
                if (f := figures.get(f"{prefix}{measure}.{name}"))
            ]
            for name, words in NAMES.items()
        }
        plots.lines(axis, found)
        axis.set_xticks(range(len(groups)), list(groups.values()))
        axis.set_title(title)
    plots.legend(made, axes[0][0])
    made.savefig(path, dpi=150)


@benchmark(
    "6 scenes",
    clean=True,
    trials=["set"],
    scenes=Option(300, "scenes", least=1),
    processes=PROCESSES,
    work=folder(f"folder of the rows (default: {WORK})"),
    set=Option(
        None,
        "change a field of the profile, for example weight_missing=0.8; writes no results",
        more={"action": "append", "default": [], "metavar": "FIELD=VALUE"},
    ),
)
def main(options: Namespace) -> None:
    """Measure, and in full mode with nothing changed write the results."""
    try:
        profile = miniature(options.quick, parse_changes(options.set))
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        options.refuse(
            f"--set {place}: {problem['msg']}; fields: {', '.join(Profile.model_fields)}"
        )
    except ValueError as error:
        options.refuse(str(error))
    count = 6 if options.quick else options.scenes + -options.scenes % len(LEVELS)
    study = SceneStudy.of(SceneRow, measure_scene, profile, runs=RUNS, readings=READINGS)
    with work_folder(options, WORK) as work:
        scenes = dict(enumerate(balanced_scenes(count)))
        rows = study.rows(scenes, work / "rows.jsonl", options.processes)
    accuracy, lacking = accuracy_of(profile)
    figures = figures_of(rows, accuracy)
    if lacking:
        print(f"Not all is corrected: {lacking}.")
    report("loop", len(rows), figures, options.unpublished)
    print(markdown(figures, len(rows), "now"))
    if not options.unpublished:
        draw(figures, PICTURE)
        print(f"written to {PICTURE}; make results writes the pages")


if __name__ == "__main__":
    main()

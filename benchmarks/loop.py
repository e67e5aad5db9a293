"""What the loop gains on held-out scenes at equal work of the denoiser, and against what.

``python -m benchmarks.loop [--quick]``. Scenes are of the paper's levels, crowds and contrasts
(``_scenes.py``). Every strategy begins with the same seed and picture, stops when the loop's judges
find nothing missing, and may spend the work of seven full pictures, in full-picture steps of the
denoiser (``benchmarks/work.py`` counts them alike): ``best_of_n`` draws as many seeds,
``feedback`` repairs regions as the profile has it, ``whole`` redraws the whole picture as the paper
does, and ``tournament`` pastes the best of several proposals for each place. ``composition`` is the
first picture alone, ``triplets`` one picture of bare triplets. A round that has begun is finished,
so that a run may spend a little more: ``work.STRATEGY`` says what it was.

All are scored by judges that the loop never saw, as judged and, by level, corrected for those
judges' errors as measured on paintings of that level (``_loop.py`` says how). Beside the judges
stands a detector that shares no weights with them (``_detected.py``): ``detected.*`` are its scores
of objects, attributes and the relations that outlines decide, and ``detector.*`` say how far it
agrees with paintings' truth and with pictures labelled by eye. Rows are stored scene by scene: the
same command goes on after a kill.

``[LEVEL.]MEASURE.STRATEGY`` are means over scenes, ``[LEVEL.]gain.[MEASURE_]DIFFERENCE`` paired
differences (SGScore where no measure is named), ``corrected.LEVEL.…`` and ``detected.[LEVEL.]…``
the same; ``images.``, ``work.``, ``judge_calls.`` and ``seconds.STRATEGY`` what a run took;
``regressions.STRATEGY`` facts that a round lost as the loop's judges see it, and
``regressions_reported.STRATEGY`` as the report judges do, means over the scenes that needed a
second round; ``repaired.STRATEGY`` their share; ``loop.sgscore.STRATEGY`` the score by the judges
that chose the image.
"""

from __future__ import annotations

import asyncio
import json
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import ValidationError

from benchmarks._detected import detected_truth, recalls, trust_figures
from benchmarks._harness import Option, benchmark, interval, prefixed
from benchmarks._loop import (
    MEASURES,
    WHOLE,
    Accuracy,
    Kept,
    Marks,
    accuracies,
    estimate,
    level_parts,
    lost_a_round,
    miniature,
    read,
    refined,
    score_figures,
    stacked,
    steps_of,
    verb,
)
from benchmarks._rows import MeasuredScene, SceneStudy, scene_options
from benchmarks._scenes import ALL_LEVELS, AnyLevel
from benchmarks._templates import shown, template
from scenewright.config.options import Budget
from scenewright.config.profiles import Profile
from scenewright.core.facts import FactKind
from scenewright.core.scene import SceneGraph
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Estimate
from scenewright.graphs.strategies.registry import strategies
from scenewright.miniature.sampler import GROUNDS
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RunResult

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "loop.png"
WORK = Path("out/bench-loop")
PICTURES = 7
"""Full pictures whose work a run may spend."""
PAINTINGS = 40
"""Paintings of each kind on which the detector is compared with the truth."""
ROUNDS = 12
"""Most rounds of a run, more than its work allows."""
SAVING: Mapping[str, Any] = {"crop": True}
"""Settings of the tournament: a proposal costs its crop."""
RUNS: dict[str, dict[str, Any]] = {
    "triplets": {"rounds": 1, "profile": {"composer": "triplets"}},
    "best_of_n": {"rounds": PICTURES, "profile": {"strategy": "resample"}},
    "feedback": {"rounds": ROUNDS, "profile": {"strategy": "feedback"}},
    "whole": {"rounds": ROUNDS, "profile": {"strategy": "feedback", **WHOLE}},
    "tournament": {"rounds": ROUNDS, "profile": {"strategy": "tournament", **SAVING}},
}
"""Options of the runs of a scene, which stop as soon as the loop's judges find nothing missing."""
READINGS: dict[str, tuple[str, int]] = {
    "triplets": ("triplets", 0),
    "composition": ("best_of_n", 0),
    **{name: (name, ROUNDS) for name in RUNS if name != "triplets"},
}
"""Strategy → the run it is read from and the last round that counts."""
GAINS: dict[str, tuple[str, str]] = {
    "composition": ("composition", "triplets"),
    "feedback": ("feedback", "composition"),
    "tournament": ("tournament", "composition"),
    "tournament_vs_best_of_n": ("tournament", "best_of_n"),
    "tournament_vs_feedback": ("tournament", "feedback"),
    "feedback_vs_best_of_n": ("feedback", "best_of_n"),
    "whole_vs_best_of_n": ("whole", "best_of_n"),
    "feedback_vs_whole": ("feedback", "whole"),
}
"""Name of a difference → (strategy, strategy it is compared with)."""
NAMES: dict[str, str] = {
    "triplets": "triplets, one image",
    "composition": "composition, one image",
    "best_of_n": "best of as many seeds",
    "feedback": "feedback in regions",
    "whole": "feedback, whole picture (the paper's)",
    "tournament": "tournament",
}
"""Strategies in words, in the order of tables and pictures."""
COUNTS = ("images", "work", "judge_calls", "seconds")
"""What a run took: pictures drawn, steps of the denoiser, calls of judges, seconds."""


class SceneRow(MeasuredScene):
    """All strategies on one scene."""

    kept: dict[str, Kept]
    """By strategy."""
    detected: dict[str, Marks]
    """By strategy: what the detector says of the kept picture."""
    took: dict[str, dict[str, float]]
    """By strategy: :data:`COUNTS`."""
    lost: dict[str, dict[str, float | None]]
    """By strategy and who looks (``loop``, ``report``): facts lost a round; None where no second
    round was needed."""


def runs_of(profile: Profile, models: RunModels) -> dict[str, dict[str, Any]]:
    """Return :data:`RUNS` with the budget of work, of the strategies that there are."""
    budget = Budget(work=PICTURES * steps_of(profile, models))
    known = strategies()
    return {
        name: {"budget": budget, **options}
        for name, options in RUNS.items()
        if options["profile"].get("strategy", profile.strategy) in known
    }


async def measure_scene(
    scene: SceneGraph, at: int, profile: Profile, models: RunModels, scratch: Path | None = None
) -> dict[str, Any]:
    """Run everything in :data:`RUNS` on ``scene``."""
    found: dict[str, Any] = {name: {} for name in ("kept", "detected", "took", "lost")}
    for name, options in runs_of(profile, models).items():
        begun = time.perf_counter()
        # One at a time: a run that found another one's pictures would look too fast.
        async for _, result in refined(scene, at, profile, models, {name: options}, scratch):
            seconds = time.perf_counter() - begun
            for strategy, (run, last) in READINGS.items():
                if run == name:
                    await _tell(found, strategy, result, last)
            found["took"][name] |= {"seconds": seconds}
            found["lost"][name] = {role: lost_a_round(result, role) for role in ("loop", "report")}
    return found


async def _tell(found: dict[str, Any], strategy: str, result: RunResult, last: int) -> None:
    kept = read(result, last)
    record = next(record for record in result.rounds if record.round == kept.round)
    with Image.open(result.image_path(record.image)) as picture:
        truth = await detected_truth(picture.convert("RGB"))
    seen = recalls(truth, result.scene, result.facts)
    found["kept"][strategy] = kept
    found["detected"][strategy] = Marks(
        objects=seen["object"],
        attributes=seen["attribute"],
        relations=seen["relation"],
        alpha=kept.report.alpha,
    )
    # A strategy that is the beginning of a run has its pictures alone.
    until = [record for record in result.rounds if record.round <= last]
    found["took"][strategy] = (
        {name: result.totals[name] for name in COUNTS if name != "seconds"}
        if strategy in RUNS
        else {"images": kept.images, "work": sum(record.work or 0.0 for record in until)}
    )


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


Accuracies = Mapping[AnyLevel, Mapping[FactKind, Accuracy]]


def accuracy_of(profile: Profile) -> tuple[Accuracies, str]:
    """Return the measured accuracy of the report judge by level, and what is missing of it.

    Of the paper's levels it is that on paintings of any size.
    """
    if len(profile.report_judges) != 1:
        return {}, "several report judges: their joint accuracy is not measured"
    name = profile.report_judges[0].partition(":")[2].removeprefix("miniature/")
    path = MINIATURE_WEIGHTS / "judges" / name / "report.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        told = {}
    found = {
        level: accuracies(told, level if level in GROUNDS else "painted") for level in ALL_LEVELS
    }
    if not all(found.values()):
        return {level: one for level, one in found.items() if one}, (
            f"the report of {name} has no sensitivity and specificity of every level: measure it "
            f"anew with python -m scenewright.miniature.training.judges evaluate {name}"
        )
    weak = [
        f"{kind}s of level {level} (Se + Sp − 1 = {a.youden:.2f})"
        for level, kinds in found.items()
        for kind, a in kinds.items()
        if a.youden < 0.2
    ]
    return found, f"{name} is too near chance on {', '.join(weak)}" if weak else ""


def figures_of(rows: Sequence[SceneRow], accuracy: Accuracies | None = None) -> dict[str, Any]:
    """Return all figures; raises ``ValueError`` without rows."""
    figures: dict[str, Any] = {}
    names = [name for name in READINGS if all(name in row.kept for row in rows)]
    gains = {key: pair for key, pair in GAINS.items() if set(pair) <= set(names)}
    for prefix, some in level_parts(rows, ALL_LEVELS).items():
        cards = {name: [row.kept[name].report for row in some] for name in names}
        known = (accuracy or {}).get(some[0].level) if prefix else None
        figures |= score_figures(cards, gains, MEASURES, prefix, known)
        seen = {name: [row.detected[name] for row in some] for name in names}
        measures = ("sgscore", "objects", "attributes", "relations")
        figures |= prefixed("detected.", score_figures(seen, gains, measures, prefix))
    for name in names:
        for count in COUNTS:
            if count in rows[0].took[name]:
                figures[f"{count}.{name}"] = interval([row.took[name][count] for row in rows])
        shares, known_ones = stacked([row.kept[name].loop for row in rows], "sgscore")
        if known_ones.any():
            figures[f"loop.sgscore.{name}"] = estimate(shares[known_ones])
        for role, key in (("loop", "regressions"), ("report", "regressions_reported")):
            told = [row.lost[name][role] for row in rows if name in row.lost]
            lost = [value for value in told if value is not None]
            if lost:
                figures[f"{key}.{name}"] = interval(lost)
                figures[f"repaired.{name}"] = len(lost) / len(rows)
    return figures


_CLAIMS = {
    "composition": ("The composed prompt", "bare triplets"),
    "tournament_vs_best_of_n": ("The tournament", "the best of as many seeds"),
    "tournament_vs_feedback": ("The tournament", "feedback in regions"),
    "feedback_vs_best_of_n": ("Feedback in regions", "the best of as many seeds"),
    "whole_vs_best_of_n": ("Feedback on the whole picture", "the best of as many seeds"),
}
_BY_LEVEL = ("tournament_vs_best_of_n", "feedback_vs_best_of_n")


def verdicts(figures: Mapping[str, Any]) -> list[str]:
    """Say what the intervals of the SGScore's differences allow to say, one sentence each."""
    lines = []
    for name, (ours, theirs) in _CLAIMS.items():
        if gain := figures.get(f"gain.{name}"):
            said = verb(gain, "is not clearly better or worse than")
            levels = [
                f"{level.replace('_', ' ')} {shown(figures[key])}"
                for level in ALL_LEVELS
                if name in _BY_LEVEL and (key := f"{level}.gain.{name}") in figures
            ]
            by_level = f" ({', '.join(levels)})" if levels else ""
            lines.append(f"{ours} {said} {theirs}: {shown(gain)} SGScore{by_level}.")
    return lines


_WORDS = {key: " − ".join(NAMES[name] for name in pair) for key, pair in GAINS.items()}


def markdown(figures: Mapping[str, Any], n: int, date: str) -> str:
    """Return the tables of the results page: by strategy, and the differences."""
    return (
        template("loop_table.md")
        .render(
            figures=figures,
            n=n,
            date=date,
            names={name: words for name, words in NAMES.items() if f"sgscore.{name}" in figures},
            gains={key: words for key, words in _WORDS.items() if f"gain.{key}" in figures},
            levels=[level for level in ALL_LEVELS if f"{level}.sgscore.composition" in figures],
            pictures=PICTURES,
            verdicts=verdicts(figures),
        )
        .rstrip()
    )


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """Draw SGScore and share of all facts, by strategy, for each level and overall."""
    groups = {f"{level}.": level.replace("_", " ") for level in ALL_LEVELS} | {"": "all"}
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
    "5 scenes",
    measures=("scenewright.graphs.strategies",),
    clean=True,
    trials=["set"],
    set=Option(
        None,
        "change a field of the profile, for example weight_missing=0.8; writes no results",
        more={"action": "append", "default": [], "metavar": "FIELD=VALUE"},
    ),
    **scene_options(100, WORK),
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
    study = SceneStudy.of(
        SceneRow,
        measure_scene,
        profile,
        levels=ALL_LEVELS,
        runs=RUNS,
        readings=READINGS,
        pictures=PICTURES,
    )
    rows = study.balanced(options, WORK, quick=len(ALL_LEVELS))
    accuracy, lacking = accuracy_of(profile)
    figures = figures_of(rows, accuracy)
    figures |= asyncio.run(trust_figures(2 if options.quick else PAINTINGS))
    if lacking:
        print(f"Not all is corrected: {lacking}.")
    options.report(len(rows), figures)
    print(markdown(figures, len(rows), "now"))
    if not options.unpublished:
        draw(figures, PICTURE)
        print(f"written to {PICTURE}; make results writes the pages")


if __name__ == "__main__":
    main()

"""What the loop gains on held-out scenes, and against what it is measured.

``python -m benchmarks.loop [--quick]``. Every scene is drawn under eight strategies: bare
triplets, the composed prompt, one and three rounds of feedback as the profile has it, three
rounds on the whole picture as in the paper, feedback without the reference of what is missing
(λ1 = 0) for as many rounds and for as many images, and best of as many seeds as three rounds
may draw images. All are scored by judges
that the loop never saw, as judged and corrected for those judges' measured errors
(``_estimates.py`` says how). Rows are stored scene by scene: the same command goes on after a
kill.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from benchmarks._estimates import Accuracy, accuracies
from benchmarks._figures import figures_of
from benchmarks._loop_report import draw, print_tables
from benchmarks._loop_scenes import balanced_scenes
from benchmarks._miniature_scenes import LEVELS
from benchmarks._pool import PoolError
from benchmarks._report import require_commit, write
from benchmarks._rows import Rows, RowsError, code_digest, fingerprint_of
from benchmarks._scene_rows import collect
from benchmarks._strategies import READINGS, RUNS, SceneRow, measure_scene, overridden
from scenewright.config.settings import BUILT_IN, Profile
from scenewright.core.facts import FactKind
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.model_factory.profiles import RunModels, build_run_models

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "loop.png"
WORK = Path("out/bench-loop")
SCENES = 300
QUICK_SCENES = 6
QUICK_STEPS = 8
"""Denoising steps of ``--quick``: enough to see that all of it works."""


def parse_changes(items: Sequence[str]) -> dict[str, Any]:
    """``["weight_best=0.7"]`` → ``{"weight_best": 0.7}``; values are JSON or else text.

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
    """The measured accuracy of the profile's report judge, and what keeps some of it away."""
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


def fingerprint(profile: Profile, run_models: RunModels) -> str:
    """Names all that decides a row: profile, runs, weights, prompts and code."""
    models: tuple[ImageBackend | Composer | Judge, ...] = (
        *(run_models.backend, run_models.composer),
        *(*run_models.loop_judges, *run_models.report_judges),
    )
    return fingerprint_of(
        {
            "profile": profile.model_dump(mode="json", exclude={"about"}),
            "runs": {
                name: {**dataclasses.asdict(run), "budget": run.budget.model_dump(mode="json")}
                for name, run in RUNS.items()
            },
            "readings": READINGS,
            "models": [[model.id, model.fingerprint] for model in models],
            "code": code_digest(),
        }
    )


def publish(figures: Mapping[str, Any], n: int) -> None:
    """Write the results file and the picture; ``make results`` writes the pages."""
    print(f"written to {write('loop', n, figures).relative_to(ROOT)}")
    draw(figures, PICTURE)
    print(f"written to {PICTURE.relative_to(ROOT)}; make results writes the pages")


def run(arguments: argparse.Namespace, profile: Profile, changed: bool) -> None:
    """Measure, print, and in full mode with nothing changed write the results."""
    if not arguments.quick and not changed:
        require_commit()
    count = QUICK_SCENES if arguments.quick else arguments.scenes
    count += -count % len(LEVELS)
    run_models = asyncio.run(build_run_models(profile))
    with ExitStack() as stack:
        folder = arguments.work
        if folder is None:
            folder = (
                Path(stack.enter_context(tempfile.TemporaryDirectory()))
                if arguments.quick
                else WORK
            )
        name = fingerprint(profile, run_models)
        rows = stack.enter_context(Rows(folder / "rows.jsonl", SceneRow, name))
        scenes = dict(enumerate(balanced_scenes(count)))
        measured = collect(measure_scene, scenes, rows, profile, arguments.processes)
    accuracy, lacking = accuracy_of(profile)
    figures = figures_of(measured, accuracy)
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_tables(figures, console)
    if lacking:
        console.print(f"Not all is corrected: {lacking}.")
    print(f"{len(measured)} scenes, fingerprint {name}")
    if arguments.quick or changed:
        print("quick or changed by --set: nothing is written to benchmarks/results")
    else:
        publish(figures, len(measured))


def main(given: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SCENES} scenes, writes nothing"
    )
    parser.add_argument(
        "--scenes", type=int, default=SCENES, help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="default: one a core"
    )
    parser.add_argument("--work", type=Path, help=f"folder of the rows (default: {WORK})")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a field of the profile, for example weight_missing=0.8; writes no results",
    )
    arguments = parser.parse_args(given)
    if arguments.scenes < 1 or arguments.processes < 1:
        parser.error("--scenes and --processes must be 1 or more")
    try:
        changes = ({"steps": QUICK_STEPS} if arguments.quick else {}) | parse_changes(arguments.set)
        profile = overridden(BUILT_IN["miniature"], changes)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        parser.error(f"--set {place}: {problem['msg']}; fields: {', '.join(Profile.model_fields)}")
    except ValueError as error:
        parser.error(str(error))
    try:
        run(arguments, profile, bool(changes))
    except (PoolError, RowsError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: the same command goes on from here")


if __name__ == "__main__":
    main()

"""Every repair strategy on the same held-out scenes at the same number of images.

``python -m benchmarks.strategies [--quick]``. What each reaches (SGScore and share of all facts, by
judges that the loop never saw), the images it needs, and how many facts that held a round loses;
and the router against each, paired by scene. Rows are stored scene by scene: the same command
goes on after a kill.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._loop_report import shown
from benchmarks._miniature_scenes import LEVELS
from benchmarks._pool import PoolError
from benchmarks._repairs import (
    IMAGES,
    ROUTER,
    RUNS,
    TUNING,
    RepairRow,
    figures_of,
    fingerprint,
    measure_scene,
    scenes_of,
)
from benchmarks._report import require_commit, write
from benchmarks._rows import Rows, RowsError
from benchmarks._scene_rows import collect
from benchmarks._strategies import overridden
from scenewright.config.settings import BUILT_IN
from scenewright.runs.model_factory.profiles import build_run_models

ROOT = Path(__file__).resolve().parent.parent
WORK = Path("out/bench-strategies")
SCENES = 120
QUICK_SCENES = 3
QUICK_STEPS = 8
"""Denoising steps of ``--quick``: enough to see that all of it works."""


def print_tables(figures: Mapping[str, Any], console: Console) -> None:
    """Scores, images and regressions by run; the router's choices."""
    scores = Table(
        *("run", "SGScore", *LEVELS, "all facts", "images", "facts lost a round"),
        title=f"{IMAGES} images at most",
    )
    for name in RUNS:
        scores.add_row(
            name,
            shown(figures.get(f"sgscore.{name}")),
            *(_mean(figures, f"{level}.sgscore.{name}") for level in LEVELS),
            shown(figures.get(f"facts.{name}")),
            _mean(figures, f"images.{name}", 1),
            shown(figures.get(f"regressions.{name}"), 2),
        )
    gains = Table("the router against", "SGScore", "all facts", title="Paired differences")
    for name in RUNS:
        if name != ROUTER:
            pair = (f"gain.{part}router_vs_{name}" for part in ("", "facts_"))
            gains.add_row(name, *(shown(figures.get(key)) for key in pair))
    chosen = Table("the router chose", "share of its rounds", "gave the best picture")
    for name in RUNS:
        if f"chosen.{name}" in figures:
            values = (figures[f"chosen.{name}"], figures[f"helped.{name}"])
            chosen.add_row(name, *(f"{value:.2f}" for value in values))
    for table in (scores, gains, chosen):
        console.print(table)


def verdicts(figures: Mapping[str, Any]) -> list[str]:
    """What the intervals allow to say of the router, one sentence a kind."""
    kinds: dict[str, list[str]] = {"beats": [], "is tied with": [], "falls behind": []}
    for name in RUNS:
        gain = figures.get(f"gain.router_vs_{name}")
        if gain is None:
            continue
        verb = (
            "beats" if gain["low"] > 0 else "falls behind" if gain["high"] < 0 else "is tied with"
        )
        kinds[verb].append(f"{name} ({shown(gain)})")
    return [f"The router {verb} {', '.join(names)}." for verb, names in kinds.items() if names]


def markdown(figures: Mapping[str, Any], n: int, date: str) -> str:
    """Return the table of the results page, with what it says."""
    titles = ["strategy", "SGScore", *LEVELS, "all facts", "images", "facts lost a round"]
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for name in sorted(RUNS, key=lambda run: -figures[f"sgscore.{run}"]["mean"]):
        cells = [
            name,
            shown(figures.get(f"sgscore.{name}")),
            *(_mean(figures, f"{level}.sgscore.{name}") for level in LEVELS),
            shown(figures.get(f"facts.{name}")),
            _mean(figures, f"images.{name}", 1),
            _mean(figures, f"regressions.{name}", 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {line}" for line in verdicts(figures)), ""]
    lines.append(
        f"{n} held-out scenes of the miniature world, at most {IMAGES} images each, references "
        f"included, {date}; in brackets 95% intervals. Scored by judges that the loop never saw; "
        "`feedback-whole`, `schedule` and `masked` redraw the whole picture with λ0 = λ1 = 0.5."
    )
    return "\n".join(lines)


def _mean(figures: Mapping[str, Any], key: str, digits: int = 3) -> str:
    return f"{figures[key]['mean']:.{digits}f}" if key in figures else "–"


def run(arguments: argparse.Namespace) -> None:
    """Measure, print, and write the results of a full run."""
    if not arguments.quick and not arguments.tuning:
        require_commit()
    changes = {"steps": QUICK_STEPS} if arguments.quick else {}
    profile = overridden(BUILT_IN["miniature"], changes)
    count = QUICK_SCENES if arguments.quick else arguments.scenes
    count += -count % len(LEVELS)
    first = TUNING if arguments.tuning else 0
    run_models = asyncio.run(build_run_models(profile))
    name = fingerprint(profile, run_models)
    with ExitStack() as stack:
        folder = arguments.work
        if folder is None and arguments.quick:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = stack.enter_context(Rows((folder or WORK) / "rows.jsonl", RepairRow, name))
        scenes = dict(enumerate(scenes_of(count, first), first))
        measured = collect(measure_scene, scenes, rows, profile, arguments.processes)
    figures = figures_of(measured)
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_tables(figures, console)
    for line in verdicts(figures):
        console.print(line)
    print(f"{len(measured)} scenes, fingerprint {name}")
    if arguments.quick or arguments.tuning:
        print("quick or tuning scenes: nothing is written to benchmarks/results")
        return
    print(f"written to {write('strategies', len(measured), figures).relative_to(ROOT)}")
    print("make results writes the pages")


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
        "--tuning",
        action="store_true",
        help=f"scenes from {TUNING} on, for trying settings out; writes no results",
    )
    arguments = parser.parse_args(given)
    if arguments.scenes < 1 or arguments.processes < 1:
        parser.error("--scenes and --processes must be 1 or more")
    try:
        run(arguments)
    except (PoolError, RowsError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: the same command goes on from here")


if __name__ == "__main__":
    main()

"""What realism in the loop gains, and whether it costs facts.

``python -m benchmarks.realism_loop [--quick]``. Held-out scenes are refined with realism (which
draws the picture again), with ``realism_repair = "inpaint"`` (which draws the least real object
anew in its place), with the control that draws the same prompt from other seeds for the sake of
facts as well, and without realism, at equal numbers of images; and the same from paintings in which
one object is damaged, exactly known. OcR (object-centric realism, 0–1) by an OLIP that the loop
never saw, SGScore by judges that it never saw. Rows are stored scene by scene: the same command
goes on after a kill.

``ocr.gain`` is that of the default, ``ocr.gain_RUN`` that of another run, ``ocr.gain_over_RUN`` the
paired difference; ``painted.`` stands before the figures of the damaged paintings.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._loop_scenes import held_out_scene
from benchmarks._miniature_scenes import LEVELS
from benchmarks._pool import PoolError
from benchmarks._realism_loop import (
    IMAGES,
    RealismRow,
    figures_of,
    fingerprint,
    measure_drawn,
    measure_painted,
    painted_scene,
)
from benchmarks._report import report, require_commit
from benchmarks._rows import Rows, RowsError
from benchmarks._scene_rows import Measure, collect
from benchmarks._strategies import overridden
from scenewright.config.settings import BUILT_IN
from scenewright.core.ports.judge import JudgeError
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory.profiles import build_run_models

WORK = Path("out/bench-realism-loop")
SCENES = 90
QUICK_SCENES = 2
QUICK_IMAGES = 3
QUICK_STEPS = 6
"""Denoising steps of ``--quick``: enough to see that all of it works."""
FIRST = 3000
"""Number of the first scene: no other benchmark uses these."""


def run(arguments: argparse.Namespace) -> None:
    """Measure, print, and write the results of a full run."""
    if not arguments.quick:
        require_commit()
    profile = overridden(BUILT_IN["miniature"], {"steps": QUICK_STEPS} if arguments.quick else {})
    count = QUICK_SCENES if arguments.quick else arguments.scenes
    count += 0 if arguments.quick else -count % len(LEVELS)
    images = QUICK_IMAGES if arguments.quick else IMAGES
    numbers = range(FIRST, FIRST + count)
    run_models = asyncio.run(build_run_models(profile, realism=True))
    name = fingerprint(profile, run_models)
    drawn = {at: held_out_scene(LEVELS[at % len(LEVELS)], at // len(LEVELS)) for at in numbers}
    painted = {at: painted_scene(at)[0] for at in numbers}
    parts: Mapping[str, tuple[Measure[RealismRow], Mapping[int, SceneGraph]]] = {
        "": (measure_drawn, drawn),
        "painted.": (measure_painted, painted),
    }
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = arguments.work
        if folder is None and arguments.quick:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for part, (measure, scenes) in parts.items():
            file = (folder or WORK) / f"{part.rstrip('.') or 'drawn'}.jsonl"
            rows = stack.enter_context(Rows(file, RealismRow, name))
            asked = partial(measure, images=images)
            measured = collect(asked, scenes, rows, profile, arguments.processes, realism=True)
            figures |= figures_of(measured, part)
    report("realism_loop", count, figures, arguments.quick)


def main(given: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SCENES} scenes, writes nothing"
    )
    parser.add_argument(
        "--scenes", type=int, default=SCENES, help="how many of each part (default: %(default)s)"
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="default: one a core"
    )
    parser.add_argument("--work", type=Path, help=f"folder of the rows (default: {WORK})")
    arguments = parser.parse_args(given)
    if arguments.scenes < 1 or arguments.processes < 1:
        parser.error("--scenes and --processes must be 1 or more")
    try:
        run(arguments)
    except (JudgeError, PoolError, RowsError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: the same command goes on from here")


if __name__ == "__main__":
    main()

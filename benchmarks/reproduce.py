"""The studies of Scene-Bench and XTC-Bench on the miniature, beside the papers' figures.

``python -m benchmarks.reproduce [--quick]``, or ``make reproduce``. Scene-Bench's Tables 2 to 4, 7
and 9 and Figures 3, 7, 11 and 12, XTC-Bench's Tables 2 to 4 and Figure 4, the PSG-style score and
the damage of graphs are written in the papers' layouts to ``benchmarks/results/reproduce``, with an
index that says by the numbers what agrees with the papers. Pictures and answers are kept in
``out/reproduce``: the same command goes on after a kill. The same studies run on SDXL by
``scenewright study run all --profile sdxl``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._harness import (
    RESULTS,
    Option,
    benchmark,
    eval_progress,
    figure,
    folder,
    require_commit,
    work_folder,
)
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.errors import EvalError
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.paper import VERDICTS
from scenewright.evals.studies.registry import ALL, STUDIES, studies_named
from scenewright.evals.studies.running import Finished, Job, OnProgress, run_studies
from scenewright.evals.studies.study import MINIATURE, SCENES, Setup

WORK = Path("out/reproduce")
FOLDER = RESULTS / "reproduce"
QUICK_SCENES = 2
QUICK_STEPS = 4
"""Denoising steps of ``--quick``: enough to see that all of it works."""
_SHOWN: dict[str, tuple[tuple[str, str], ...]] = {
    "feedback": (("table4", "sgscore"),),
    "psg": (("psg", "psg"),),
    "xtc": (("xtc4", "ccta"), ("xtc4", "aw_ccta")),
}
"""Study → (table, column) whose measured rows are figures of the benchmark."""


@contextmanager
def watch(job: Job, number: int, of: int) -> Iterator[OnProgress]:
    """Show how far an evaluation or trial is, on the error stream, now and then."""
    began = time.perf_counter()
    name = f"{number}/{of} {job.title}"
    yield eval_progress(name)
    print(f"{name}: done, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def figures_of(done: Sequence[Finished]) -> dict[str, Any]:
    """Return how many statements agree, by verdict, and the main figures of some studies.

    SGScore of Table 4's rows, the PSG-style score by way of drawing, CCTA and AW-CCTA by model.
    """
    figures: dict[str, Any] = {
        name.replace(" ", "_"): sum(
            claim.verdict == name for one in done for claim in one.outcome.claims
        )
        for name in VERDICTS
    }
    for one in done:
        for table_id, column in _SHOWN.get(one.study.name, ()):
            (table,) = (table for table in one.outcome.tables if table.id == table_id)
            at = [c.key for c in table.columns].index(column)
            for row in table.rows:
                found = row.cells[at].measured or Estimate()
                if found.value is not None and found.low is not None:
                    key = f"{column}.{row.key.replace('/', '.')}"
                    figures[key] = figure(found)
    return figures


@benchmark(
    f"{QUICK_SCENES} scenes",
    trials=["only", "out"],
    refused=(DatasetError, EvalError),
    scenes=Option(SCENES[MINIATURE], "scenes", least=2),
    only=Option(None, f"some of {', '.join(STUDIES)}", more={"nargs": "+", "metavar": "STUDY"}),
    work=folder(f"folder of the pictures (default: {WORK})"),
    out=folder("folder of the tables (default: the results)"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Run the studies."""
    try:
        chosen = studies_named(*(options.only or [ALL]))
    except EvalError as error:
        options.refuse(str(error))
    setup = Setup(n=options.scenes)
    if options.quick:
        setup = Setup(n=QUICK_SCENES, seeds=(0,), steps=QUICK_STEPS)
    elif options.out is None:
        require_commit()
    began = time.perf_counter()
    with work_folder(options, WORK) as work:
        out = options.out or (work / "tables" if options.quick else FOLDER)
        done = asyncio.run(run_studies(chosen, setup, out, work=work, watch=watch))
    # Most of it may have been done before: these seconds are not a figure of the studies.
    print(f"{time.perf_counter() - began:.0f} s")
    figures = figures_of(done)
    if not options.quick:
        print(f"tables, plots and index.md are in {out}")
    return setup.scenes, figures


if __name__ == "__main__":
    main()
